/**
 * `cordum lab rollout`: how often rollouts are rolled back or proved. `pool.ts` produces units with the production engine,
 * `trial.ts` judges a rollout of them, `rows.ts` has the rows of the table.
 */

import { eValueOf } from "../../core/rollout/e-value.ts";
import { breachEValue, type Judgement } from "../../core/rollout/judgement.ts";
import { experiment, figureOf, type OnProgress, type Outcome, type Row, type Summary } from "../experiment.ts";
import { decimal, type ParamTable, type ValuesOf, whole } from "../params.ts";
import type { Chart } from "../report/chart.ts";
import { formatNumber } from "../report/format.ts";
import { column } from "../report/tables.ts";
import { percentiles, sampled } from "../statistics.ts";
import { POLICIES, ROWS, type RowSpec, treatmentPool } from "./rows.ts";

const PARAMS = {
  trials: whole({ default: 1_000, min: 1, max: 100_000, help: "rollouts per row" }),
  share: decimal({ default: 0.1, min: 0.01, max: 0.99, help: "share of the treatment arm" }),
  alpha: decimal({ default: 0.01, min: 0.000001, max: 0.5, help: "error probability of a rollout" }),
  treatmentRuns: whole({
    ...{ default: 1_500, min: 10, max: 1_000_000 },
    help: "treatment runs after which a rollout ends undecided",
  }),
  poolRuns: whole({ default: 500, min: 10, max: 20_000, help: "simulated runs per policy, from which trials draw" }),
  widthMax: whole({
    ...{ default: 30, min: 1, max: 1_000 },
    help: "the most results of a run, which arrive at the same time",
  }),
  replicas: whole({ default: 3, min: 1, max: 100, help: "control plane replicas that share the results" }),
  holdMs: decimal({ unit: "ms", default: 5, min: 0.1, max: 1_000, help: "lock hold time per commit" }),
  latencyMs: decimal({ unit: "ms", default: 0.1, min: 0.001, max: 1_000, help: "mean one-way network latency" }),
  latencySpread: decimal({
    ...{ default: 0.2, min: 0, max: 1 },
    help: "standard deviation of the latency, as a share of the mean",
  }),
  horizonMs: whole({ unit: "ms", default: 600_000, min: 1_000, max: 86_400_000, help: "observed time per run" }),
} as const satisfies ParamTable;

type RolloutParams = ValuesOf<typeof PARAMS>;

export const ROLLOUT = experiment({
  name: "rollout",
  summary: "error rates and power of rollouts: how often they are rolled back or proved",
  description:
    "A rollout is judged after every block of runs, and a breach rolls it back. The experiment repeats rollouts with the default " +
    "gates and counts the verdicts. The runs are produced by the production engine in the simulator: their results arrive in " +
    "bursts and contend for the run lock with the lock settings of the baseline. Each trial draws its runs from these pools. Rows " +
    "at and above a gate scale the measured durations of the control policy.",
  params: PARAMS,
  seedsDefault: 1,
  centre: "mean",
  run: runAll,
  tables: [
    {
      kind: "rows",
      title: "verdicts of rollouts",
      keys: [
        { key: "row", header: "row" },
        { key: "control", header: "control" },
        { key: "treatment", header: "treatment" },
        { key: "required", header: "required" },
      ],
      columns: [
        column("rolled_back_pct", "rolled back", "%"),
        column("proved_pct", "proved", "%"),
        column("treatment_runs.p50", "decided after p50", "treatment runs"),
        column("treatment_runs.p95", "p95", "treatment runs"),
      ],
    },
  ],
  charts: rolloutCharts,
  findings: rolloutFindings,
});

async function runAll(seed: number, params: RolloutParams, onProgress: OnProgress): Promise<readonly Row[]> {
  const [{ producePools }, { runTrial }, { SeededRandom }] = await Promise.all([
    import("./pool.ts"),
    import("./trial.ts"),
    import("../../sim/random.ts"),
  ]);
  const poolRequest = { ...params, seed, runs: params.poolRuns, policies: POLICIES };
  const pools = await producePools(poolRequest, (share) => onProgress(share / 2));
  const rows: Row[] = [];
  for (const spec of ROWS) {
    const control = pools.get(spec.control) ?? [];
    const treatment = treatmentPool(spec, pools);
    const { share, alpha, treatmentRuns: treatmentMax } = params;
    const endsWhenProved = spec.verdict === "proved";
    const request = { control, treatment, share, alpha, treatmentMax, endsWhenProved };
    const randomOf = (trial: number) => new SeededRandom(seed, `rollout/${spec.row}/${trial}`);
    const outcomes = Array.from({ length: params.trials }, (_, trial) => {
      onProgress(0.5 + (rows.length + trial / params.trials) / ROWS.length / 2);
      return runTrial({ ...request, random: randomOf(trial) });
    });
    const drawn = { units: [] as number[], evidence: [] as number[] };
    const onJudged = (judgement: Judgement) => {
      drawn.units.push(judgement.arms.treatment.units);
      drawn.evidence.push(Math.max(DRAWN_LEAST, evidenceOf(spec, judgement)));
    };
    if (spec.isDrawn) {
      const units = { treatmentMax: Math.min(treatmentMax, DRAWN_UNITS_MAX), batchMax: Math.ceil(DRAWN_UNITS / share) };
      runTrial({ ...request, ...units, random: randomOf(0), onJudged });
    }
    const pct = (kind: string) => (100 * outcomes.filter((outcome) => outcome.kind === kind).length) / outcomes.length;
    // A verdict that must be rare has no meaningful time.
    const found = spec.atLeastPct === undefined ? [] : outcomes.filter(({ kind }) => kind === spec.verdict);
    const decided = found.map(({ treatmentUnits }) => treatmentUnits);
    rows.push({
      key: { row: spec.row, control: spec.control, treatment: spec.treatment, required: requiredText(spec) },
      figures: { rolled_back_pct: pct("breach"), proved_pct: pct("proved"), treatment_runs: percentiles(decided) },
      series: { decided: sampled(decided), ...drawn },
    });
  }
  return rows;
}

/** The evidence for a breach, or that for the gate that is proved last. */
function evidenceOf({ verdict }: RowSpec, judgement: Judgement): number {
  if (verdict === "breach") return breachEValue(judgement);
  return Math.min(...judgement.gates.map(({ proof }) => eValueOf(proof)));
}

function requiredText({ verdict, atLeastPct, atMostPct }: RowSpec): string {
  const name = verdict === "breach" ? "rolled back" : "proved";
  return atMostPct === undefined ? `${name} ≥ ${atLeastPct} %` : `${name} ≤ ${atMostPct} %`;
}

function rolloutFindings({ rows, params }: Outcome): readonly string[] {
  const missed = ROWS.flatMap((spec) => {
    const row = rows.find(({ key }) => key.row === spec.row);
    return row === undefined || isMet(spec, row)
      ? []
      : [`\`${spec.row}\` misses its requirement (${requiredText(spec)}).`];
  });
  const all = `${rows.length} rows of ${formatNumber(Number(params.trials))} rollouts, inspected after every block`;
  return missed.length === 0 ? [`All requirements are met: ${all}.`] : missed;
}

function isMet({ verdict, atLeastPct = 0, atMostPct = 100 }: RowSpec, row: Summary): boolean {
  const pct = figureOf(row, verdict === "breach" ? "rolled_back_pct" : "proved_pct");
  return pct >= atLeastPct && pct <= atMostPct;
}

function rolloutCharts({ rows, params }: Outcome): readonly Chart[] {
  const decided = rows.filter(({ series }) => (series.decided?.length ?? 0) > 1);
  const drawn = ROWS.filter(({ isDrawn }) => isDrawn).flatMap((spec) => {
    const { units = [], evidence = [] } = rows.find(({ key }) => key.row === spec.row)?.series ?? {};
    const name = `${spec.row}: ${spec.verdict === "breach" ? "worse" : "not worse"}`;
    return units.length === 0 ? [] : [{ name, points: units.map((count, at) => [count, evidence[at] ?? 0] as const) }];
  });
  const last = Math.max(0, ...drawn.flatMap(({ points }) => points.map(([units]) => units)));
  const needed = 1 / Number(params.alpha);
  const decision = {
    name: `decision at α = ${formatNumber(100 * Number(params.alpha))} %`,
    points: [[0, needed] as const, [last, needed] as const],
  };
  return [
    {
      kind: "lines",
      name: "evidence",
      title: "Evidence of three rollouts",
      caption:
        "The e-value after each batch of runs. At the decision line, a rollout whose treatment is worse is rolled back, and one " +
        "that is not worse at any gate may be promoted. Equal arms stay below it, however often they are inspected.",
      x: { label: "treatment runs", unit: "" },
      y: { label: "e-value", unit: "", isLog: true },
      lines: [...drawn, decision],
    },
    {
      kind: "distribution",
      name: "decisions",
      title: "Treatment runs until the verdict",
      caption:
        "Share of the decided rollouts whose verdict is known after a number of treatment runs. A curve further to the left " +
        "decides sooner. Rows with at most one verdict are omitted.",
      x: { label: "treatment runs", unit: "" },
      of: "rollouts",
      samples: decided.map(({ key, series }) => ({ name: String(key.row), values: series.decided ?? [] })),
    },
  ];
}

/** Treatment runs between two drawn points. */
const DRAWN_UNITS = 10;
const DRAWN_UNITS_MAX = 600;
const DRAWN_LEAST = 0.01;
