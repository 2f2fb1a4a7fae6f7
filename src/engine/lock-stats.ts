/**
 * Lock contention as this process sees it: consecutive busy answers per key, and the events that busy answers refused in
 * the last minute, in bins of ten seconds. Memory is bounded: keys beyond `KEYS_MAX` are not counted.
 */
export class LockStats {
  readonly #consecutive = new Map<string, number>();
  readonly #bins = Array.from({ length: BINS }, (): Bin => ({ number: -BINS, counts: new Map() }));

  /** Returns the number of consecutive busy answers for the key. */
  recordBusy(key: string, nowMs: number): number {
    this.recordRefused(key, nowMs);
    const count = (this.#consecutive.get(key) ?? 0) + 1;
    if (this.#consecutive.size >= KEYS_MAX) this.#consecutive.clear();
    this.#consecutive.set(key, count);
    return count;
  }

  /** An event that waited for an acquisition which was answered with busy. */
  recordRefused(key: string, nowMs: number): void {
    const { counts } = this.#binAt(Math.floor(nowMs / BIN_MS));
    const inBin = counts.get(key);
    if (inBin !== undefined || counts.size < KEYS_MAX) counts.set(key, (inBin ?? 0) + 1);
  }

  /** Returns the number of consecutive busy answers before this acquisition. */
  recordAcquired(key: string): number {
    const count = this.#consecutive.get(key) ?? 0;
    if (count > 0) this.#consecutive.delete(key);
    return count;
  }

  /** Events refused in the last minute, by key. */
  busyLastMinute(nowMs: number): ReadonlyMap<string, number> {
    const last = Math.floor(nowMs / BIN_MS);
    const sums = new Map<string, number>();
    for (const { number, counts } of this.#bins) {
      if (number > last || number <= last - BINS) continue;
      for (const [key, count] of counts) sums.set(key, (sums.get(key) ?? 0) + count);
    }
    return sums;
  }

  #binAt(number: number): Bin {
    const index = number % BINS;
    const current = this.#bins[index];
    if (current?.number === number) return current;
    const bin: Bin = { number, counts: new Map() };
    this.#bins[index] = bin;
    return bin;
  }
}

interface Bin {
  /** Bin index since the epoch. */
  readonly number: number;
  readonly counts: Map<string, number>;
}

const BIN_MS = 10_000;
const BINS = 60_000 / BIN_MS;
const KEYS_MAX = 10_000;
