import { suggestion } from "../model/suggestion.ts";
import { quote } from "../retry/duration.ts";
import type { RolloutSubject } from "./subject.ts";

/** A condition on the ratio of treatment to control, such as `run_lock_wait_p95<=1.2x`. */
export interface Gate {
  readonly metric: GateMetric;
  readonly ratio: number;
}

/** Metrics and the only comparison that makes sense for each. */
export const GATE_METRICS = {
  lock_busy_retries: "<=",
  run_lock_wait_p95: "<=",
  job_result_latency_p95: "<=",
  admission_wait_p95: "<=",
  first_retry_success: ">=",
  dead_letters: "<=",
  /** Observed job results and admissions. */
  results: ">=",
} as const;

export type GateMetric = keyof typeof GATE_METRICS;

const METRIC_NAMES = Object.keys(GATE_METRICS) as readonly GateMetric[];
const RATIO = { min: 0.1, max: 10 } as const;
const EXAMPLE = "run_lock_wait_p95<=1.2x";

export const formatGate = ({ metric, ratio }: Gate): string =>
  `${metric}${GATE_METRICS[metric]}${Number.isInteger(ratio) ? ratio.toFixed(1) : ratio}x`;

export function defaultGates(subject: RolloutSubject): readonly Gate[] {
  if (subject === "admission.polled.policy") return [{ metric: "admission_wait_p95", ratio: 1.2 }];
  return [
    { metric: "lock_busy_retries", ratio: 1 },
    { metric: "run_lock_wait_p95", ratio: 1.2 },
    { metric: "job_result_latency_p95", ratio: 1.1 },
  ];
}

/**
 * The gates of a rollout and, unless it has one of its own, a gate on the number of results: a treatment that delays work
 * beyond the horizon has no slow observations and few retries.
 */
export const judgedGates = (gates: readonly Gate[]): readonly Gate[] =>
  gates.some(({ metric }) => metric === "results") ? gates : [...gates, { metric: "results", ratio: 0.9 }];

/** At most one gate per metric. */
export function parseGates(texts: readonly string[]): readonly Gate[] {
  if (texts.length > METRIC_NAMES.length) throw new Error(`a rollout has at most ${METRIC_NAMES.length} gates`);
  const gates = texts.map(parseGate);
  const twice = gates.find(({ metric }, at) => gates.findIndex((other) => other.metric === metric) < at);
  if (twice === undefined) return gates;
  throw new Error(`${quote(twice.metric)} has more than one gate; keep the stricter one`);
}

/** Errors name the column (from 1) of the mistake. */
export function parseGate(text: string): Gate {
  const [, name = ""] = /^([a-z0-9_]*)/.exec(text) ?? [];
  const metric = METRIC_NAMES.find((known) => known === name);
  if (metric === undefined) {
    throw gateError(text, 1, `unknown metric ${quote(name)}${suggestion(name, METRIC_NAMES)}`);
  }
  const comparison = GATE_METRICS[metric];
  if (!text.startsWith(comparison, name.length)) throw gateError(text, name.length + 1, `expected \`${comparison}\``);
  const at = name.length + comparison.length;
  const [, digits] = /^(\d{1,2}(?:\.\d{1,3})?)x$/.exec(text.slice(at)) ?? [];
  if (digits === undefined) throw gateError(text, at + 1, "expected a ratio such as `1.2x`");
  const ratio = Number(digits);
  if (ratio >= RATIO.min && ratio <= RATIO.max) return { metric, ratio };
  throw gateError(text, at + 1, `the ratio must be from ${RATIO.min}x to ${RATIO.max}x`);
}

const gateError = (text: string, column: number, why: string): Error =>
  new Error(`gate ${quote(text)}, column ${column}: ${why}; an example is \`${EXAMPLE}\``);
