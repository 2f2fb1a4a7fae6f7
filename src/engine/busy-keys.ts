/**
 * Which locks were busy when this process asked for them, over the last minute: where the queue is polled instead of
 * waited in, it is the only sign of a hot key. Memory is bounded: keys beyond the first thousands of a bin are not counted.
 */
export class BusyKeys {
  readonly #bins = Array.from({ length: BINS }, (): Bin => ({ number: -BINS, counts: new Map() }));

  note(key: string, nowMs: number): void {
    const { counts } = this.#binAt(Math.floor(nowMs / BIN_MS));
    const count = counts.get(key);
    if (count !== undefined || counts.size < KEYS_MAX) counts.set(key, (count ?? 0) + 1);
  }

  lastMinute(key: string, nowMs: number): number {
    const last = Math.floor(nowMs / BIN_MS);
    let sum = 0;
    for (const { number, counts } of this.#bins) {
      if (number <= last && number > last - BINS) sum += counts.get(key) ?? 0;
    }
    return sum;
  }

  #binAt(number: number): Bin {
    const place = number % BINS;
    const there = this.#bins[place];
    if (there?.number === number) return there;
    const bin: Bin = { number, counts: new Map() };
    this.#bins[place] = bin;
    return bin;
  }
}

interface Bin {
  /** Which one since the epoch. */
  readonly number: number;
  readonly counts: Map<string, number>;
}

const BIN_MS = 10_000;
const BINS = 60_000 / BIN_MS;
const KEYS_MAX = 10_000;
