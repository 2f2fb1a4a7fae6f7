/** The report of a rollout for a change ticket: an HTML page with plots, and the figures as JSON. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Chart } from "../../lab/report/chart.ts";
import { htmlFigure, htmlPage, htmlTable } from "../../lab/report/html.ts";
import { escaped } from "../../lab/report/svg.ts";
import type { Json } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { formatDuration } from "../table.ts";
import { INTERFERENCE_NOTE, percent } from "./rollout-view.ts";

export async function exportRollout(io: Io, rollout: Json, dir: string, json: boolean): Promise<ExitCode> {
  const name = `rollout-${rollout.id}`;
  const files = [
    { file: join(dir, `${name}.html`), text: rolloutPage(rollout) },
    { file: join(dir, `${name}.json`), text: `${JSON.stringify(rollout, null, 2)}\n` },
  ];
  try {
    mkdirSync(dir, { recursive: true });
    for (const { file, text } of files) writeFileSync(file, text);
  } catch (error) {
    throw new CliError(
      EXIT.error,
      `cannot write to \`${dir}\`: ${(error as Error).message}; choose another directory`,
      null,
    );
  }
  if (json) printJson(io, { files: files.map(({ file }) => file) });
  else for (const { file } of files) io.out(`${file}\n`);
  return EXIT.ok;
}

export function rolloutPage(rollout: Json): string {
  const title = `Rollout ${rollout.id}: ${rollout.class}, ${rollout.control} → ${rollout.policy}`;
  const result = rollout.reason === "" ? `State: ${rollout.state}.` : `State: ${rollout.state}. ${rollout.reason}`;
  return htmlPage(title, [
    `<h1>${escaped(title)}</h1>`,
    `<p class="description">${escaped(result)}</p>`,
    ...chartsOf(rollout).map(htmlFigure),
    "<h2>Arms</h2>",
    armTable(rollout),
    "<h2>Gates</h2>",
    `<p>${escaped(
      `The rollout is rolled back when the mean e-value of the gates reaches ${rollout.e_value_limit}, and a gate is proved when ` +
        `its proof e-value reaches it. The error probability is ${percent(rollout.alpha)}, however often the figures are inspected.`,
    )}</p>`,
    gateTable(rollout),
    "<h2>Conditions</h2>",
    conditionTable(rollout),
    `<p>${escaped(INTERFERENCE_NOTE.replaceAll("\n", " "))}</p>`,
  ]);
}

function chartsOf({ series, judged_gates: gates, e_value_limit: limit, started_at }: Json): readonly Chart[] {
  if (series.length < 2) return [];
  const startMs = Date.parse(started_at);
  const atMs = (point: Json) => Date.parse(point.at) - startMs;
  const lastMs = atMs(series.at(-1));
  const lines = gates.map((gate: Json, at: number) => ({
    name: gate.gate,
    points: series.map((point: Json) => [atMs(point), Math.max(E_SHOWN_MIN, point.e_values[at] ?? 0)] as const),
  }));
  const rollback = {
    name: `rolls back at ${limit}`,
    points: [[atMs(series[0]), limit] as const, [lastMs, limit] as const],
  };
  return [
    {
      kind: "lines",
      name: "e-values",
      title: "Evidence for a breach",
      caption: `E-value of each gate over time. The rollout is rolled back when their mean reaches ${limit}; below 1 the evidence is in favour of the treatment.`,
      x: { label: "time since the start", unit: "ms" },
      y: { label: "e-value", unit: "", isLog: true },
      lines: [...lines, rollback],
    },
  ];
}

function armTable({ arms, prediction }: Json): string {
  const columns: readonly (readonly [name: string, control: string, treatment: string])[] = [
    ["units", ...both(arms, ({ units }) => String(units))],
    ["busy retries", ...both(arms, ({ busy_retries }) => String(busy_retries))],
    ["busy retries per minute", ...both(arms, (arm) => decimal(arm.busy_retries_per_minute))],
    [
      "first-retry success",
      ...both(arms, (arm) => (arm.first_retry_success === null ? "–" : percent(arm.first_retry_success))),
    ],
    ...quantileRows("run-lock wait", arms, "run_lock_wait_ms"),
    ...quantileRows("job-result latency", arms, "job_result_latency_ms"),
    ...quantileRows("admission wait", arms, "admission_wait_ms"),
    ["dead letters by budget", ...both(arms, ({ dead_letters }) => String(dead_letters))],
    ...(prediction === null ? [] : predictedRows(prediction)),
  ];
  const head = ["figure", "control", "treatment"].map((name) => `<th scope="col">${name}</th>`).join("");
  return htmlTable(
    "Both arms over the same time",
    head,
    columns.map(([name, ...cells]) => tableRow(name, cells)),
  );
}

function both(arms: Json, cell: (arm: Json) => string): readonly [string, string] {
  return [cell(arms.control), cell(arms.treatment)];
}

function quantileRows(name: string, arms: Json, field: string): readonly (readonly [string, string, string])[] {
  if (arms.control[field] === null && arms.treatment[field] === null) return [];
  return ["p50", "p95", "p99"].map((quantile) => {
    const cell = (arm: Json) => {
      const distribution = arm[field];
      if (distribution === null) return "–";
      const interval = distribution.intervals[quantile];
      const range = interval === null ? "" : ` (${Math.round(interval.low)} to ${Math.round(interval.high)})`;
      return `${Math.round(distribution[quantile])}${range}`;
    };
    return [`${name} ${quantile} (ms)`, ...both(arms, cell)] as const;
  });
}

function predictedRows(prediction: Json): readonly (readonly [string, string, string])[] {
  return [
    ["predicted busy retries", ...both(prediction, ({ busy_retries }) => String(busy_retries))],
    ["predicted lock wait p95 (ms)", ...both(prediction, (one) => String(Math.round(one.run_lock_wait_ms.p95)))],
    ["predicted latency p95 (ms)", ...both(prediction, (one) => String(Math.round(one.job_result_latency_ms.p95)))],
  ];
}

function gateTable({ judged_gates: gates }: Json): string {
  const head = ["gate", "e-value", "proof e-value", "difference of scores", "result"]
    .map((name) => `<th scope="col">${name}</th>`)
    .join("");
  const rows = gates.map(({ gate, e_value, proof_e_value, difference, proved }: Json) =>
    tableRow(gate, [
      decimal(e_value),
      decimal(proof_e_value),
      difference === null
        ? "–"
        : `${difference.mean.toFixed(3)} (${difference.low.toFixed(3)} to ${difference.high.toFixed(3)})`,
      proved ? "proved" : "not proved",
    ]),
  );
  return htmlTable("Treatment relative to control", head, rows);
}

function conditionTable(rollout: Json): string {
  const facts: readonly (readonly [string, string])[] = [
    ["treatment share", rollout.shares.map(percent).join(" → ")],
    ["tenants", rollout.orgs.length === 0 ? "all" : rollout.orgs.join(", ")],
    ["horizon", formatDuration(rollout.horizon_ms)],
    ["arms alternate", rollout.switch_ms === null ? "no" : `every ${formatDuration(rollout.switch_ms)}`],
    ["started", `${rollout.started_at} by ${rollout.started_by_name ?? rollout.started_by}`],
    ["last change", `${rollout.updated_at} by ${rollout.updated_by_name ?? rollout.updated_by}`],
    ["ends at the latest", rollout.ends_at],
  ];
  return htmlTable(
    "Conditions",
    "",
    facts.map(([name, value]) => tableRow(name, [value])),
  );
}

const tableRow = (name: string, cells: readonly string[]): string =>
  `<tr><th scope="row">${escaped(name)}</th>${cells.map((cell) => `<td>${escaped(cell)}</td>`).join("")}</tr>`;

const decimal = (value: number | null): string => (value === null ? "–" : String(Number(value.toPrecision(3))));

/** Smaller e-values would stretch a logarithmic axis. */
const E_SHOWN_MIN = 0.001;
