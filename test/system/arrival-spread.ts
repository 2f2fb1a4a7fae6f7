import { spreadOfAny } from "../../src/lab/spread.ts";

/** The lab's measure of how evenly arrivals are spread over a window that starts at the first one. */
export interface Spread {
  readonly arrivals: number;
  readonly binMs: number;
  readonly peak: number;
  readonly peakToMean: number;
  /** The expected peak-to-mean ratio of a Poisson stream. */
  readonly poisson: number;
}

export function spreadOf(times: readonly number[], windowMs: number): Spread {
  const measured = spreadOfAny(times, Math.min(...times), windowMs);
  const { arrivals, bin_ms: binMs, peak, peak_to_mean: peakToMean, poisson } = measured;
  return { arrivals, binMs, peak, peakToMean, poisson };
}
