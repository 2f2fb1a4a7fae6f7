/** Displayed intervals. They are valid at every inspection, and no decision uses them. */
import { type Histogram, quantileOf, quantilesOf } from "./histogram.ts";
import type { Quantiles } from "./rollout.ts";

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/**
 * Confidence sequence of a quantile (Howard and Ramdas, arXiv 1906.09712). `units` is the number of independent
 * units: observations of one unit are correlated and count once. null: too few units for this quantile.
 */
export function quantileInterval(
  histogram: Histogram,
  { share, units, alpha }: { readonly share: number; readonly units: number; readonly alpha: number },
): Interval | null {
  if (units < 2) return null;
  const log = (1.4 * Math.log(Math.log(2.1 * units)) + Math.log(10 / alpha)) / units;
  const margin = 1.5 * Math.sqrt(share * (1 - share) * log) + 0.8 * log;
  if (share - margin <= 0 || share + margin >= 1) return null;
  const [low, high] = [quantileOf(histogram, share - margin), quantileOf(histogram, share + margin)];
  return low === null || high === null ? null : { low, high };
}

export interface Distribution extends Quantiles {
  /** null: too few units. */
  readonly intervals: Readonly<Record<keyof Quantiles, Interval | null>>;
}

/** null: no observations. */
export function distributionOf(histogram: Histogram, units: number, alpha: number): Distribution | null {
  const quantiles = quantilesOf(histogram);
  if (quantiles === null) return null;
  const interval = (share: number) => quantileInterval(histogram, { share, units, alpha });
  return { ...quantiles, intervals: { p50: interval(0.5), p95: interval(0.95), p99: interval(0.99) } };
}

/** Running sums of the empirical Bernstein confidence sequence of a mean. */
export interface MeanState {
  readonly count: number;
  readonly sum: number;
  /** Squared distances to the running mean. */
  readonly squares: number;
  readonly weights: number;
  readonly weighted: number;
  readonly penalty: number;
}

export const NO_MEAN: MeanState = { count: 0, sum: 0, squares: 0, weights: 0, weighted: 0, penalty: 0 };

/** Adds a difference in [-1, 1] (Waudby-Smith and Ramdas, arXiv 2010.09686, scaled to [0, 1]). */
export function addDifference(state: MeanState, difference: number, alpha: number): MeanState {
  const value = (1 + difference) / 2;
  const count = state.count + 1;
  const meanBefore = (0.5 + state.sum) / count;
  const varianceBefore = (0.25 + state.squares) / count;
  const rate = Math.min(0.5, Math.sqrt((2 * Math.log(2 / alpha)) / (varianceBefore * count * Math.log(1 + count))));
  const sum = state.sum + value;
  return {
    count,
    sum,
    squares: state.squares + (value - (0.5 + sum) / (count + 1)) ** 2,
    weights: state.weights + rate,
    weighted: state.weighted + rate * value,
    penalty: state.penalty + (value - meanBefore) ** 2 * (-Math.log(1 - rate) - rate),
  };
}

/** The mean difference with its interval; null before the first one. */
export function differenceOf(state: MeanState, alpha: number): (Interval & { readonly mean: number }) | null {
  if (state.count === 0) return null;
  const centre = state.weighted / state.weights;
  const margin = (Math.log(2 / alpha) + state.penalty) / state.weights;
  const low = 2 * Math.max(0, centre - margin) - 1;
  const high = 2 * Math.min(1, centre + margin) - 1;
  return { mean: (2 * state.sum) / state.count - 1, low, high };
}
