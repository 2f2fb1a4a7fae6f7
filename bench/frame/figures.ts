export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export function spreadOf(values: readonly number[]): Spread {
  return { median: percentile(values, 0.5), min: Math.min(...values), max: Math.max(...values) };
}

/** Nearest rank; the median of an even count is the mean of the middle two. NaN for no values. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  if (share === 0.5 && sorted.length % 2 === 0 && sorted.length > 0) {
    return ((sorted[sorted.length / 2 - 1] ?? 0) + (sorted[sorted.length / 2] ?? 0)) / 2;
  }
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** The largest bin over the mean of all bins from the first to the last event. */
export function peakToMean(timesMs: readonly number[], binMs: number): number {
  if (timesMs.length === 0) return Number.NaN;
  const first = timesMs.reduce((a, b) => Math.min(a, b));
  const last = timesMs.reduce((a, b) => Math.max(a, b));
  const bins = new Uint32Array(Math.floor((last - first) / binMs) + 1);
  for (const timeMs of timesMs) {
    const bin = Math.floor((timeMs - first) / binMs);
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  return (bins.reduce((a, b) => Math.max(a, b)) * bins.length) / timesMs.length;
}
