import type { Sample, UnitMeasure } from "../../core/rollout/measure.ts";

export interface RowSpec {
  readonly row: string;
  readonly control: string;
  readonly treatment: string;
  /** Factors on the measured durations of the control pool, which then is the treatment pool. */
  readonly scale?: { readonly wait: number; readonly latency: number };
  /** The verdict that is counted, and its required share. */
  readonly verdict: "breach" | "proved";
  readonly atLeastPct?: number;
  readonly atMostPct?: number;
  /** The evidence of one trial is drawn. */
  readonly isDrawn?: true;
}

const JITTER = "bounded:500ms:0.3";
const FIXED = "fixed:500ms";
const SLOW = "fixed:2s";
const WIDE = "bounded:500ms:3";

/** Simulated policies. */
export const POLICIES = [JITTER, FIXED, SLOW, WIDE];

/** The default gates: retries at most 1.0x, lock wait p95 at most 1.2x, result latency p95 at most 1.1x. */
export const ROWS: readonly RowSpec[] = [
  { row: "equal arms", control: JITTER, treatment: JITTER, verdict: "breach", atMostPct: 1, isDrawn: true },
  { row: "equal arms, lockstep", control: FIXED, treatment: FIXED, verdict: "breach", atMostPct: 1 },
  {
    ...{ row: "at every gate", control: JITTER, treatment: "wait × 1.2, latency × 1.1" },
    ...{ scale: { wait: 1.2, latency: 1.1 }, verdict: "breach", atMostPct: 1 },
  },
  {
    ...{ row: "p95 1.5 × worse", control: JITTER, treatment: "latency × 1.5" },
    ...{ scale: { wait: 1, latency: 1.5 }, verdict: "breach", atLeastPct: 95 },
  },
  { row: "slow retries", control: JITTER, treatment: SLOW, verdict: "breach", atLeastPct: 99, isDrawn: true },
  { row: "jitter of 300 %", control: JITTER, treatment: WIDE, verdict: "breach", atLeastPct: 99 },
  { row: "jitter against bursts", control: FIXED, treatment: JITTER, verdict: "proved", atLeastPct: 95, isDrawn: true },
];

export function treatmentPool(
  { control, treatment, scale }: RowSpec,
  pools: ReadonlyMap<string, readonly UnitMeasure[]>,
): readonly UnitMeasure[] {
  if (scale === undefined) return pools.get(treatment) ?? [];
  return (pools.get(control) ?? []).map((measure) => ({
    ...measure,
    lockWaitsMs: scaled(measure.lockWaitsMs, scale.wait),
    latenciesMs: scaled(measure.latenciesMs, scale.latency),
  }));
}

const scaled = ({ count, values }: Sample, factor: number): Sample => ({
  ...{ count, values: values.map((value) => value * factor) },
});
