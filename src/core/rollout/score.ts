/**
 * Scores of units: how bad a unit is under a gate, in [0, 1].
 *
 * 1. If the treatment meets the gate exactly, both arms have the same mean score: the ratio of the gate is applied to the
 *    treatment only. The difference of the means is positive when the gate is breached.
 * 2. A scale depends on control units of an earlier window only, so a score does not depend on other units of its block.
 * 3. Units without observations have a score: leaving them out would hide units that the treatment delays beyond the horizon.
 *    The exception is `first_retry_success`, which is undefined for a unit without a refused event.
 */
import type { Arm } from "./arm.ts";
import type { Gate, GateMetric } from "./gate.ts";
import { quantileOfSorted } from "./histogram.ts";
import { SAMPLE_MAX, type Sample, type UnitMeasure } from "./measure.ts";

/** A unit at the end of its horizon. */
export interface MeasuredUnit {
  readonly id: string;
  readonly startMs: number;
  readonly arm: Arm;
  /** The stage of the rollout in which the unit was enrolled; it decides the share that the arm was drawn with. */
  readonly stage: number;
  readonly measure: UnitMeasure;
  /** Dead letters by an exhausted budget within the horizon. */
  readonly deadByBudget: number;
}

/** What normalizes the scores of a gate. */
export interface Scale {
  /** Quantile gates: the quantile of the control observations. */
  readonly threshold: number;
  /** Scores reach 1 at this share (quantile gates) or count. */
  readonly cap: number;
}

/** The observations of one control unit for one gate: durations of a quantile gate, else one count. */
export type WindowEntry = readonly number[];

export function windowEntryOf({ metric }: Gate, unit: MeasuredUnit): WindowEntry {
  const sample = sampleOf(metric, unit.measure);
  return sample === null ? [countOf(metric, unit)] : thinned(sample.values);
}

/** null: the window has no observations of the metric, so the gate is not judged in the next one. */
export function scaleOf({ metric, ratio }: Gate, window: readonly WindowEntry[]): Scale | null {
  if (isQuantile(metric)) return quantileScale(window);
  if (metric === "first_retry_success") return { threshold: 0, cap: Math.max(1, 1 / ratio) };
  const counts = pooled(window);
  // Fewer results than usual are the breach, so the cap is the usual number. More retries are one, so the cap is a high one.
  const usual = quantileOfSorted(counts, metric === "results" ? 0.5 : TAIL);
  return { threshold: 0, cap: Math.max(1, usual) * Math.max(1, 1 / ratio) };
}

/** null: the gate has no meaning for this unit. */
export function scoreOf({ metric, ratio }: Gate, { threshold, cap }: Scale, unit: MeasuredUnit): number | null {
  const factor = unit.arm === "treatment" ? ratio : 1;
  const sample = sampleOf(metric, unit.measure);
  if (sample !== null) return Math.min(shareAbove(sample.values, factor * threshold), cap) / cap;
  if (metric === "first_retry_success") {
    const { busyEvents, firstRetrySuccesses } = unit.measure;
    return busyEvents === 0 ? null : 1 - firstRetrySuccesses / busyEvents / factor / cap;
  }
  const filled = Math.min(countOf(metric, unit) / factor, cap) / cap;
  return metric === "results" ? 1 - filled : filled;
}

function quantileScale(window: readonly WindowEntry[]): Scale | null {
  const all = pooled(window);
  if (all.length === 0) return null;
  // Observations are whole milliseconds; below one, a ratio has no meaning.
  const threshold = Math.max(1, quantileOfSorted(all, TAIL));
  const shares = Float64Array.from(window, (values) => shareAbove(values, threshold)).sort();
  return { threshold, cap: Math.max(1 / SAMPLE_MAX, quantileOfSorted(shares, TAIL)) };
}

function shareAbove(values: readonly number[], threshold: number): number {
  if (values.length === 0) return 0;
  let above = 0;
  for (const value of values) if (value > threshold) above += 1;
  return above / values.length;
}

const isQuantile = (metric: GateMetric): boolean => metric.endsWith("_p95");

function sampleOf(metric: GateMetric, measure: UnitMeasure): Sample | null {
  switch (metric) {
    case "run_lock_wait_p95":
      return measure.lockWaitsMs;
    case "job_result_latency_p95":
      return measure.latenciesMs;
    case "admission_wait_p95":
      return measure.admissionWaitsMs;
    default:
      return null;
  }
}

function countOf(metric: GateMetric, { measure, deadByBudget }: MeasuredUnit): number {
  switch (metric) {
    case "lock_busy_retries":
      return measure.busyRetries;
    case "dead_letters":
      return deadByBudget;
    case "results":
      return measure.latenciesMs.count + measure.admissionWaitsMs.count;
    default:
      return 0;
  }
}

/** Evenly spaced, because the observations of a burst are in the order of their duration. */
function thinned(values: readonly number[]): readonly number[] {
  if (values.length <= ENTRY_MAX) return values;
  return Array.from(
    { length: ENTRY_MAX },
    (_, at) => values[Math.floor(((at + 0.5) * values.length) / ENTRY_MAX)] ?? 0,
  );
}

/** All values of the window, sorted. */
function pooled(window: readonly WindowEntry[]): Float64Array {
  const all = new Float64Array(window.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const values of window) for (const value of values) all[at++] = value;
  return all.sort();
}

const TAIL = 0.95;
/** Bounds the stored window. */
const ENTRY_MAX = 16;
