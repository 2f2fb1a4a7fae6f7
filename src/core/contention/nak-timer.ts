import { EventQueue } from "./event-queue.ts";

/** The redelivery timer of a consumer (see `Bus.nakTimerMs`): every nak restarts it, and only it releases due messages. */
export class NakTimer {
  readonly #restartMs: number;
  readonly #waiting = new EventQueue();
  #fireMs = Number.POSITIVE_INFINITY;

  constructor(restartMs: number) {
    this.#restartMs = restartMs;
  }

  /** Infinity without waiting messages. */
  get fireMs(): number {
    return this.#fireMs;
  }

  add(event: number, dueMs: number, nowMs: number): void {
    this.#waiting.push(dueMs, event);
    this.#fireMs = nowMs + this.#restartMs;
  }

  /** The messages that are due at `fireMs`. */
  fire(): readonly number[] {
    const due: number[] = [];
    while (this.#waiting.nextMs <= this.#fireMs) due.push(this.#waiting.pop());
    this.#fireMs = this.#waiting.nextMs + LATE_MS;
    return due;
  }
}

/** The server rounds up to the next millisecond. */
const LATE_MS = 1;
