import type { Clock } from "../../ports/clock.ts";

/**
 * Paces safety checks after an outage, so that retries that became due during a stall do not reach the kernel as one
 * burst. A stall is a pause of this process: garbage collection, a slow store, a busy machine.
 *
 * 1. After each check the pacer waits `EASE_MS` divided by the number of waiting checks. A single check passes at once;
 *    a burst leaves over about `EASE_MS`.
 * 2. Lost time is not made up for: the wait starts when a check passes.
 * 3. It never limits throughput: beyond `WAITING_MAX` each new check releases the first.
 * 4. First in, first out.
 */
export class CheckPacer {
  readonly #waiting: (() => void)[] = [];
  #isResting = false;

  /** Resolves when the check may pass. */
  pass(clock: Clock): Promise<void> {
    if (!this.#isResting) {
      this.#rest(clock);
      return Promise.resolve();
    }
    return new Promise((go) => {
      this.#waiting.push(go);
      if (this.#waiting.length > WAITING_MAX) this.#waiting.shift()?.();
    });
  }

  #rest(clock: Clock): void {
    this.#isResting = true;
    clock.after(Math.ceil(EASE_MS / (this.#waiting.length + 1)), () => {
      this.#isResting = false;
      const go = this.#waiting.shift();
      if (go === undefined) return;
      go();
      this.#rest(clock);
    });
  }
}

/** Short for a check that waited for seconds; longer than most stalls. */
export const EASE_MS = 250;
/** Reached at about a thousand checks a second. */
export const WAITING_MAX = 256;
