import type { RetryClass } from "../../core/retry/retry-classes.ts";

/**
 * Retry arrivals per class in bins of 50 ms over the last minute. A thundering herd is a bin with many times the mean.
 * Recorded where the due time is set, so the figure describes what policies asked for. Memory is bounded: one ring of
 * bins per class.
 */
export class RetryArrivals {
  readonly #rings = new Map<RetryClass, Ring>();

  /** `atMs` may be up to a minute ahead. */
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

  /** Peak bin over mean bin of the last minute; 0 with too few arrivals. */
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
  /** The bin number of a ring index. */
  readonly bins: Float64Array;
}

const BIN_MS = 50;
const BINS = 60_000 / BIN_MS;
/** Too few arrivals for a ratio. */
const ARRIVALS_MIN = 20;
