import { Type } from "typebox";
import { GATE_METRICS } from "../../core/rollout/gate.ts";
import type { Distribution } from "../../core/rollout/interval.ts";
import type { PredictedFigures, Quantiles, Rollout, RolloutPrediction } from "../../core/rollout/rollout.ts";
import { type ArmPoint, type PackedDistribution, type SeriesPoint, unpack } from "../../core/rollout/series.ts";
import { settingOf } from "../../core/rollout/subject.ts";
import type { ArmSummary, GateSummary, RolloutSummary } from "../../core/rollout/summary.ts";
import { KEY_NAME, type KeyNames } from "./key-names.ts";

const NUMBER_OR_NULL = Type.Union([Type.Number(), Type.Null()]);
const INTERVAL = Type.Union([Type.Object({ low: Type.Number(), high: Type.Number() }), Type.Null()]);
const QUANTILES = { p50: Type.Number(), p95: Type.Number(), p99: Type.Number() };
const DISTRIBUTION = Type.Union([
  Type.Object({
    ...QUANTILES,
    intervals: Type.Object(
      { p50: INTERVAL, p95: INTERVAL, p99: INTERVAL },
      { description: "Confidence sequences: they hold at every inspection. Null with too few units." },
    ),
  }),
  Type.Null(),
]);

const ARM = Type.Object(
  {
    units: Type.Integer({ description: "Measured runs, jobs or tenants whose horizon has ended." }),
    busy_retries: Type.Integer(),
    busy_retries_per_unit: NUMBER_OR_NULL,
    busy_retries_per_minute: NUMBER_OR_NULL,
    first_retry_success: Type.Union([Type.Number(), Type.Null()], {
      description: "Share of the refused events that the first retry served.",
    }),
    results: Type.Integer(),
    dead_letters: Type.Integer({ description: "Dead letters because a retry budget was exhausted." }),
    run_lock_wait_ms: DISTRIBUTION,
    job_result_latency_ms: DISTRIBUTION,
    admission_wait_ms: DISTRIBUTION,
  },
  { title: "RolloutArm" },
);

const GATE = Type.Object(
  {
    gate: Type.String({
      description: `A condition on treatment relative to control: ${Object.entries(GATE_METRICS)
        .map(([name, comparison]) => `\`${name}${comparison}1.1x\``)
        .join(", ")}.`,
    }),
    e_value: Type.Number({
      description: "Evidence for a breach. The mean over all gates rolls back at `e_value_limit`.",
    }),
    proof_e_value: Type.Number({ description: "Evidence that the gate holds; proved at `e_value_limit`." }),
    proved: Type.Boolean(),
    blocks: Type.Integer(),
    difference: Type.Union([
      Type.Object({ mean: Type.Number(), low: Type.Number(), high: Type.Number() }),
      Type.Null(),
    ]),
  },
  { title: "RolloutGate" },
);

const FIGURES = Type.Object(
  {
    policy: Type.String(),
    busy_retries: Type.Integer(),
    first_retry_success: NUMBER_OR_NULL,
    run_lock_wait_ms: Type.Object(QUANTILES),
    job_result_latency_ms: Type.Object(QUANTILES),
  },
  { title: "RolloutFigures" },
);

const PREDICTION = Type.Union([
  Type.Object(
    {
      from: Type.String(),
      to: Type.String(),
      acquisitions: Type.Integer(),
      control: FIGURES,
      treatment: FIGURES,
    },
    { title: "RolloutPrediction" },
  ),
  Type.Null(),
]);

export const DETECTABLE = Type.Union([
  Type.Object({
    units_per_hour: Type.Number({ description: "Estimated from the newest runs." }),
    units: Type.Integer({ description: "Expected until the rollout ends." }),
    effects: Type.Array(Type.Object({ gate: Type.String(), ratio: Type.Union([Type.Number(), Type.Null()]) }), {
      description: "The smallest ratio of treatment to control that is detected in this time, by gate.",
    }),
  }),
  Type.Null(),
]);

/** What is compared, for how long. */
const PLAN = {
  class: Type.String({ description: "The retry class or setting." }),
  setting: Type.String({ description: "The setting that a promotion overrides." }),
  policy: Type.String({ description: "The treatment value." }),
  control: Type.String({ description: "The value in force at the start." }),
  shares: Type.Array(Type.Number(), { description: "The ramp." }),
  orgs: Type.Array(Type.String(), { description: "Tenants that take part; empty for all." }),
  gates: Type.Array(Type.String()),
  horizon_ms: Type.Integer(),
  switch_ms: Type.Union([Type.Integer(), Type.Null()]),
  ends_at: Type.String(),
};

/** An item of the list. */
export const ROLLOUT = Type.Object(
  {
    id: Type.String(),
    ...PLAN,
    state: Type.String({ description: "`running`, `paused`, `proved`, `promoted`, `rolled_back` or `ended`." }),
    share: Type.Number({ description: "The treatment share of the current stage." }),
    stage: Type.Integer({ description: "Index into `shares`." }),
    alpha: Type.Number(),
    started_by: Type.String({ description: "The id of a key." }),
    started_by_name: KEY_NAME,
    started_at: Type.String(),
    updated_at: Type.String(),
    updated_by: Type.String({ description: "Who paused, promoted or ended it: the id of a key, or `cordum`." }),
    updated_by_name: KEY_NAME,
    reason: Type.String({ description: "The reason of the latest transition." }),
  },
  { title: "Rollout" },
);

const ARM_POINT = Type.Object(
  {
    units: Type.Integer(),
    busy_retries_per_minute: NUMBER_OR_NULL,
    first_retry_success: NUMBER_OR_NULL,
    run_lock_wait_ms: DISTRIBUTION,
    job_result_latency_ms: DISTRIBUTION,
    admission_wait_ms: DISTRIBUTION,
  },
  { title: "RolloutArmPoint" },
);
const POINT = Type.Object(
  {
    at: Type.String(),
    units: Type.Integer(),
    e_values: Type.Array(Type.Number(), { description: "By gate, in the order of `judged_gates`." }),
    arms: Type.Union([Type.Object({ control: ARM_POINT, treatment: ARM_POINT }), Type.Null()], {
      description: "Totals since the start; null in points that an earlier version recorded.",
    }),
  },
  { title: "RolloutPoint" },
);

/** A rollout that is not started. */
export const ROLLOUT_PREVIEW = Type.Object(
  {
    ...PLAN,
    active: Type.Union([Type.String(), Type.Null()], {
      description: "The active rollout of the class; a start is refused until it has ended.",
    }),
    prediction: PREDICTION,
    detectable: DETECTABLE,
  },
  { title: "RolloutPreview" },
);

/** One rollout with its figures. */
export const ROLLOUT_DETAILS = Type.Object(
  {
    ...ROLLOUT.properties,
    e_value: Type.Number({ description: "The mean of the e-values of the gates." }),
    e_value_limit: Type.Number(),
    judged_gates: Type.Array(GATE),
    arms: Type.Object({ control: ARM, treatment: ARM }),
    series: Type.Array(POINT, { description: "The figures over time." }),
    prediction: PREDICTION,
    expected_decision: Type.Union([Type.Object({ kind: Type.String(), in_ms: Type.Integer() }), Type.Null()]),
  },
  { title: "RolloutDetail" },
);

export function rolloutView(rollout: Rollout, gates: readonly string[], names: KeyNames): object {
  const { id, state, shares, stage, alpha } = rollout;
  return {
    id,
    ...planView(rollout, gates),
    state,
    share: shares[stage] ?? 0,
    stage,
    alpha,
    started_by: rollout.startedBy,
    started_by_name: names.get(rollout.startedBy) ?? null,
    started_at: timeText(rollout.startedMs),
    updated_at: timeText(rollout.updatedMs),
    updated_by: rollout.by,
    updated_by_name: names.get(rollout.by) ?? null,
    reason: rollout.reason,
  };
}

/** What is compared, for how long. */
export function planView(rollout: Omit<Rollout, "id" | "salt">, gates: readonly string[]): object {
  const { subject, treatment, control, shares, orgs, horizonMs, switchMs, endsMs } = rollout;
  return {
    class: subject,
    setting: settingOf(subject),
    policy: treatment,
    control,
    shares,
    orgs,
    gates,
    horizon_ms: horizonMs,
    switch_ms: switchMs,
    ends_at: timeText(endsMs),
  };
}

export function rolloutDetails(
  rollout: Rollout,
  gates: readonly string[],
  names: KeyNames,
  summary: RolloutSummary,
): object {
  const { eValue, eValueLimit, arms, series, decision } = summary;
  return {
    ...rolloutView(rollout, gates, names),
    e_value: eValue,
    e_value_limit: eValueLimit,
    judged_gates: summary.gates.map(gateView),
    arms: { control: armView(arms.control), treatment: armView(arms.treatment) },
    series: series.points.map(pointView),
    prediction: rollout.prediction === null ? null : predictionView(rollout.prediction),
    expected_decision: decision === null ? null : { kind: decision.kind, in_ms: decision.inMs },
  };
}

function pointView({ atMs, units, e, arms }: SeriesPoint): object {
  const both = arms && { control: armPointView(arms.control), treatment: armPointView(arms.treatment) };
  return { at: timeText(atMs), units, e_values: e, arms: both ?? null };
}

function armPointView({ lockWait, latency, admissionWait, ...point }: ArmPoint): object {
  const distribution = (packed: PackedDistribution | null) => distributionView(packed && unpack(packed));
  return {
    units: point.units,
    busy_retries_per_minute: point.retriesPerMinute,
    first_retry_success: point.firstRetrySuccess,
    run_lock_wait_ms: distribution(lockWait),
    job_result_latency_ms: distribution(latency),
    admission_wait_ms: distribution(admissionWait),
  };
}

function gateView({ gate, breachE, proofE, isProved, blocks, difference }: GateSummary): object {
  return { gate, e_value: breachE, proof_e_value: proofE, proved: isProved, blocks, difference };
}

function armView(arm: ArmSummary): object {
  return {
    units: arm.units,
    busy_retries: arm.busyRetries,
    busy_retries_per_unit: arm.retriesPerUnit,
    busy_retries_per_minute: arm.retriesPerMinute,
    first_retry_success: arm.firstRetrySuccess,
    results: arm.results,
    dead_letters: arm.deadLetters,
    run_lock_wait_ms: distributionView(arm.lockWaitMs),
    job_result_latency_ms: distributionView(arm.latencyMs),
    admission_wait_ms: distributionView(arm.admissionWaitMs),
  };
}

function distributionView(distribution: Distribution | null): object | null {
  if (distribution === null) return null;
  return { ...quantilesView(distribution), intervals: distribution.intervals };
}

export function predictionView({ fromMs, toMs, acquisitions, control, treatment }: RolloutPrediction): object {
  return {
    from: timeText(fromMs),
    to: timeText(toMs),
    acquisitions,
    control: figuresView(control),
    treatment: figuresView(treatment),
  };
}

function figuresView({ policy, busyRetries, firstRetrySuccess, waitMs, latencyMs }: PredictedFigures): object {
  return {
    policy,
    busy_retries: busyRetries,
    first_retry_success: firstRetrySuccess,
    run_lock_wait_ms: quantilesView(waitMs),
    job_result_latency_ms: quantilesView(latencyMs),
  };
}

const quantilesView = ({ p50, p95, p99 }: Quantiles): object => ({ p50, p95, p99 });
const timeText = (ms: number): string => new Date(ms).toISOString();
