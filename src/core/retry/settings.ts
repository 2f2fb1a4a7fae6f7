/**
 * Default and baseline retry settings: one policy and one budget per class (`retry.<class>.policy`,
 * `retry.<class>.budget`). The baseline differs in its policies only: fixed delays or its backoff helper. Budgets are
 * the same, because failed work must reach the dead letters in both.
 */
import { type Budget, parseBudget } from "./budget.ts";
import type { BusLimits } from "./bus-action.ts";
import { type Policy, parsePolicy } from "./policies.ts";
import type { RetryClass } from "./retry-classes.ts";

export interface RetryRule {
  readonly policy: Policy;
  readonly budget: Budget;
}

export type RetrySettings = Readonly<Record<RetryClass, RetryRule>>;

const POISON_TRIES_MAX = 3;
const POISON_DELAY_MS = 5_000;
const POISON: RetryRule = Object.freeze({
  policy: Object.freeze({ kind: "fixed", delayMs: POISON_DELAY_MS }),
  budget: Object.freeze({ kind: "count", max: POISON_TRIES_MAX }),
});

export const DEFAULT_RETRY: RetrySettings = Object.freeze({
  poison: POISON,
  unclassified: rule("full:1s:30s", "8"),
  lock_busy: rule("bounded:500ms:0.3", "10m"),
  store_unavailable: rule("full:1s:30s", "deadline"),
  safety_unavailable: rule("full:1s:30s", "deadline"),
  no_worker: rule("full:1s:30s", "deadline"),
  throttled: rule("full:1s:30s", "deadline"),
});

export const BASELINE_RETRY: RetrySettings = Object.freeze({
  poison: POISON,
  unclassified: rule("capped_exponential:1s:30s:500ms", "8"),
  lock_busy: rule("fixed:500ms", "10m"),
  store_unavailable: rule("capped_exponential:1s:30s:500ms", "deadline"),
  safety_unavailable: rule("fixed:5s", "deadline"),
  no_worker: rule("capped_exponential:1s:30s:500ms", "deadline"),
  throttled: rule("fixed:5s", "deadline"),
});

/** The poll interval of the polled admission lock. */
export const DEFAULT_ADMISSION_POLL: Policy = Object.freeze(parsePolicy("bounded:10ms:0.5"));
export const BASELINE_ADMISSION_POLL: Policy = Object.freeze(parsePolicy("fixed:10ms"));

export const DEFAULT_BUS_LIMITS: BusLimits = Object.freeze({
  parkAfterMs: 2_000,
  poisonMax: POISON_TRIES_MAX,
  poisonDelayMs: POISON_DELAY_MS,
});
export const BASELINE_BUS_LIMITS: BusLimits = Object.freeze({ ...DEFAULT_BUS_LIMITS, parkAfterMs: null });

function rule(policy: string, budget: string): RetryRule {
  return Object.freeze({ policy: Object.freeze(parsePolicy(policy)), budget: Object.freeze(parseBudget(budget)) });
}
