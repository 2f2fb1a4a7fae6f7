import type { Arm } from "./arm.ts";
import { GATE_METRICS, type Gate, type GateMetric } from "./gate.ts";
import { addToHistogram, type Histogram, quantileOf } from "./histogram.ts";
import type { Sample } from "./measure.ts";
import type { MeasuredUnit } from "./score.ts";

/** Totals of one arm, for display. */
export interface ArmTally {
  readonly units: number;
  readonly busyRetries: number;
  readonly busyEvents: number;
  readonly firstRetrySuccesses: number;
  readonly results: number;
  readonly deadLetters: number;
  readonly lockWaits: Histogram;
  readonly latencies: Histogram;
  readonly admissionWaits: Histogram;
}

export const NO_TALLY: ArmTally = {
  ...{ units: 0, busyRetries: 0, busyEvents: 0, firstRetrySuccesses: 0, results: 0, deadLetters: 0 },
  ...{ lockWaits: [], latencies: [], admissionWaits: [] },
};

type MutableTally = { -readonly [Key in keyof ArmTally]: ArmTally[Key] extends Histogram ? number[] : ArmTally[Key] };

export function addToTally(tally: MutableTally, { measure, deadByBudget }: MeasuredUnit): void {
  tally.units += 1;
  tally.busyRetries += measure.busyRetries;
  tally.busyEvents += measure.busyEvents;
  tally.firstRetrySuccesses += measure.firstRetrySuccesses;
  tally.results += measure.latenciesMs.count + measure.admissionWaitsMs.count;
  tally.deadLetters += deadByBudget;
  addSample(tally.lockWaits, measure.lockWaitsMs);
  addSample(tally.latencies, measure.latenciesMs);
  addSample(tally.admissionWaits, measure.admissionWaitsMs);
}

function addSample(counts: number[], { count, values }: Sample): void {
  if (values.length === 0) return;
  const weight = Math.max(1, Math.round(count / values.length));
  for (const value of values) addToHistogram(counts, value, weight);
}

/** The figure that a gate compares; null without observations. Counts are per unit. */
export function figureOf(metric: GateMetric, tally: ArmTally): number | null {
  const perUnit = (count: number): number | null => (tally.units === 0 ? null : count / tally.units);
  switch (metric) {
    case "lock_busy_retries":
      return perUnit(tally.busyRetries);
    case "dead_letters":
      return perUnit(tally.deadLetters);
    case "results":
      return perUnit(tally.results);
    case "first_retry_success":
      return tally.busyEvents === 0 ? null : tally.firstRetrySuccesses / tally.busyEvents;
    case "run_lock_wait_p95":
      return quantileOf(tally.lockWaits, 0.95);
    case "job_result_latency_p95":
      return quantileOf(tally.latencies, 0.95);
    case "admission_wait_p95":
      return quantileOf(tally.admissionWaits, 0.95);
    default:
      return metric satisfies never;
  }
}

export const retriesPerMinute = ({ units, busyRetries }: ArmTally, spanMs: number): number | null =>
  units === 0 ? null : (busyRetries * 60_000) / spanMs;

/** `run_lock_wait_p95 is 1980 ms in treatment and 1320 ms in control, limit 1.2x`. */
export function describeGate({ metric, ratio }: Gate, arms: Readonly<Record<Arm, ArmTally>>): string {
  const [treatment, control] = [arms.treatment, arms.control].map((tally) =>
    figureText(metric, figureOf(metric, tally)),
  );
  const limit = GATE_METRICS[metric] === "<=" ? "at most" : "at least";
  return `${metric} is ${treatment} in treatment and ${control} in control (${limit} ${ratio}x)`;
}

function figureText(metric: GateMetric, figure: number | null): string {
  if (figure === null) return "unknown";
  if (metric.endsWith("_p95")) return `${figure} ms`;
  return metric === "first_retry_success"
    ? `${(100 * figure).toFixed(1)} %`
    : `${Number(figure.toPrecision(3))} per unit`;
}
