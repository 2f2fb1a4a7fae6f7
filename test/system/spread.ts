/** How evenly events come, beside a stream of pure chance with the same rate. */
export interface Spread {
  readonly arrivals: number;
  readonly binMs: number;
  readonly peak: number;
  readonly peakToMean: number;
  /** What the fullest bin of a Poisson stream has on average, over its mean. */
  readonly poisson: number;
}

/** In bins that hold ten on average, over a window that begins at the first of them. */
export function spreadOf(times: readonly number[], windowMs: number): Spread {
  const fromMs = Math.min(...times);
  const seen = times.filter((atMs) => atMs < fromMs + windowMs);
  const bins = Math.max(1, Math.round(seen.length / PER_BIN));
  const counts = new Array<number>(bins).fill(0);
  for (const atMs of seen) {
    const bin = Math.min(bins - 1, Math.floor(((atMs - fromMs) / windowMs) * bins));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  const mean = seen.length / bins;
  const peak = Math.max(...counts);
  return {
    arrivals: seen.length,
    binMs: windowMs / bins,
    peak,
    peakToMean: peak / mean,
    poisson: expectedPeak(bins, mean) / mean,
  };
}

/** The mean of the largest of so many Poisson counts: the sum of the chances that it is larger than k. */
function expectedPeak(bins: number, mean: number): number {
  let expected = 0;
  let upToK = 0;
  let term = Math.exp(-mean);
  for (let k = 0; k < 1_000 && term > 0; k++) {
    upToK += term;
    term *= mean / (k + 1);
    expected += 1 - Math.min(1, upToK) ** bins;
  }
  return expected;
}

const PER_BIN = 10;
