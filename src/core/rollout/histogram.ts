import type { Quantiles } from "./rollout.ts";

/** Counts per logarithmic bin: bin 0 is below 1 ms, bin n covers a factor of `GROWTH`. Trailing bins without counts are absent. */
export type Histogram = readonly number[];

/** Adds `weight` observations of one value. */
export function addToHistogram(counts: number[], valueMs: number, weight: number): void {
  const bin = valueMs < 1 ? 0 : Math.min(BINS_MAX - 1, 1 + Math.floor(Math.log(valueMs) / LOG_GROWTH));
  while (counts.length <= bin) counts.push(0);
  counts[bin] = (counts[bin] ?? 0) + weight;
}

export const totalOf = (histogram: Histogram): number => histogram.reduce((sum, count) => sum + count, 0);

/** Within 2 % of the exact quantile; null without observations. */
export function quantileOf(histogram: Histogram, share: number): number | null {
  const total = totalOf(histogram);
  if (total === 0) return null;
  const rank = Math.min(total, Math.max(1, Math.ceil(share * total)));
  let seen = 0;
  let bin = 0;
  while (bin < histogram.length - 1 && seen + (histogram[bin] ?? 0) < rank) {
    seen += histogram[bin] ?? 0;
    bin += 1;
  }
  return bin === 0 ? 0 : Math.round(GROWTH ** (bin - 0.5));
}

export function quantilesOf(histogram: Histogram): Quantiles | null {
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => quantileOf(histogram, share));
  return p50 == null || p95 == null || p99 == null ? null : { p50, p95, p99 };
}

/** The quantile of sorted values: the smallest value that is not exceeded by this share of them. */
export function quantileOfSorted(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

const GROWTH = 1.04;
const LOG_GROWTH = Math.log(GROWTH);
/** Up to more than a week. */
const BINS_MAX = 540;
