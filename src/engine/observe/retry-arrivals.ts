import type { RetryClass } from "../../core/retry/classes.ts";

/**
 * How evenly retries come back: arrivals of each class in bins of 50 ms, over the last minute.
 *
 * A herd is a bin with many times the mean. Whoever sets a retry's time notes it here, so that the figure is of what the
 * policies asked for and the parking kept. Memory is bounded: a ring of bins for each class that was ever seen.
 */
export class RetryArrivals {
  readonly #rings = new Map<RetryClass, Ring>();

  /** `atMs` may lie a little ahead, never more than a minute. */
  record(retryClass: RetryClass, atMs: number): void {
    let ring = this.#rings.get(retryClass);
    if (!ring) {
      ring = { counts: new Uint32Array(BINS), bins: new Float64Array(BINS) };
      this.#rings.set(retryClass, ring);
    }
    const bin = Math.floor(atMs / BIN_MS);
    const at = bin % BINS;
    if (ring.bins[at] !== bin) {
      ring.bins[at] = bin;
      ring.counts[at] = 0;
    }
    ring.counts[at] = (ring.counts[at] ?? 0) + 1;
  }

  /** The fullest bin of the last minute over the mean of all its bins; 0 while too few came to say. */
  peakToMean(nowMs: number): ReadonlyMap<RetryClass, number> {
    const last = Math.floor(nowMs / BIN_MS);
    const figures = new Map<RetryClass, number>();
    for (const [retryClass, { counts, bins }] of this.#rings) {
      let [peak, total] = [0, 0];
      for (let at = 0; at < BINS; at++) {
        const [bin, count] = [bins[at] ?? 0, counts[at] ?? 0];
        if (bin > last || bin <= last - BINS) continue;
        peak = Math.max(peak, count);
        total += count;
      }
      figures.set(retryClass, total < ARRIVALS_MIN ? 0 : peak / (total / BINS));
    }
    return figures;
  }
}

interface Ring {
  readonly counts: Uint32Array;
  /** Which bin a place of the ring stands for now. */
  readonly bins: Float64Array;
}

const BIN_MS = 50;
const BINS = 60_000 / BIN_MS;
/** A handful in a minute is never even. */
const ARRIVALS_MIN = 20;
