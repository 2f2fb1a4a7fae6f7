/**
 * What a failure comes to: its intent, booked on the account of its class.
 *
 * 1. Whatever was thrown, the outcome is `retryable` or `permanent`; there is no way from here to `done`.
 * 2. Only the account of the failure's own class is touched, and a permanent failure touches none.
 * 3. A stated delay is obeyed; a failure that states nothing gets the delay of the `unclassified` policy.
 */
import { isBudgetExhausted, type RetryState, recordFailure } from "./budget.ts";
import type { RetryClass } from "./classes.ts";
import { intentOf } from "./intent.ts";
import type { Outcome } from "./outcome.ts";
import { nextDelay, type Random } from "./policies.ts";
import type { RetrySettings } from "./settings.ts";

export interface Circumstances {
  readonly settings: RetrySettings;
  /** The accounts of the record that the message is about, before this failure. */
  readonly retryState: RetryState;
  readonly nowMs: number;
  /** The deadline of the record itself; null if it has none. */
  readonly deadlineMs: number | null;
  readonly random: Random;
  /** See `isDeliveryCapNear`. */
  readonly deliveryCapNear?: boolean;
}

export interface Judgement {
  readonly outcome: Extract<Outcome, { kind: "retryable" | "permanent" }>;
  /** To be stored with the record. */
  readonly retryState: RetryState;
}

export function judgeFailure(error: unknown, circumstances: Circumstances): Judgement {
  const intent = intentOf(error);
  switch (intent.kind) {
    case "permanent":
      return { outcome: { kind: "permanent" }, retryState: circumstances.retryState };
    case "retry":
      return book(intent.retryClass, intent.delayMs, circumstances);
    case "unclassified":
      return book("unclassified", delayFor("unclassified", circumstances), circumstances);
    default:
      return intent satisfies never;
  }
}

/** By shape, like every intent: an adapter says so with a code. An intent that was stated goes before. */
export function isStoreAway(error: unknown): boolean {
  if (intentOf(error).kind !== "unclassified") return false;
  const code = (error as { code?: unknown } | null)?.code;
  return code === "STORE_UNAVAILABLE" || code === "BUS_UNAVAILABLE";
}

/** The delay that a class gives its next try: what to state with `retryAfter`. */
export function delayFor(
  retryClass: RetryClass,
  { settings, retryState, random }: Pick<Circumstances, "settings" | "retryState" | "random">,
): number {
  const spent = retryState[retryClass];
  return nextDelay(settings[retryClass].policy, (spent?.count ?? 0) + 1, random, spent?.lastDelayMs);
}

function book(retryClass: RetryClass, delayMs: number, circumstances: Circumstances): Judgement {
  const { settings, nowMs, deadlineMs, deliveryCapNear = false } = circumstances;
  const retryState = recordFailure(circumstances.retryState, retryClass, nowMs, delayMs);
  const spent = isBudgetExhausted(settings[retryClass].budget, retryState[retryClass], nowMs, deadlineMs);
  return { outcome: { kind: "retryable", delayMs, retryClass, spent, deliveryCapNear }, retryState };
}
