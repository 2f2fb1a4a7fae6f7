import type { RetryState } from "../retry/budget.ts";
import type { RetryClass } from "../retry/retry-classes.ts";
import type { Placement, Table } from "./table.ts";

/** A message that waits for its retry in the store, so that it does not occupy the broker's ack window. */
export interface Parked {
  readonly subject: string;
  readonly messageId: string;
  /** The packet as received. */
  readonly base64: string;
  /** Resend the bytes unchanged: the sender may have signed them. */
  readonly isVerbatim?: true;
  readonly retryClass: RetryClass;
  readonly reason: string;
  readonly parkedMs: number;
  readonly dueMs: number;
}

export const PARKED: Table<Parked> = {
  name: "parked",
  placement: (parked): Placement => ({
    lists: [],
    queue: null,
    counters: [{ group: PARKED_GROUP, name: parked.retryClass }],
    dueMs: parked.dueMs,
  }),
};
export const PARKED_GROUP = "parked";

/**
 * The retry usage of one message, per class. It is separate from the record the message is about, so that counting a
 * failure does not conflict with the write that failed.
 */
export interface StoredRetryState {
  readonly patience: RetryState;
  readonly dueMs: number;
}

export const RETRY_STATES: Table<StoredRetryState> = {
  name: "spending",
  placement: (stored): Placement => ({ lists: [], queue: null, counters: [], dueMs: stored.dueMs }),
};
