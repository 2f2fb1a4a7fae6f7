import type { RetryClass } from "../../core/retry/retry-classes.ts";

/**
 * Retry arrivals per class in bins of 50 ms over the last minute. A thundering herd is a bin with many times the mean.
 * Recorded where the due time is set, so the figure describes what policies asked for. Memory is bounded: one ring of
 * bins per class.
 */
export class RetryArrivals {
  readonly #rings = new Map<RetryClass, Ring>();
  readonly #armRings = new Map<string, Ring>();

  /** `atMs` may be up to a minute ahead. `arm`: of a unit that takes part in a rollout. */
  record(retryClass: RetryClass, atMs: number, arm?: string): void {
    recordIn(this.#rings, retryClass, atMs);
    if (arm === "control" || arm === "treatment") recordIn(this.#armRings, `${retryClass} ${arm}`, atMs);
  }

  /** The bins of the last minute, oldest first; only series with arrivals. Those of the arms are part of that of the class. */
  series(nowMs: number): readonly ArrivalSeries[] {
    const all: ArrivalSeries[] = [];
    for (const [retryClass, ring] of this.#rings) all.push({ retryClass, arm: null, counts: countsIn(ring, nowMs) });
    for (const [key, ring] of this.#armRings) {
      const [retryClass = "", arm = ""] = key.split(" ");
      all.push({ retryClass, arm, counts: countsIn(ring, nowMs) });
    }
    return all.filter(({ counts }) => counts.some((count) => count > 0));
  }

  /** Arrivals per second and class over the last ten seconds. */
  rates(nowMs: number): ReadonlyMap<RetryClass, number> {
    const sums = [...this.#rings].map(([retryClass, ring]) => {
      const total = countsIn(ring, nowMs)
        .slice(-RATE_BINS)
        .reduce((sum, count) => sum + count, 0);
      return [retryClass, total / ((RATE_BINS * BIN_MS) / 1_000)] as const;
    });
    return new Map(sums);
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

export interface ArrivalSeries {
  readonly retryClass: string;
  /** Null: all arrivals of the class. */
  readonly arm: string | null;
  readonly counts: readonly number[];
}

function recordIn<K>(rings: Map<K, Ring>, key: K, atMs: number): void {
  let ring = rings.get(key);
  if (!ring) {
    ring = { counts: new Uint32Array(BINS), bins: new Float64Array(BINS) };
    rings.set(key, ring);
  }
  const bin = Math.floor(atMs / BIN_MS);
  const at = bin % BINS;
  if (ring.bins[at] !== bin) {
    ring.bins[at] = bin;
    ring.counts[at] = 0;
  }
  ring.counts[at] = (ring.counts[at] ?? 0) + 1;
}

function countsIn({ counts, bins }: Ring, nowMs: number): readonly number[] {
  const last = Math.floor(nowMs / BIN_MS);
  return Array.from({ length: BINS }, (_, index) => {
    const bin = last - BINS + 1 + index;
    return bins[bin % BINS] === bin ? (counts[bin % BINS] ?? 0) : 0;
  });
}

/**
 * As many arrivals at random times: the yardstick for the spread of retries. They are spread over the time from the first
 * to the last arrival, at least ten seconds, so that a short incident is not compared with a quiet minute. The same seed
 * gives the same stream.
 */
export function poissonCounts(counts: readonly number[], seed: number): readonly number[] {
  const arrivals = counts.reduce((sum, count) => sum + count, 0);
  const last = counts.findLastIndex((count) => count > 0);
  const span = Math.max(SPAN_BINS_MIN, last + 1 - counts.findIndex((count) => count > 0));
  const first = Math.max(0, last + 1 - span);
  const random = new Array<number>(BINS).fill(0);
  let state = seed >>> 0;
  for (let at = 0; at < Math.min(arrivals, POISSON_MAX); at++) {
    // Mulberry32.
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    const bin = first + Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * span);
    random[bin] = (random[bin] ?? 0) + 1;
  }
  return random;
}

const POISSON_MAX = 1_000_000;

interface Ring {
  readonly counts: Uint32Array;
  /** The bin number of a ring index. */
  readonly bins: Float64Array;
}

export const BIN_MS = 50;
export const BINS = 60_000 / BIN_MS;
const RATE_BINS = 10_000 / BIN_MS;
/** The least span of the random arrivals. */
const SPAN_BINS_MIN = 10_000 / BIN_MS;
/** Too few arrivals for a ratio. */
const ARRIVALS_MIN = 20;
