import { isBudgetExhausted, type RetryState, recordDeliveryFailure } from "./budget.ts";
import type { DeliveryOutcome } from "./bus-action.ts";
import { intentOf } from "./intent.ts";
import { nextDelay, type Random } from "./policies.ts";
import type { RetryClass } from "./retry-classes.ts";
import type { RetrySettings } from "./settings.ts";

export interface FailureContext {
  readonly settings: RetrySettings;
  /** The retry state of the record that the message is about, before this failure. */
  readonly retryState: RetryState;
  readonly nowMs: number;
  /** The deadline of the record; null if it has none. */
  readonly deadlineMs: number | null;
  readonly random: Random;
  /** See `isDeliveryCapNear` in `bus-action.ts`. */
  readonly isDeliveryCapNear?: boolean;
}

export interface Failure {
  readonly outcome: Extract<DeliveryOutcome, { kind: "retryable" | "permanent" }>;
  /** To be stored with the record. */
  readonly retryState: RetryState;
}

/**
 * Turns a thrown error into an outcome and counts it.
 *
 * 1. Every error is `retryable` or `permanent`, never `done`.
 * 2. Only the budget of the error's own class is charged; a permanent error charges none.
 * 3. A stated delay is used as it is. An error without intent gets the delay of the `unclassified` policy.
 */
export function classifyFailure(error: unknown, context: FailureContext): Failure {
  const intent = intentOf(error);
  switch (intent.kind) {
    case "permanent":
      return { outcome: { kind: "permanent" }, retryState: context.retryState };
    case "retry":
      return retryable(intent.retryClass, intent.delayMs, context);
    case "unclassified":
      return retryable("unclassified", delayFor("unclassified", context), context);
    default:
      return intent satisfies never;
  }
}

/** Adapters mark such errors with a code. A stated intent takes precedence. */
export function isStoreAway(error: unknown): boolean {
  if (intentOf(error).kind !== "unclassified") return false;
  const code = (error as { code?: unknown } | null)?.code;
  return code === "STORE_UNAVAILABLE" || code === "BUS_UNAVAILABLE";
}

/** The delay before the next attempt of the class: the value to state with `retryAfter`. */
export function delayFor(
  retryClass: RetryClass,
  { settings, retryState, random }: Pick<FailureContext, "settings" | "retryState" | "random">,
): number {
  const usage = retryState[retryClass];
  return nextDelay(settings[retryClass].policy, (usage?.count ?? 0) + 1, random, usage?.lastDelayMs);
}

function retryable(retryClass: RetryClass, delayMs: number, context: FailureContext): Failure {
  const { settings, nowMs, deadlineMs, isDeliveryCapNear = false } = context;
  const retryState = recordDeliveryFailure(context.retryState, retryClass, nowMs, delayMs);
  const isExhausted = isBudgetExhausted(settings[retryClass].budget, retryState[retryClass], nowMs, deadlineMs);
  return {
    outcome: { kind: "retryable", delayMs, retryClass, isBudgetExhausted: isExhausted, isDeliveryCapNear },
    retryState,
  };
}
