/** Statistics of samples. Functions without a meaningful result for an empty sample throw. */

export function mean(values: readonly number[]): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / nonEmpty(values).length;
}

export function median(values: readonly number[]): number {
  return quantile(ascending(values), 0.5);
}

/** The quantile of sorted values, interpolated between neighbours. */
export function quantile(sorted: readonly number[], share: number): number {
  const at = Math.min(Math.max(share, 0), 1) * (nonEmpty(sorted).length - 1);
  const [below, above] = [sorted[Math.floor(at)]!, sorted[Math.ceil(at)]!];
  return below + (above - below) * (at - Math.floor(at));
}

/** Named as in the JSON document; null for an empty sample. */
export function percentiles(values: readonly number[]): { readonly p50: number; p95: number; p99: number } | null {
  if (values.length === 0) return null;
  const sorted = ascending(values);
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), p99: quantile(sorted, 0.99) };
}

export const ascending = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);

/** 0 for an empty sample. No spread: samples can exceed the argument limit. */
export const maxOf = (values: readonly number[]): number => values.reduce((most, value) => Math.max(most, value), 0);

/** Counts per bin, from `fromMs` to the bin of the last event. */
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

/** At most 500 values for a chart, sorted, with the minimum and the maximum. */
export function sampled(values: readonly number[]): readonly number[] {
  const sorted = ascending(values);
  if (sorted.length <= SAMPLES_MAX) return sorted;
  const step = (sorted.length - 1) / (SAMPLES_MAX - 1);
  return Array.from({ length: SAMPLES_MAX }, (_, index) => sorted[Math.round(index * step)] ?? 0);
}

/** Splits a count into whole parts that differ by at most one. */
export function evenShares(count: number, parts: number): readonly number[] {
  const upTo = (index: number): number => Math.floor((index * count) / parts);
  return Array.from({ length: parts }, (_, index) => upTo(index + 1) - upTo(index));
}

/** Rounded to three decimals. */
export function rounded(value: number): number {
  // Adding zero turns -0 into 0, which serialises differently.
  return Math.round(value * 1_000) / 1_000 + 0;
}

function nonEmpty(values: readonly number[]): readonly number[] {
  if (values.length === 0) throw new Error("no values: an experiment must measure something before it aggregates");
  return values;
}

const SAMPLES_MAX = 500;
