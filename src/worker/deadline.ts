import type { Cancel, Clock } from "../ports/clock.ts";

/** The abort signal of an attempt: fires at its deadline or on cancellation. Created on first use. */
export class Deadline {
  readonly #clock: Clock;
  #atMs: number | undefined;
  #abort: AbortController | null = null;
  #cancelReason: Error | null = null;
  #cancelTimer: Cancel = () => {};

  constructor(clock: Clock, atMs: number | undefined) {
    this.#clock = clock;
    this.#atMs = atMs;
  }

  get signal(): AbortSignal {
    if (this.#abort) return this.#abort.signal;
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#cancelReason) abort.abort(this.#cancelReason);
    else this.#setTimer();
    return abort.signal;
  }

  get isCancelled(): boolean {
    return this.#cancelReason !== null;
  }

  /** The control plane has extended the attempt. */
  extendTo(atMs: number): void {
    this.#atMs = atMs;
    if (this.#abort && !this.#cancelReason) this.#setTimer();
  }

  /** The attempt was cancelled or its lease lost. */
  cancel(reason: Error): void {
    if (this.#cancelReason) return;
    this.#cancelReason = reason;
    this.#cancelTimer();
    this.#abort?.abort(reason);
  }

  dispose(): void {
    this.#cancelTimer();
  }

  #setTimer(): void {
    this.#cancelTimer();
    if (this.#atMs === undefined) return;
    const passed = () => this.#abort?.abort(new Error("the deadline of the attempt has passed"));
    this.#cancelTimer = this.#clock.after(this.#atMs - this.#clock.now(), passed);
  }
}
