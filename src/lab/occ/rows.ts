/** The rows of `cordum lab occ`: what is set differently in each, and what is measured. Read whenever `cordum` starts. */
import { formatPolicy, nextDelay, type Policy, parsePolicy } from "../../core/retry/policies.ts";
import type { Row } from "../experiment.ts";
import { binned, mean, percentiles } from "../statistics.ts";
import type { Backoff, OccHistory } from "./model.ts";

interface Delays {
  readonly baseMs: number;
  readonly capMs: number;
}

/** What a history says, simulated or live. */
export function measured({ timeMs, callsMs, waitsMs }: OccHistory, clients: number, binMs: number): Omit<Row, "key"> {
  const arrivals = binned(callsMs, binMs);
  return {
    figures: {
      time_ms: timeMs,
      calls: callsMs.length,
      attempts_per_update: callsMs.length / clients,
      wait_ms: percentiles(waitsMs),
      arrivals: { bin_ms: binMs, peak: Math.max(...arrivals), mean: mean(arrivals) },
    },
    series: { arrivals, waits_ms: waitsMs },
  };
}

/** Name → how a client comes back. */
export function backoffOf(name: string, params: Delays): { readonly spelling: string; readonly backoff: Backoff } {
  if (name === "none") return { spelling: "none", backoff: null };
  if (name === "decorrelated_clipped") return { spelling: name, backoff: clipped(params.baseMs, params.capMs) };
  const policy = policyOf(name, params);
  return {
    spelling: formatPolicy(policy),
    backoff: (attempt, random, previousMs) => nextDelay(policy, attempt, random, previousMs),
  };
}

function policyOf(name: string, { baseMs, capMs }: Delays): Policy {
  const spread = `${baseMs}ms:${capMs}ms`;
  if (name === "exponential") return parsePolicy(`capped_exponential:${spread}:0ms`);
  return parsePolicy(name.includes(":") ? name : `${name}:${spread}`);
}

/** Decorrelated jitter as published. */
function clipped(baseMs: number, capMs: number): Backoff {
  return (_attempt, random, previousMs = baseMs) =>
    Math.min(capMs, baseMs + random() * Math.max(0, 3 * previousMs - baseMs));
}
