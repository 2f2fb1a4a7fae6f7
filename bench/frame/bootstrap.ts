import { percentile } from "./figures.ts";

export interface Interval {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

/** The median with its 95 % percentile bootstrap interval. Deterministic: equal values give equal intervals. */
export function medianInterval(values: readonly number[]): Interval {
  const random = generator(values.length);
  const medians = Array.from({ length: RESAMPLES }, () =>
    percentile(
      values.map(() => values[Math.floor(random() * values.length)] ?? Number.NaN),
      0.5,
    ),
  );
  return { median: percentile(values, 0.5), low: percentile(medians, 0.025), high: percentile(medians, 0.975) };
}

/** mulberry32 */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const RESAMPLES = 2_000;
