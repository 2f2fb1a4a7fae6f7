/** Rollouts as text. */
import type { Json } from "../client.ts";
import { formatDuration, printable, textTable } from "../table.ts";

/** The state, both arms side by side, the prediction, and the evidence for each gate. */
export function rolloutText(rollout: Json): string {
  return [
    headline(rollout),
    ...conditions(rollout),
    "",
    textTable(ARM_HEADERS, armRows(rollout)).trimEnd(),
    "",
    textTable(
      gateHeaders(rollout),
      rollout.judged_gates.map((gate: Json) => gateRow(gate, rollout)),
    ).trimEnd(),
    outlook(rollout),
    ...(hasEnded(rollout) ? [] : ["", INTERFERENCE_NOTE]),
    "",
  ].join("\n");
}

export const hasEnded = ({ state }: Json): boolean =>
  state === "rolled_back" || state === "ended" || state === "promoted";

/** Shown while a rollout runs. */
export const INTERFERENCE_NOTE =
  "Arms that share a lock, a queue or a safety kernel influence each other, which makes their figures more alike than\n" +
  "the policies are. `--orgs` (separate tenants) and `--switch` (arms alternate in time) reduce this.";

function headline({ id, class: subject, control, policy, state }: Json): string {
  return `${id}  ${state}  ${subject}: ${control} → ${policy}`;
}

function conditions(rollout: Json): readonly string[] {
  const { shares, stage, orgs, switch_ms: switchMs, reason } = rollout;
  const ramp = shares.map((share: number, at: number) => (at === stage ? `[${percent(share)}]` : percent(share)));
  const tenants = orgs.length === 0 ? "all tenants" : `tenants ${orgs.map(printable).join(", ")}`;
  const unit = switchMs === null ? "" : `, arms alternate every ${formatDuration(switchMs)}`;
  return [
    `treatment share ${ramp.join(" → ")} of ${tenants}${unit}; horizon ${formatDuration(rollout.horizon_ms)}`,
    `started ${rollout.started_at} by ${printable(rollout.started_by_name ?? rollout.started_by)}; ends ${rollout.ends_at} at the latest`,
    `last change ${rollout.updated_at} by ${printable(rollout.updated_by_name ?? rollout.updated_by)}${reason === "" ? "" : `: ${printable(reason)}`}`,
  ];
}

const ARM_HEADERS = [
  "ARM",
  "UNITS",
  "BUSY RETRIES",
  "PER MIN",
  "FIRST RETRY",
  "LOCK WAIT p50/p95/p99 ms",
  "RESULT LATENCY p50/p95/p99 ms",
  "DEAD LETTERS",
];

function armRows({ arms, prediction }: Json): readonly (readonly string[])[] {
  const measured = ["control", "treatment"].map((name) => {
    const arm = arms[name];
    return [
      name,
      String(arm.units),
      String(arm.busy_retries),
      decimal(arm.busy_retries_per_minute),
      arm.first_retry_success === null ? "–" : percent(arm.first_retry_success),
      quantiles(arm.run_lock_wait_ms ?? arm.admission_wait_ms),
      quantiles(arm.job_result_latency_ms),
      String(arm.dead_letters),
    ];
  });
  if (prediction === null) return measured;
  const predicted = ["control", "treatment"].map((name) => {
    const figures = prediction[name];
    return [
      `predicted ${name}`,
      "–",
      String(figures.busy_retries),
      "–",
      figures.first_retry_success === null ? "–" : percent(figures.first_retry_success),
      quantiles(figures.run_lock_wait_ms),
      quantiles(figures.job_result_latency_ms),
      "–",
    ];
  });
  return [...measured, ...predicted];
}

const gateHeaders = ({ e_value_limit: limit }: Json): readonly string[] => [
  "GATE",
  `E (rolls back at ${decimal(limit)})`,
  `PROOF E (proved at ${decimal(limit)})`,
  "DIFFERENCE",
  "RESULT",
];

function gateRow(gate: Json, { state, e_value_limit: limit }: Json): readonly string[] {
  const { difference } = gate;
  const range =
    difference === null ? "–" : `${signed(difference.mean)} (${signed(difference.low)} to ${signed(difference.high)})`;
  const isBreached = state === "rolled_back" && gate.e_value >= limit;
  const result = isBreached ? "breached" : gate.proved ? "proved" : "undecided";
  return [gate.gate, decimal(gate.e_value), decimal(gate.proof_e_value), range, result];
}

function outlook(rollout: Json): string {
  const { expected_decision: expected, e_value, e_value_limit: limit } = rollout;
  const evidence = `all gates: E ${decimal(e_value)} of ${decimal(limit)}`;
  if (hasEnded(rollout)) return evidence;
  if (expected === null) return `${evidence}; no decision in sight yet`;
  const what = expected.kind === "breach" ? "a rollback" : "a proof";
  return `${evidence}; at this rate ${what} in about ${formatDuration(expected.in_ms)}`;
}

export const percent = (share: number): string => `${Number((100 * share).toFixed(1))} %`;

const quantiles = (distribution: Json | null): string =>
  distribution === null
    ? "–"
    : [distribution.p50, distribution.p95, distribution.p99].map((ms) => String(Math.round(ms))).join(" / ");

function decimal(value: number | null): string {
  if (value === null) return "–";
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(2)));
}

const signed = (value: number): string => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
