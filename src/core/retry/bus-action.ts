import { clampDelay } from "./duration.ts";
import type { RetryClass } from "./retry-classes.ts";

/**
 * The outcome of a delivery, and the action that follows from it. `actionFor` is the only mapping and is exhaustive: a new
 * outcome does not compile until it is mapped.
 *
 * 1. Only `done` is acknowledged as done. A failed message is redelivered, parked or written to the dead letters.
 * 2. `park` and `deadLetter` are writes that come before the settlement; `afterPark` and `afterDeadLetter` choose the
 *    settlement by the result of the write.
 */
export type DeliveryOutcome =
  | { readonly kind: "done" }
  /** `delivery` counts from 1. */
  | { readonly kind: "undecodable"; readonly delivery: number }
  | {
      readonly kind: "retryable";
      readonly delayMs: number;
      readonly retryClass: RetryClass;
      readonly isBudgetExhausted: boolean;
      /** See `isDeliveryCapNear`. */
      readonly isDeliveryCapNear?: boolean;
    }
  | { readonly kind: "permanent" };

export type BusAction =
  | { readonly kind: "ack" }
  | { readonly kind: "nak" }
  | { readonly kind: "nakDelay"; readonly delayMs: number }
  | { readonly kind: "term" }
  | { readonly kind: "park"; readonly delayMs: number }
  | { readonly kind: "deadLetter"; readonly reason: DeadLetterReason };

/** The actions that a broker executes. */
export type Settlement = Exclude<BusAction, { readonly kind: "park" | "deadLetter" }>;

/** `timeout` and `budget_exhausted` (of the policy) occur on jobs only; `budget` is that of a retry class. */
export type DeadLetterReason = "permanent" | "undecodable" | "budget" | "timeout" | "budget_exhausted";

export interface BusLimits {
  /** Longer delays are parked, because a delayed message occupies the broker's ack window. Null: nothing is parked. */
  readonly parkAfterMs: number | null;
  /** Undecodable deliveries of one message that are retried. */
  readonly poisonMax: number;
  readonly poisonDelayMs: number;
}

export function actionFor(outcome: DeliveryOutcome, limits: BusLimits): BusAction {
  switch (outcome.kind) {
    case "done":
      return { kind: "ack" };
    case "permanent":
      return { kind: "deadLetter", reason: "permanent" };
    case "undecodable":
      // The broker's delivery count, because undecodable bytes belong to no record that could hold a budget.
      if (outcome.delivery > limits.poisonMax) return { kind: "deadLetter", reason: "undecodable" };
      return nakAfter(limits.poisonDelayMs);
    case "retryable": {
      if (outcome.isBudgetExhausted) return { kind: "deadLetter", reason: "budget" };
      const { parkAfterMs } = limits;
      if (outcome.isDeliveryCapNear) {
        return parkAfterMs === null ? { kind: "deadLetter", reason: "budget" } : parkFor(outcome.delayMs);
      }
      return parkAfterMs !== null && outcome.delayMs > parkAfterMs
        ? parkFor(outcome.delayMs)
        : nakAfter(outcome.delayMs);
    }
    default:
      return outcome satisfies never;
  }
}

/** A message that was not parked stays with the broker. */
export function afterPark(isWritten: boolean, delayMs: number): Settlement {
  return isWritten ? { kind: "ack" } : nakLater(delayMs);
}

/** A message without a written dead letter is never terminated. */
export function afterDeadLetter(isWritten: boolean, delayMs: number): Settlement {
  return isWritten ? { kind: "term" } : nakLater(delayMs);
}

/**
 * True once the broker may soon drop the message: a nak on its last delivery is never redelivered (L3). From half of the
 * cap the message is parked and redelivered as a new one. Without parking it becomes a dead letter at nine tenths, as in
 * the baseline. `deliverMax` below 1 means no cap.
 */
export function isDeliveryCapNear(delivery: number, deliverMax: number, canPark: boolean): boolean {
  return deliverMax >= 1 && delivery >= Math.floor(deliverMax * (canPark ? 0.5 : 0.9));
}

/** The shortest delay after a failed write. */
const WRITE_RETRY_MS = 1_000;

function nakLater(delayMs: number): Settlement {
  return { kind: "nakDelay", delayMs: wholeMs(delayMs) || WRITE_RETRY_MS };
}

function nakAfter(delayMs: number): BusAction {
  const wholeDelayMs = wholeMs(delayMs);
  return wholeDelayMs > 0 ? { kind: "nakDelay", delayMs: wholeDelayMs } : { kind: "nak" };
}

function parkFor(delayMs: number): BusAction {
  return { kind: "park", delayMs: wholeMs(delayMs) };
}

/** Brokers and due times take integers. Rounded up, so that a short delay does not become zero. */
function wholeMs(delayMs: number): number {
  return Math.ceil(clampDelay(delayMs));
}
