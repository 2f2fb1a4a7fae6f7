/** The course of a judgement, for charts. At most `POINTS_MAX` points: then every second one is dropped and the stride doubles. */
import type { Arm } from "./arm.ts";
import type { Histogram } from "./histogram.ts";
import { type Distribution, distributionOf, type Interval } from "./interval.ts";
import { type ArmTally, figureOf, retriesPerMinute } from "./tally.ts";

export interface Series {
  /** Blocks per point. */
  readonly stride: number;
  readonly points: readonly SeriesPoint[];
}

export interface SeriesPoint {
  /** When the last unit of the block was scored: its start plus the horizon. */
  readonly atMs: number;
  readonly units: number;
  /** Breach e-values by gate. */
  readonly e: readonly number[];
  /** Totals since the start. Absent in points of earlier versions. */
  readonly arms?: Readonly<Record<Arm, ArmPoint>>;
}

export interface ArmPoint {
  readonly units: number;
  readonly retriesPerMinute: number | null;
  readonly firstRetrySuccess: number | null;
  readonly lockWait: PackedDistribution | null;
  readonly latency: PackedDistribution | null;
  readonly admissionWait: PackedDistribution | null;
}

/** A `Distribution` as tuples, because up to 200 points are stored: p50, p95 and p99, each with its interval. */
export type PackedDistribution = readonly [p50: Estimate, p95: Estimate, p99: Estimate];
type Estimate = readonly [value: number, low: number | null, high: number | null];

export const NO_SERIES: Series = { stride: 1, points: [] };

export function addToSeries({ stride, points }: Series, point: SeriesPoint): Series {
  const more = [...points, point];
  if (more.length < POINTS_MAX) return { stride, points: more };
  return { stride: stride * 2, points: more.filter((_, at) => at % 2 === 1) };
}

export function armPoint(tally: ArmTally, spanMs: number, alpha: number): ArmPoint {
  const packed = (histogram: Histogram) => pack(distributionOf(histogram, tally.units, alpha));
  return {
    units: tally.units,
    retriesPerMinute: rounded(retriesPerMinute(tally, spanMs)),
    firstRetrySuccess: rounded(figureOf("first_retry_success", tally)),
    lockWait: packed(tally.lockWaits),
    latency: packed(tally.latencies),
    admissionWait: packed(tally.admissionWaits),
  };
}

function pack(distribution: Distribution | null): PackedDistribution | null {
  if (distribution === null) return null;
  const { intervals, ...values } = distribution;
  const estimate = (name: keyof typeof intervals): Estimate => {
    const interval = intervals[name];
    return [values[name], interval?.low ?? null, interval?.high ?? null];
  };
  return [estimate("p50"), estimate("p95"), estimate("p99")];
}

export function unpack([p50, p95, p99]: PackedDistribution): Distribution {
  const interval = ([, low, high]: Estimate): Interval | null => (low === null || high === null ? null : { low, high });
  const intervals = { p50: interval(p50), p95: interval(p95), p99: interval(p99) };
  return { p50: p50[0], p95: p95[0], p99: p99[0], intervals };
}

const rounded = (value: number | null): number | null => (value === null ? null : Number(value.toPrecision(4)));

const POINTS_MAX = 200;
