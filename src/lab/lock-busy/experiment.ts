/**
 * `cordum lab lock-busy`: many results of one run arrive at the same time, and each needs the run lock.
 *
 * `scenario.ts` has the settings of the rows and prepares the runs, `simulation.ts` simulates a row, `live.ts` runs it with
 * real processes, `probe.ts` measures both, `report.ts` describes the figures.
 */
import { experiment, type OnProgress, type Row } from "../experiment.ts";
import { type LiveConditions, type LivePlan, limitLive, simulatedOnly } from "../live.ts";
import { decimal, ParamError, type ParamTable, type ValuesOf, whole } from "../params.ts";
import { type Column, column } from "../report/tables.ts";
import { lockBusyCharts, lockBusyFindings } from "./report.ts";

export const KNOWN_ROWS = {
  baseline: "`fixed:500ms`, no lock queue, one commit per result (profile `baseline`)",
  baseline_capped: "as `baseline`, with the cap of 100 deliveries; a result beyond it becomes a dead letter",
  hand_over: "one commit per result, up to 60 s in the lock queue",
  hand_over_500ms: "one commit per result, 500 ms in the lock queue (the default), then bounded jitter",
  default: "the default settings: results of one process share a commit and wait in the lock queue",
} as const;

export type KnownRow = keyof typeof KNOWN_ROWS;

const DEFAULT_ROWS = [
  "baseline",
  "baseline_capped",
  "bounded:500ms:0.1",
  "bounded:500ms:0.2",
  "bounded:500ms:0.3",
  "bounded:500ms:0.5",
  "capped_exponential:1s:30s:500ms",
  "full:1s:30s",
  "decorrelated:500ms:30s",
  "hand_over",
  "hand_over_500ms",
  "default",
] as const;

/** Rows of the variant `wide`: jitter much wider than the delay. */
const WIDE_ROWS = ["bounded:500ms:0.9", "full:2500ms:5s"];

const VARIANTS = ["bus", "gateway", "leaked", "wide"] as const;
export type Variant = (typeof VARIANTS)[number];

/** The maximum of a `for_each`. */
const PER_RUN_MAX = 10_000;

const PARAMS = {
  contenders: whole({ default: 200, min: 1, max: 100_000, help: "results that arrive at the same time" }),
  hotRuns: whole({ default: 1, min: 1, max: 10_000, help: "runs that share these results evenly" }),
  replicas: whole({ default: 3, min: 1, max: 10_000, help: "control plane replicas that share the results" }),
  holdMs: decimal({ unit: "ms", default: 5, min: 0.1, max: 10_000, help: "lock hold time per commit" }),
  latencyMs: decimal({ unit: "ms", default: 0.1, min: 0.001, max: 1_000, help: "mean one-way network latency" }),
  latencySpread: decimal({
    ...{ default: 0.2, min: 0, max: 1 },
    help: "standard deviation of the latency, as a share of the mean",
  }),
  nakLookMs: decimal({
    ...{ unit: "ms", default: 0, min: 0, max: 1_000 },
    help: "redelivery timer of the broker, restarted by every nak; 0 is one timer per message; NATS: 10",
  }),
  stepMs: decimal({
    ...{ unit: "ms", default: 0, min: 0, max: 100 },
    help: "thread time of a control plane per message, response or timer",
  }),
  policies: {
    kind: "rows",
    default: DEFAULT_ROWS,
    known: KNOWN_ROWS,
    help: "rows to run, repeatable; a retry policy runs without lock queue and coalescing",
  },
  cap: {
    kind: "choice",
    choices: ["off", "on"],
    default: "off",
    help: "limit deliveries (100) and the lock_busy budget (10 min) in all rows",
  },
  variant: {
    kind: "choice",
    choices: VARIANTS,
    default: "bus",
    help:
      "bus: results arrive over the bus; gateway: over HTTP with a lock wait of up to 3 s; leaked: the lock holder was " +
      "killed and its lease lasts 30 s; wide: adds rows with very wide jitter",
  },
  binMs: decimal({ unit: "ms", default: 50, min: 1, max: 60_000, help: "bin width of arrival counts" }),
} as const satisfies ParamTable;

export type LockBusyParams = ValuesOf<typeof PARAMS>;

const POLICY = [{ key: "policy", header: "row" }] as const;

const WORK_COLUMNS: readonly Column[] = [
  column("drain_ms", "drain time", "ms", "least"),
  column("ratio", "× ideal", "", "least"),
  column("busy_retries", "busy replies", "", "least"),
  column("attempts_per_acquisition", "attempts/acquisition", "", "least"),
  column("first_retry_success", "first-retry success", "", "most"),
  column("returns.peak", "retries peak", "per bin", "least"),
  column("returns.mean", "mean", "per bin"),
  column("deliveries_max", "deliveries max", "", "least"),
  column("dead_lettered", "dead letters", "", "least"),
];

const WAIT_COLUMNS: readonly Column[] = [
  column("wait_ms.p50", "lock wait p50", "ms", "least"),
  column("wait_ms.p95", "p95", "ms", "least"),
  column("wait_ms.p99", "p99", "ms", "least"),
  column("result_latency_ms.p50", "result latency p50", "ms", "least"),
  column("result_latency_ms.p95", "p95", "ms", "least"),
  column("result_latency_ms.p99", "p99", "ms", "least"),
];

const COMPARED: readonly Column[] = [
  column("drain_ms", "drain time", "ms"),
  column("attempts_per_acquisition", "attempts/acquisition"),
  column("result_latency_ms.p50", "result p50", "ms"),
  column("result_latency_ms.p95", "result p95", "ms"),
];

/** The calibration row: the time per turn of the lock beyond the hold affects every row. */
const CALIBRATION = { contenders: 40, holdMs: 5 };

export const LOCK_BUSY = experiment({
  name: "lock-busy",
  summary: "contention for one run lock: drain time, retries and latency by retry policy and lock queue",
  description:
    "A run is changed by one process at a time, so applying a result needs the run lock. When a wide fan-out completes, " +
    "hundreds of results request the lock at the same time. One acquires it, the others retry or wait in a queue. The " +
    "experiment runs the production locks, queues and retries, and measures the drain time (from the first delivery to the " +
    "last applied result) and the number of failed lock attempts. The ideal drain time is the sum of the lock hold times: " +
    "one per result, or one per batch where results share a commit.",
  params: PARAMS,
  seedsDefault: 1,
  centre: "median",
  check: ({ contenders, hotRuns }) => {
    if (contenders < hotRuns)
      throw new ParamError("contenders", `--contenders ${contenders}: give at least one for each hot run`);
    if (contenders / hotRuns <= PER_RUN_MAX) return;
    const runs = Math.ceil(contenders / PER_RUN_MAX);
    throw new ParamError(
      "contenders",
      `--contenders ${contenders}: a run has at most ${PER_RUN_MAX}; give --hot-runs ${runs} or more`,
    );
  },
  run: runAll,
  tables: [
    { kind: "rows", title: "drain time and retries", keys: POLICY, columns: WORK_COLUMNS },
    { kind: "rows", title: "lock wait and result latency", keys: POLICY, columns: WAIT_COLUMNS },
  ],
  charts: lockBusyCharts,
  findings: lockBusyFindings,
  live: {
    compared: COMPARED,
    measuredParams: ["latencyMs", "latencySpread", "nakLookMs", "stepMs"],
    plan: planLive,
    times: 3,
    calibration: {
      measureBroker: async (group) => (await import("./live.ts")).measureBroker(group),
      key: { policy: "hand_over" },
      label: `${CALIBRATION.contenders} queued results`,
      params: (planned) => {
        const holdMs = Math.min(planned.holdMs, CALIBRATION.holdMs);
        return { ...planned, ...{ contenders: CALIBRATION.contenders, hotRuns: 1, policies: ["hand_over"], holdMs } };
      },
      figure: "drain_ms",
      times: 5,
    },
    keys: (params) => rowNames(params).map((policy) => ({ policy })),
    runRow: async (...args) => (await import("./live.ts")).runLiveRow(...args),
    startProcess: async (...args) => (await import("./live.ts")).startLiveProcess(...args),
  },
});

function planLive(params: LockBusyParams, conditions: LiveConditions): LivePlan<LockBusyParams> {
  const { contenders, hotRuns, variant, replicas } = params;
  limitLive("--contenders", contenders, 1_000);
  limitLive("--hot-runs", hotRuns, 100);
  if (variant !== "bus" && variant !== "wide") throw simulatedOnly("--variant", variant, "bus or wide");
  const processes = conditions.processes ?? Math.min(replicas, conditions.processesMax);
  const { latencyMs, latencySpread, nakLookMs, stepMs } = conditions;
  return { params: { ...params, replicas: processes, latencyMs, latencySpread, nakLookMs, stepMs }, processes };
}

function rowNames({ policies, variant }: LockBusyParams): readonly string[] {
  return [...new Set([...policies, ...(variant === "wide" ? WIDE_ROWS : [])])];
}

async function runAll(seed: number, params: LockBusyParams, onProgress: OnProgress): Promise<readonly Row[]> {
  const [{ prepareRuns, settingsOf }, { simulateRow }] = await Promise.all([
    import("./scenario.ts"),
    import("./simulation.ts"),
  ]);
  const { contenders, hotRuns } = params;
  const variant = params.variant as Variant;
  const isLeased = variant === "gateway";
  const prepared = await prepareRuns({ seed, contenders, hotRuns, isLeased, settings: settingsOf("default", true) });
  const names = rowNames(params);
  const rows: Row[] = [];
  for (const policy of names) {
    const settings = settingsOf(policy, params.cap === "on");
    const { figures, series = {}, steps = 0 } = await simulateRow(prepared, { ...params, seed, settings, variant });
    rows.push({ key: { policy }, figures, series, steps });
    onProgress(rows.length / names.length);
  }
  return rows;
}
