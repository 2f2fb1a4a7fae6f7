/** How evenly events arrive, compared with a Poisson stream of the same rate. */

export type Spread = {
  readonly arrivals: number;
  readonly bin_ms: number;
  readonly peak: number;
  readonly mean: number;
  readonly peak_to_mean: number;
  /** The expected peak-to-mean ratio of a Poisson stream with as many arrivals. */
  readonly poisson: number;
  /** `peak_to_mean` over `poisson`. 1: as even as a Poisson stream. */
  readonly to_poisson: number;
};

/** Over `[fromMs, fromMs + windowMs)`, in bins of ten arrivals on average. null below 50 arrivals. */
export function spreadOf(timesMs: readonly number[], fromMs: number, windowMs: number): Spread | null {
  const spread = spreadOfAny(timesMs, fromMs, windowMs);
  return spread.arrivals < ARRIVALS_MIN ? null : spread;
}

/** As `spreadOf`, for one arrival or more. */
export function spreadOfAny(timesMs: readonly number[], fromMs: number, windowMs: number): Spread {
  const arrivals = timesMs.filter((atMs) => atMs >= fromMs && atMs < fromMs + windowMs);
  const bins = Math.max(1, Math.round(arrivals.length / PER_BIN));
  const counts = new Array<number>(bins).fill(0);
  for (const atMs of arrivals) counts[Math.min(bins - 1, Math.floor(((atMs - fromMs) / windowMs) * bins))]! += 1;
  const mean = arrivals.length / bins;
  const peak = Math.max(...counts);
  const poisson = expectedPeak(bins, mean) / mean;
  return {
    arrivals: arrivals.length,
    bin_ms: windowMs / bins,
    peak,
    mean,
    peak_to_mean: peak / mean,
    poisson,
    to_poisson: peak / mean / poisson,
  };
}

/** The expected maximum of `bins` Poisson counts: the sum over k of P(maximum > k). */
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
/** With fewer bins a peak has no meaning. */
const ARRIVALS_MIN = 5 * PER_BIN;
const COUNT_MAX = 1_000;
