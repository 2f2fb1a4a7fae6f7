import { type Acquisition, isSampled, LEVEL_MAX, RECORD_MAX } from "./acquisition.ts";

/**
 * Acquisitions of the current minute in one process, in bounded memory.
 *
 * 1. A full buffer raises the level, which drops whole keys. If one key alone fills it, later acquisitions of that key are
 *    dropped and counted.
 * 2. Over a day a process keeps at most `CREDIT_MAX + 1,440 · CREDIT_PER_MINUTE` acquisitions: quiet minutes save up for
 *    bursts, and continuous contention is sampled more coarsely.
 */
export class ContentionBuffer {
  #acquisitions: Acquisition[] = [];
  readonly #keys = new Map<number, number>();
  #level = 0;
  #dropped = 0;
  #credit = CREDIT_MAX;

  get size(): number {
    return this.#acquisitions.length;
  }

  add(acquisition: Acquisition): void {
    const { key } = acquisition;
    if (!isSampled(key, this.#level)) return;
    if (this.#acquisitions.length >= RECORD_MAX) this.#shrink(RECORD_MAX / 2);
    if (!isSampled(key, this.#level)) return;
    if (this.#acquisitions.length >= RECORD_MAX) {
      this.#dropped += 1;
      return;
    }
    this.#acquisitions.push(acquisition);
    this.#keys.set(key, (this.#keys.get(key) ?? 0) + 1);
  }

  /** Empties the buffer. `minutes` have passed since the last call. */
  take(minutes: number): { readonly acquisitions: readonly Acquisition[]; readonly level: number; dropped: number } {
    this.#credit = Math.min(CREDIT_MAX, this.#credit + Math.floor(minutes * CREDIT_PER_MINUTE));
    this.#shrink(this.#credit);
    const kept = this.#acquisitions.slice(0, this.#credit);
    const taken = {
      acquisitions: kept,
      level: this.#level,
      dropped: this.#dropped + this.#acquisitions.length - kept.length,
    };
    this.#credit -= kept.length;
    this.#acquisitions = [];
    this.#keys.clear();
    this.#level = 0;
    this.#dropped = 0;
    return taken;
  }

  /** Drops keys until at most `max` acquisitions or one key are left. */
  #shrink(max: number): void {
    while (this.#acquisitions.length > max && this.#keys.size > 1 && this.#level < LEVEL_MAX) {
      this.#level += 1;
      const level = this.#level;
      this.#acquisitions = this.#acquisitions.filter(({ key }) => isSampled(key, level));
      for (const key of this.#keys.keys()) if (!isSampled(key, level)) this.#keys.delete(key);
    }
  }
}

export const CREDIT_MAX = RECORD_MAX;
export const CREDIT_PER_MINUTE = 100;
