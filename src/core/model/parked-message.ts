import type { RetryState } from "../retry/budget.ts";
import type { RetryClass } from "../retry/classes.ts";
import type { Placement, Table } from "./table.ts";

/** A message that waits for its next try outside the broker, so that the broker's window stays free for healthy ones. */
export interface Parked {
  readonly subject: string;
  readonly messageId: string;
  /** The packet as it was on the wire. */
  readonly base64: string;
  /** It comes back as these very bytes: its sender may have signed them. */
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
 * How much of each class's budget the retries of one message have used. It stands beside the record that the message is
 * about, not in it: counting a failure must not race with the change that failed.
 */
export interface StoredRetryState {
  readonly patience: RetryState;
  readonly dueMs: number;
}

export const RETRY_STATES: Table<StoredRetryState> = {
  name: "spending",
  placement: (stored): Placement => ({ lists: [], queue: null, counters: [], dueMs: stored.dueMs }),
};
