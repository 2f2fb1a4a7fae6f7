import { spreadOfAny } from "../../src/lab/spread.ts";

/** The lab's measure of how evenly they come, over a window that begins at the first of them. */
export interface Spread {
  readonly arrivals: number;
  readonly binMs: number;
  readonly peak: number;
  readonly peakToMean: number;
  /** What the fullest bin of a Poisson stream has on average, over its mean. */
  readonly poisson: number;
}

export function spreadOf(times: readonly number[], windowMs: number): Spread {
  const measured = spreadOfAny(times, Math.min(...times), windowMs);
  const { arrivals, bin_ms: binMs, peak, peak_to_mean: peakToMean, poisson } = measured;
  return { arrivals, binMs, peak, peakToMean, poisson };
}
