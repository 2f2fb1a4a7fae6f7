/** Sends notifications to the configured receivers. Absent from the world if there are none. */
export interface Notifier {
  /** Ids of the receivers. */
  readonly receivers: readonly string[];
  /** Maximum number of stored notifications of one tenant. */
  readonly pendingMax: number;
  /** Reserves one of a bounded number of requests to a receiver; returns its release, or null while all are in use. */
  reserve(receiver: string): (() => void) | null;
  /** Ends within 10 seconds and never rejects. */
  send(receiver: string, message: NotificationMessage): Promise<SendOutcome>;
}

export interface NotificationMessage {
  /** The same in every try. */
  readonly id: string;
  /** The time of this try. */
  readonly atMs: number;
  readonly body: string;
}

export type SendOutcome =
  | { readonly kind: "accepted" }
  /** `why` contains no address and no text of the receiver. `retryAfterMs` is 0 unless the receiver sent `Retry-After`. */
  | { readonly kind: "failed"; readonly why: string; readonly retryAfterMs: number }
  /** The process is stopping. */
  | { readonly kind: "stopped" };
