/**
 * From what became of a delivery to what the bus is told: the one place where that is decided.
 *
 * 1. Only `done` is acknowledged as done. Whatever failed is redelivered, parked, or written to the dead letters.
 * 2. Nothing is finished before it is safe elsewhere: after `park` and `deadLetter` the caller writes first, and
 *    `afterPark` and `afterDeadLetter` say what the outcome of the write allows.
 * 3. A new kind of outcome does not compile until it is mapped.
 */
import type { RetryClass } from "./classes.ts";
import { clampDelay } from "./duration.ts";

export type Outcome =
  | { readonly kind: "done" }
  /** The bytes could not be read; `delivery` counts from 1. */
  | { readonly kind: "undecodable"; readonly delivery: number }
  | {
      readonly kind: "retryable";
      readonly delayMs: number;
      readonly retryClass: RetryClass;
      /** The budget of the class is used up. */
      readonly spent: boolean;
      /** See `isDeliveryCapNear`. */
      readonly deliveryCapNear?: boolean;
    }
  | { readonly kind: "permanent" };

export type BusAction =
  | { readonly kind: "ack" }
  | { readonly kind: "nak" }
  | { readonly kind: "nakDelay"; readonly delayMs: number }
  /** Write it to the store with its due time, then see `afterPark`. */
  | { readonly kind: "park"; readonly delayMs: number }
  /** Write it to the dead letters with its payload, then see `afterDeadLetter`. */
  | { readonly kind: "deadLetter"; readonly reason: DeadLetterReason };

/** Why something stands among the dead letters. `timeout` is said of jobs alone. */
export type DeadLetterReason = "permanent" | "undecodable" | "budget" | "timeout";

export interface BusLimits {
  /**
   * Longer waits leave the broker: a delayed message still fills its window of unacknowledged ones, and enough of them
   * stop every healthy message. Null: nothing is ever parked.
   */
  readonly parkAfterMs: number | null;
  /** So many undecodable deliveries of one message are tried again. */
  readonly poisonMax: number;
  readonly poisonDelayMs: number;
}

export function actionFor(outcome: Outcome, limits: BusLimits): BusAction {
  switch (outcome.kind) {
    case "done":
      return { kind: "ack" };
    case "permanent":
      return { kind: "deadLetter", reason: "permanent" };
    case "undecodable":
      // Counted by the broker, for once: bytes that cannot be read belong to no record that could keep the account.
      if (outcome.delivery > limits.poisonMax) return { kind: "deadLetter", reason: "undecodable" };
      return nakAfter(limits.poisonDelayMs);
    case "retryable": {
      if (outcome.spent) return { kind: "deadLetter", reason: "budget" };
      const { parkAfterMs } = limits;
      if (outcome.deliveryCapNear) {
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

/** A parked message is in the store, so the broker may forget it; or it is not, and the broker keeps it. */
export function afterPark(written: boolean, delayMs: number): { kind: "ack" } | { kind: "nakDelay"; delayMs: number } {
  return written ? { kind: "ack" } : nakLater(delayMs);
}

/** Only what stands in the dead letters is finished. */
export function afterDeadLetter(
  written: boolean,
  delayMs: number,
): { kind: "term" } | { kind: "nakDelay"; delayMs: number } {
  return written ? { kind: "term" } : nakLater(delayMs);
}

/**
 * Whether the broker will soon give up on this message. A nak on its last delivery does nothing and the message is gone
 * without a word; and so it is when nobody lives to answer the last few. So from half the cap on it is parked, and comes
 * back as a new message. Where nothing is parked it becomes a dead letter, at nine tenths: the founding system used its
 * cap almost up. `deliverMax` below 1 means that the broker never gives up.
 */
export function isDeliveryCapNear(delivery: number, deliverMax: number, canPark: boolean): boolean {
  return deliverMax >= 1 && delivery >= Math.floor(deliverMax * (canPark ? 0.5 : 0.9));
}

/** A store that just failed is not asked again at once, whatever delay the message had. */
const WRITE_RETRY_MS = 1_000;

function nakLater(delayMs: number): { kind: "nakDelay"; delayMs: number } {
  return { kind: "nakDelay", delayMs: wholeMs(delayMs) || WRITE_RETRY_MS };
}

function nakAfter(delayMs: number): BusAction {
  const wholeDelayMs = wholeMs(delayMs);
  return wholeDelayMs > 0 ? { kind: "nakDelay", delayMs: wholeDelayMs } : { kind: "nak" };
}

function parkFor(delayMs: number): BusAction {
  return { kind: "park", delayMs: wholeMs(delayMs) };
}

/** Brokers and due times take integers. Upwards, so that a short wait does not become none. */
function wholeMs(delayMs: number): number {
  return Math.ceil(clampDelay(delayMs));
}
