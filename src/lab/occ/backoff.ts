/** The retry delays of `cordum lab occ` by row name. Loaded on every start of `cordum`. */
import { formatPolicy, nextDelay, type Policy, parsePolicy } from "../../core/retry/policies.ts";

/** The delay before a retry; null for no delay. */
export type Backoff = ((attempt: number, random: () => number, previousMs: number | undefined) => number) | null;

interface Delays {
  readonly baseMs: number;
  readonly capMs: number;
}

/** `spelling` is the policy in config syntax. */
export function backoffOf(name: string, delays: Delays): { readonly spelling: string; readonly backoff: Backoff } {
  if (name === "none") return { spelling: name, backoff: null };
  if (name === "decorrelated_clipped") return { spelling: name, backoff: clipped(delays) };
  const policy = policyOf(name, delays);
  return {
    spelling: formatPolicy(policy),
    backoff: (attempt, random, previousMs) => nextDelay(policy, attempt, random, previousMs),
  };
}

function policyOf(name: string, { baseMs, capMs }: Delays): Policy {
  const range = `${baseMs}ms:${capMs}ms`;
  if (name === "exponential") return parsePolicy(`capped_exponential:${range}:0ms`);
  return parsePolicy(name.includes(":") ? name : `${name}:${range}`);
}

/** Decorrelated jitter as published: delays above the cap become the cap. */
function clipped({ baseMs, capMs }: Delays): Backoff {
  return (_attempt, random, previousMs = baseMs) =>
    Math.min(capMs, baseMs + random() * Math.max(0, 3 * previousMs - baseMs));
}
