/** How evenly events come, beside a stream of pure chance with the same rate. */

export type Spread = {
  readonly arrivals: number;
  readonly bin_ms: number;
  readonly peak: number;
  readonly mean: number;
  readonly peak_to_mean: number;
  /** What the fullest bin of a Poisson stream has on average, over its mean. */
  readonly poisson: number;
  /** How much worse than pure chance: 1 is as even as it gets. */
  readonly to_poisson: number;
};

/** Over `[fromMs, fromMs + windowMs)`, in bins that hold ten on average. null: too few to say anything. */
export function spreadOf(timesMs: readonly number[], fromMs: number, windowMs: number): Spread | null {
  const spread = spreadOfAny(timesMs, fromMs, windowMs);
  return spread.arrivals < ARRIVALS_MIN ? null : spread;
}

/** However few they are, but one. */
export function spreadOfAny(timesMs: readonly number[], fromMs: number, windowMs: number): Spread {
  const seen = timesMs.filter((atMs) => atMs >= fromMs && atMs < fromMs + windowMs);
  const bins = Math.max(1, Math.round(seen.length / PER_BIN));
  const counts = new Array<number>(bins).fill(0);
  for (const atMs of seen) counts[Math.min(bins - 1, Math.floor(((atMs - fromMs) / windowMs) * bins))]! += 1;
  const mean = seen.length / bins;
  const peak = Math.max(...counts);
  const poisson = expectedPeak(bins, mean) / mean;
  return {
    arrivals: seen.length,
    bin_ms: windowMs / bins,
    peak,
    mean,
    peak_to_mean: peak / mean,
    poisson,
    to_poisson: peak / mean / poisson,
  };
}

/** The mean of the largest of so many Poisson counts: the sum of the chances that it is larger than k. */
function expectedPeak(bins: number, mean: number): number {
  let expected = 0;
  let upToK = 0;
  let term = Math.exp(-mean);
  for (let k = 0; k < COUNT_MAX && term > 0; k += 1) {
    upToK += term;
    term *= mean / (k + 1);
    expected += 1 - Math.min(1, upToK) ** bins;
  }
  return expected;
}

const PER_BIN = 10;
/** Two bins say nothing about a peak. */
const ARRIVALS_MIN = 5 * PER_BIN;
const COUNT_MAX = 1_000;
