/**
 * What happened to one unit within the horizon of its start. It is stored on the unit's record and updated in commits that
 * happen anyway. Events after start + horizon are not counted, so the figures do not depend on when they are read.
 */
export interface UnitMeasure {
  /** Failed attempts because the lock was busy. */
  readonly busyRetries: number;
  /** Events that were refused with `lock_busy` at least once, and those of them that the first retry served. */
  readonly busyEvents: number;
  readonly firstRetrySuccesses: number;
  readonly lockWaitsMs: Sample;
  readonly latenciesMs: Sample;
  readonly admissionWaitsMs: Sample;
}

/** A bounded sample of observations. */
export interface Sample {
  /** All observations so far. */
  readonly count: number;
  /** At most `SAMPLE_MAX` of them, in whole milliseconds. */
  readonly values: readonly number[];
}

export type Observation =
  /** An event got the run lock after `busyTimes` refusals. */
  | { readonly kind: "acquired"; readonly waitedMs: number; readonly busyTimes: number }
  | { readonly kind: "result"; readonly latencyMs: number }
  | { readonly kind: "admitted"; readonly waitedMs: number };

export const SAMPLE_MAX = 32;

const EMPTY: Sample = { count: 0, values: [] };
export const NO_MEASURE: UnitMeasure = {
  busyRetries: 0,
  busyEvents: 0,
  firstRetrySuccesses: 0,
  lockWaitsMs: EMPTY,
  latenciesMs: EMPTY,
  admissionWaitsMs: EMPTY,
};

export function observe(measure: UnitMeasure, observation: Observation): UnitMeasure {
  switch (observation.kind) {
    case "acquired": {
      const { waitedMs, busyTimes } = observation;
      return {
        ...measure,
        busyRetries: measure.busyRetries + busyTimes,
        busyEvents: measure.busyEvents + (busyTimes > 0 ? 1 : 0),
        firstRetrySuccesses: measure.firstRetrySuccesses + (busyTimes === 1 ? 1 : 0),
        lockWaitsMs: sampled(measure.lockWaitsMs, waitedMs),
      };
    }
    case "result":
      return { ...measure, latenciesMs: sampled(measure.latenciesMs, observation.latencyMs) };
    case "admitted":
      return { ...measure, admissionWaitsMs: sampled(measure.admissionWaitsMs, observation.waitedMs) };
    default:
      return observation satisfies never;
  }
}

/**
 * Reservoir sampling with a position that is a function of the count: the same observations give the same sample in every
 * process, without a random source.
 */
function sampled({ count, values }: Sample, valueMs: number): Sample {
  const value = Math.max(0, Math.round(valueMs));
  if (values.length < SAMPLE_MAX) return { count: count + 1, values: [...values, value] };
  const position = Math.floor(scatter(count) * (count + 1));
  return {
    count: count + 1,
    values: position < SAMPLE_MAX ? values.map((kept, at) => (at === position ? value : kept)) : values,
  };
}

/** A well-mixed number in [0, 1) for each integer (splitmix32). */
function scatter(index: number): number {
  let mixed = (index + 0x9e3779b9) | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
}
