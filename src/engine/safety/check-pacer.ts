import type { Clock } from "../../ports/clock.ts";

/**
 * Keeps apart what was meant to be apart, up to the last step before a kernel that has just come back.
 *
 * Retries that a policy has spread come each at a time of its own. A process that stands still for a tenth of a second (its
 * garbage, a slow store, a busy machine) finds at once all whose time has come meanwhile: going together, they would be the
 * herd that the policy took apart. So they go through one by one, the faster the more of them wait.
 *
 * 1. After each one it rests for `EASE_MS` divided by how many are left: about that long is what a steady stream waits here,
 *    and what comes in a heap leaves over about that long. Who comes alone goes at once.
 * 2. What was lost is not made up for: the rest begins when somebody went, not when he was to go.
 * 3. It never decides how fast a process can be: beyond `WAITING_MAX` the first goes for each that comes.
 * 4. First come, first served.
 */
export class CheckPacer {
  readonly #waiting: (() => void)[] = [];
  #isResting = false;

  /** Resolves when it is his turn. */
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

/** Nothing to somebody who has waited for seconds, and longer than a process stands still but for a bad day. */
export const EASE_MS = 250;
/** So many wait where a thousand come in a second. */
export const WAITING_MAX = 256;
