/** Sums over samples. All of them refuse to speak about nothing: an empty sample is a bug of the experiment. */

export function mean(values: readonly number[]): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / some(values).length;
}

export function median(values: readonly number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  );
}

/** The value below which this share lies, between neighbours in proportion. `sorted` from the least on. */
export function quantile(sorted: readonly number[], share: number): number {
  const at = Math.min(Math.max(share, 0), 1) * (some(sorted).length - 1);
  const [below, above] = [sorted[Math.floor(at)]!, sorted[Math.ceil(at)]!];
  return below + (above - below) * (at - Math.floor(at));
}

/** As the documents name them; null where there was nothing to measure. */
export function percentiles(values: readonly number[]): { readonly p50: number; p95: number; p99: number } | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), p99: quantile(sorted, 0.99) };
}

/** How many of these times fall into each bin, from `fromMs` up to the bin that holds the last of them. */
export function binned(timesMs: readonly number[], binMs: number, fromMs = 0): number[] {
  const counts: number[] = [];
  for (const timeMs of timesMs) {
    const bin = Math.floor((timeMs - fromMs) / binMs);
    if (bin < 0) continue;
    while (counts.length <= bin) counts.push(0);
    counts[bin]! += 1;
  }
  return counts;
}

/** Three decimals are a microsecond of a millisecond: more would be noise of the last bit. */
export function rounded(value: number): number {
  // Adding zero makes -0 a 0: they look alike, but are not the same text everywhere.
  return Math.round(value * 1_000) / 1_000 + 0;
}

function some(values: readonly number[]): readonly number[] {
  if (values.length === 0) throw new Error("no values: an experiment must measure something before it sums it up");
  return values;
}
