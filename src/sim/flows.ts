import type { Trace } from "./trace.ts";

/** A message on the way from one process to another. */
export interface SentMessage {
  /** A process; `bus` for a redelivery. */
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly id: string;
  readonly sentMs: number;
  /** When it was delivered or lost. Null: it was on the way, or its process ended before the handler ran. */
  endedMs: number | null;
  /** The index of the trace entry that is its delivery. */
  entry: number | null;
  /** Why it was lost. */
  lost: string | null;
}

/** A hold of a lock, as the lock server sees it. */
export interface LockHold {
  readonly key: string;
  readonly holder: string;
  readonly fence: number;
  readonly fromMs: number;
  /** Null: it was held at the end of the history. */
  toMs: number | null;
  isExpired: boolean;
}

/** The messages and lock holds of a history. Recording them changes neither the history nor its hash. */
export class Flows {
  readonly messages: SentMessage[] = [];
  readonly holds: LockHold[] = [];
  readonly #trace: Trace;
  readonly #nowMs: () => number;

  constructor(trace: Trace, nowMs: () => number) {
    this.#trace = trace;
    this.#nowMs = nowMs;
  }

  send(from: string, to: string, subject: string, id: string, sentMs = this.#nowMs()): SentMessage {
    const message = { from, to, subject, id, sentMs, endedMs: null, entry: null, lost: null };
    this.messages.push(message);
    return message;
  }

  /** Called after the delivery was noted in the trace. */
  delivered(message: SentMessage): void {
    message.endedMs = this.#nowMs();
    message.entry = this.#trace.entries.length - 1;
  }

  lose(message: SentMessage, why: string): void {
    message.endedMs = this.#nowMs();
    message.lost = why;
  }

  hold(key: string, holder: string, fence: number): LockHold {
    const hold = { key, holder, fence, fromMs: this.#nowMs(), toMs: null, isExpired: false };
    this.holds.push(hold);
    return hold;
  }
}
