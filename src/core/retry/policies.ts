/**
 * Retry policies: the delay before the next try.
 *
 * 1. Every policy states its interval for every attempt (attempts count from 1). Every delay is inside it, ends
 *    included. Delays are whole milliseconds.
 * 2. A floor is the lower end of the interval and a cap its upper end. Neither clips: clipping would collect delays on
 *    one value and undo the jitter. `capped_exponential` is the exception: it reproduces the baseline helper, whose
 *    jitter vanishes at the cap, for comparison.
 * 3. No attempt overflows. Invalid attempts, previous delays and random numbers are clamped into range.
 */
import { formatDuration, parseDuration, quote } from "./duration.ts";

export type Policy =
  | { readonly kind: "fixed"; readonly delayMs: number }
  /** `base ± pct`: spreads contenders without a longer mean delay. */
  | { readonly kind: "bounded"; readonly baseMs: number; readonly pct: number }
  /** `min(base·2^attempt + jitter, max)`. */
  | { readonly kind: "capped_exponential"; readonly baseMs: number; readonly maxMs: number; readonly jitterMs: number }
  /** Uniform from the floor to `min(base·2^attempt, max)`. */
  | { readonly kind: "full"; readonly baseMs: number; readonly maxMs: number; readonly floorMs: number }
  /** The upper half of `full`. */
  | { readonly kind: "equal"; readonly baseMs: number; readonly maxMs: number }
  /** Uniform from the base to `min(3·previous, max)`. */
  | { readonly kind: "decorrelated"; readonly baseMs: number; readonly maxMs: number };

export interface Interval {
  readonly loMs: number;
  readonly hiMs: number;
}

/** From 0 (included) to 1 (excluded). */
export type Random = () => number;

export const POLICY_LIMITS = { delayMsMin: 1, delayMsMax: 24 * 3_600_000, pctMax: 10 } as const;

/** Without the previous delay, `decorrelated` assumes the longest possible one. */
export function interval(policy: Policy, attempt: number, previousMs?: number): Interval {
  switch (policy.kind) {
    case "fixed":
      return { loMs: policy.delayMs, hiMs: policy.delayMs };
    case "bounded": {
      const spreadMs = spreadOf(policy.baseMs, policy.pct);
      return { loMs: Math.max(0, policy.baseMs - spreadMs), hiMs: policy.baseMs + spreadMs };
    }
    case "capped_exponential": {
      const loMs = growth(policy, 2, attempt);
      return { loMs, hiMs: Math.min(loMs + policy.jitterMs, policy.maxMs) };
    }
    case "full":
      return { loMs: policy.floorMs, hiMs: growth(policy, 2, attempt) };
    case "equal": {
      const hiMs = growth(policy, 2, attempt);
      return { loMs: Math.ceil(hiMs / 2), hiMs };
    }
    case "decorrelated": {
      if (previousMs === undefined) return { loMs: policy.baseMs, hiMs: growth(policy, 3, attempt) };
      // NaN counts as the base.
      const fromMs = previousMs > policy.baseMs ? Math.floor(previousMs) : policy.baseMs;
      return { loMs: policy.baseMs, hiMs: Math.min(3 * fromMs, policy.maxMs) };
    }
    default:
      return policy satisfies never;
  }
}

/** The delay after `attempt` failed tries. */
export function nextDelay(policy: Policy, attempt: number, random: Random, previousMs?: number): number {
  const { loMs, hiMs } = interval(policy, attempt, previousMs);
  // Clipped like the baseline helper; other policies draw from the whole interval.
  if (policy.kind === "capped_exponential") return Math.min(loMs + draw(random, 0, policy.jitterMs), hiMs);
  return draw(random, loMs, hiMs);
}

/** Whether delays stay spread on every attempt. The baseline policies do not: at once, or at the cap. */
export const isSpreading = ({ kind }: Policy): boolean => kind !== "fixed" && kind !== "capped_exponential";

/** Parses the config syntax, such as `bounded:500ms:0.3`. */
export function parsePolicy(text: string): Policy {
  const [kind = "", ...parts] = text.trim().split(":");
  if (!isKind(kind)) {
    const examples = Object.values(SYNTAX).map(({ example }) => quote(example));
    throw new Error(`unknown retry policy ${quote(text)}; examples are ${examples.join(", ")}`);
  }
  try {
    return checkConsistency(build(kind, parts));
  } catch (error) {
    const why = (error as Error).message;
    throw new Error(`retry policy ${quote(text)}: ${why}; an example is ${quote(SYNTAX[kind].example)}`);
  }
}

/** The inverse of `parsePolicy`. */
export function formatPolicy(policy: Policy): string {
  const durations = (...ms: number[]) => [policy.kind, ...ms.map(formatDuration)].join(":");
  switch (policy.kind) {
    case "fixed":
      return durations(policy.delayMs);
    case "bounded":
      return `${durations(policy.baseMs)}:${policy.pct}`;
    case "capped_exponential":
      return durations(policy.baseMs, policy.maxMs, policy.jitterMs);
    case "full":
      return policy.floorMs > 0
        ? durations(policy.baseMs, policy.maxMs, policy.floorMs)
        : durations(policy.baseMs, policy.maxMs);
    case "equal":
    case "decorrelated":
      return durations(policy.baseMs, policy.maxMs);
    default:
      return policy satisfies never;
  }
}

const SYNTAX: Readonly<Record<Policy["kind"], { example: string; partsMin: number; partsMax: number }>> = {
  fixed: { example: "fixed:500ms", partsMin: 1, partsMax: 1 },
  bounded: { example: "bounded:500ms:0.3", partsMin: 2, partsMax: 2 },
  capped_exponential: { example: "capped_exponential:1s:30s:500ms", partsMin: 3, partsMax: 3 },
  full: { example: "full:1s:30s", partsMin: 2, partsMax: 3 },
  equal: { example: "equal:1s:30s", partsMin: 2, partsMax: 2 },
  decorrelated: { example: "decorrelated:1s:30s", partsMin: 2, partsMax: 2 },
};

function isKind(text: string): text is Policy["kind"] {
  return Object.hasOwn(SYNTAX, text);
}

function build(kind: Policy["kind"], parts: readonly string[]): Policy {
  const { partsMin, partsMax } = SYNTAX[kind];
  if (parts.length < partsMin) throw new Error(`${partsMin} values expected, got ${parts.length}`);
  if (parts.length > partsMax) throw new Error(`unexpected ${quote(parts.slice(partsMax).join(":"))}`);
  const [first = "", second = "", third = "0ms"] = parts;
  switch (kind) {
    case "fixed":
      return { kind, delayMs: parseDelay(first) };
    case "bounded":
      return { kind, baseMs: parseDelay(first), pct: parseShare(second) };
    case "capped_exponential":
      return { kind, baseMs: parseDelay(first), maxMs: parseDelay(second), jitterMs: parseExtra(third) };
    case "full":
      return { kind, baseMs: parseDelay(first), maxMs: parseDelay(second), floorMs: parseExtra(third) };
    case "equal":
    case "decorrelated":
      return { kind, baseMs: parseDelay(first), maxMs: parseDelay(second) };
    default:
      return kind satisfies never;
  }
}

function checkConsistency(policy: Policy): Policy {
  if ("maxMs" in policy && policy.baseMs > policy.maxMs) {
    const [base, max] = [formatDuration(policy.baseMs), formatDuration(policy.maxMs)];
    throw new Error(`the base \`${base}\` is longer than the maximum \`${max}\``);
  }
  if (policy.kind === "fixed" || policy.kind === "capped_exponential") return policy;
  // Intervals only widen, so the first one decides.
  const { loMs, hiMs } = interval(policy, 1);
  if (hiMs - loMs < 1) {
    const [lo, hi] = [formatDuration(loMs), formatDuration(hiMs)];
    throw new Error(`no room for jitter: the first delay would be between \`${lo}\` and \`${hi}\``);
  }
  return policy;
}

function parseDelay(text: string): number {
  return parseDuration(text, { msMin: POLICY_LIMITS.delayMsMin, msMax: POLICY_LIMITS.delayMsMax });
}

/** A floor or a jitter; may be 0. */
function parseExtra(text: string): number {
  return parseDuration(text, { msMin: 0, msMax: POLICY_LIMITS.delayMsMax });
}

function parseShare(text: string): number {
  const share = /^\d{1,2}(?:\.\d{1,4})?$/.test(text) ? Number(text) : Number.NaN;
  if (share > 0 && share <= POLICY_LIMITS.pctMax) return share;
  throw new Error(
    `${quote(text)} is not a fraction above 0 and at most ${POLICY_LIMITS.pctMax}, with at most 4 decimals`,
  );
}

/** `min(base·factor^attempt, max)`. The exponent is capped at 64 to avoid overflow. */
function growth(policy: { baseMs: number; maxMs: number }, factor: number, attempt: number): number {
  const exponent = attempt >= 1 ? Math.min(Math.floor(attempt), 64) : 1;
  return Math.min(policy.baseMs * factor ** exponent, policy.maxMs);
}

/** Rounded down to stay within `base ± pct`; the epsilon corrects floating point (100 · 0.29 is 28.999…). */
function spreadOf(baseMs: number, pct: number): number {
  return Math.floor(baseMs * pct + 1e-6);
}

/** A uniform integer from lo to hi. Draws no random number if they are equal. */
function draw(random: Random, loMs: number, hiMs: number): number {
  if (hiMs <= loMs) return loMs;
  const share = random();
  const steps = share > 0 ? Math.floor(share * (hiMs - loMs + 1)) : 0;
  return Math.min(loMs + steps, hiMs);
}
