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

/**
 * What the stream of chance is like: of one rate throughout; or one that falls along a straight line as theirs does, for
 * those who wait become fewer as they come back. A line fits no wave.
 */
export type Rate = "even" | "falling";

/** Over `[fromMs, fromMs + windowMs)`, in bins that hold ten on average. null: too few to say anything. */
export function spreadOf(timesMs: readonly number[], fromMs: number, windowMs: number): Spread | null {
  const spread = spreadOfAny(timesMs, fromMs, windowMs, "even");
  return spread.arrivals < ARRIVALS_MIN ? null : spread;
}

/** However few they are, but one. */
export function spreadOfAny(timesMs: readonly number[], fromMs: number, windowMs: number, rate: Rate): Spread {
  const seen = timesMs.filter((atMs) => atMs >= fromMs && atMs < fromMs + windowMs);
  const bins = Math.max(1, Math.round(seen.length / PER_BIN));
  const counts = new Array<number>(bins).fill(0);
  for (const atMs of seen) counts[Math.min(bins - 1, Math.floor(((atMs - fromMs) / windowMs) * bins))]! += 1;
  const mean = seen.length / bins;
  const peak = Math.max(...counts);
  const fall = rate === "even" ? 0 : fallOf(seen.map((atMs) => (atMs - fromMs) / windowMs));
  const means = counts.map((_, bin) => mean * (1 + fall * (1 - (2 * bin + 1) / bins)));
  const poisson = expectedPeak(means) / mean;
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

/** A rate that falls from `1 + fall` to `1 - fall` over 0 to 1 has its centre at `1/2 - fall/6`. */
function fallOf(places: readonly number[]): number {
  const centre = places.reduce((sum, place) => sum + place, 0) / Math.max(1, places.length);
  return Math.max(-1, Math.min(1, 6 * (0.5 - centre)));
}

/** The mean of the largest of Poisson counts with these means: the sum of the chances that it is larger than k. */
function expectedPeak(means: readonly number[]): number {
  let expected = 0;
  const terms = means.map((mean) => Math.exp(-mean));
  const upTo = means.map(() => 0);
  for (let k = 0; k < COUNT_MAX; k += 1) {
    let allUpToK = 1;
    for (const [at, mean] of means.entries()) {
      upTo[at]! += terms[at]!;
      terms[at]! *= mean / (k + 1);
      allUpToK *= Math.min(1, upTo[at]!);
    }
    if (allUpToK === 1) break;
    expected += 1 - allUpToK;
  }
  return expected;
}

const PER_BIN = 10;
/** Two bins say nothing about a peak. */
const ARRIVALS_MIN = 5 * PER_BIN;
const COUNT_MAX = 1_000;
