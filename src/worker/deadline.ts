import type { Cancel, Clock } from "../ports/clock.ts";

/** The end of an attempt as a signal, made for those who look at it: most work is done long before. */
export class Deadline {
  readonly #clock: Clock;
  readonly #atMs: number | undefined;
  #abort: AbortController | null = null;
  #cancel: Cancel = () => {};

  constructor(clock: Clock, atMs: number | undefined) {
    this.#clock = clock;
    this.#atMs = atMs;
  }

  get signal(): AbortSignal {
    if (this.#abort) return this.#abort.signal;
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#atMs !== undefined) {
      const passed = () => abort.abort(new Error("the attempt's deadline has passed"));
      this.#cancel = this.#clock.after(this.#atMs - this.#clock.now(), passed);
    }
    return abort.signal;
  }

  over(): void {
    this.#cancel();
  }
}
