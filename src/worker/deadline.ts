import type { Cancel, Clock } from "../ports/clock.ts";

/**
 * The end of an attempt as a signal: its time is over, or nobody wants it any more. Made for those who look at it; most
 * work is done long before.
 */
export class Deadline {
  readonly #clock: Clock;
  #atMs: number | undefined;
  #abort: AbortController | null = null;
  #ended: Error | null = null;
  #cancel: Cancel = () => {};

  constructor(clock: Clock, atMs: number | undefined) {
    this.#clock = clock;
    this.#atMs = atMs;
  }

  get signal(): AbortSignal {
    if (this.#abort) return this.#abort.signal;
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#ended) abort.abort(this.#ended);
    else this.#arm();
    return abort.signal;
  }

  get isEnded(): boolean {
    return this.#ended !== null;
  }

  /** Whoever waits for the attempt waits longer. */
  moveTo(atMs: number): void {
    this.#atMs = atMs;
    if (this.#abort && !this.#ended) this.#arm();
  }

  /** Nobody waits for the attempt any more. */
  end(reason: Error): void {
    if (this.#ended) return;
    this.#ended = reason;
    this.#cancel();
    this.#abort?.abort(reason);
  }

  over(): void {
    this.#cancel();
  }

  #arm(): void {
    this.#cancel();
    if (this.#atMs === undefined) return;
    const passed = () => this.#abort?.abort(new Error("the attempt's deadline has passed"));
    this.#cancel = this.#clock.after(this.#atMs - this.#clock.now(), passed);
  }
}
