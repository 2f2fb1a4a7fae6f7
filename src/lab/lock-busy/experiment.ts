/**
 * `cordum lab lock-busy`: many results of one run come at the same moment, and each needs the run's lock. What is set
 * differently in each row is in `lock-busy-rows.ts`, the world in `lock-busy-world.ts`.
 */
import { experiment, type Row } from "../experiment.ts";
import type { LiveConditions, LivePlan } from "../live.ts";
import type { ParamTable, ValuesOf } from "../params.ts";
import type { Column } from "../report/tables.ts";
import { lockBusyConclusions, lockBusyPictures } from "./report.ts";

export const KNOWN_ROWS = {
  founding: "fixed 500 ms, no queue, each result for itself: as the system began",
  founding_capped: "the same with its cap of 100 deliveries: who is not done by then becomes a dead letter",
  hand_over: "each result for itself, in the queue for the lock until it is its turn (a minute at most)",
  hand_over_500ms: "each result for itself, 500 ms in the queue as shipped, then back with bounded jitter",
  default: "as shipped: results that meet in one process share one turn of the lock, and wait in its queue",
} as const;

export type KnownRow = keyof typeof KNOWN_ROWS;

const DEFAULT_ROWS = [
  "founding",
  "founding_capped",
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

/** Jitter much wider than the delay that it spreads: what that does to the last ones. */
const WIDE_ROWS = ["bounded:500ms:0.9", "full:2500ms:5s"];

const VARIANTS = ["bus", "gateway", "leaked", "wide"] as const;
export type Variant = (typeof VARIANTS)[number];

const COUNT = { kind: "number", unit: "", isWhole: true } as const;
const MS = { kind: "number", unit: "ms", isWhole: false } as const;
/** A for_each has no more. */
const PER_RUN_MAX = 10_000;

const PARAMS = {
  contenders: { ...COUNT, default: 200, min: 1, max: 100_000, help: "results that come at the same moment" },
  hotRuns: { ...COUNT, default: 1, min: 1, max: 10_000, help: "runs that they belong to, evenly" },
  replicas: { ...COUNT, default: 3, min: 1, max: 10_000, help: "control planes that share the results" },
  holdMs: { ...MS, default: 5, min: 0.1, max: 10_000, help: "how long the lock is held for one commit" },
  latencyMs: { ...MS, default: 0.1, min: 0.001, max: 1_000, help: "one way through the network, on average" },
  latencySpread: {
    ...{ kind: "number", unit: "", isWhole: false, default: 0.2, min: 0, max: 1 },
    help: "how uneven that is: its standard deviation, as a share of it",
  },
  nakLookMs: {
    ...{ ...MS, default: 0, min: 0, max: 1_000 },
    help: "nothing comes back from the broker until no retry was handed to it for so long; NATS: 10",
  },
  stepMs: {
    ...{ ...MS, default: 0, min: 0, max: 100 },
    help: "how long the thread of a control plane is busy with a message, an answer or a timer",
  },
  policies: {
    kind: "rows",
    default: DEFAULT_ROWS,
    known: KNOWN_ROWS,
    help: "the rows; a retry policy is one without queue and coalescing; may be given several times",
  },
  cap: {
    kind: "choice",
    choices: ["off", "on"],
    default: "off",
    help: "whether deliveries (100) and the patience for a busy lock (10 min) are limited, in all rows",
  },
  variant: {
    kind: "choice",
    choices: VARIANTS,
    default: "bus",
    help:
      "bus: results come by the bus; gateway: over HTTP, which waits up to 3 s for the lock; leaked: the holder was killed, " +
      "its lock lasts 30 s; wide: rows with very wide jitter besides",
  },
  binMs: { ...MS, default: 50, min: 1, max: 60_000, help: "arrivals are counted in bins of this width" },
} as const satisfies ParamTable;

export type LockBusyParams = ValuesOf<typeof PARAMS>;

const POLICY = [{ key: "policy", header: "row" }] as const;

const WORK_COLUMNS: readonly Column[] = [
  { path: "drain_ms", header: "drained after", unit: "ms", best: "least" },
  { path: "ratio", header: "× ideal", unit: "", best: "least" },
  { path: "busy_retries", header: "busy", unit: "", best: "least" },
  { path: "attempts_per_acquisition", header: "attempts a turn", unit: "", best: "least" },
  { path: "first_retry_success", header: "first retry won", unit: "", best: "most" },
  { path: "returns.peak", header: "returns peak", unit: "", best: "least" },
  { path: "returns.mean", header: "mean", unit: "", best: null },
  { path: "deliveries_max", header: "deliveries", unit: "", best: "least" },
  { path: "dead_lettered", header: "dead letters", unit: "", best: "least" },
];

const WAIT_COLUMNS: readonly Column[] = [
  { path: "wait_ms.p50", header: "lock p50", unit: "ms", best: "least" },
  { path: "wait_ms.p95", header: "p95", unit: "ms", best: "least" },
  { path: "wait_ms.p99", header: "p99", unit: "ms", best: "least" },
  { path: "result_latency_ms.p50", header: "result p50", unit: "ms", best: "least" },
  { path: "result_latency_ms.p95", header: "p95", unit: "ms", best: "least" },
  { path: "result_latency_ms.p99", header: "p99", unit: "ms", best: "least" },
];

/** What is set beside what happened live. */
const COMPARED: readonly Column[] = [
  { path: "drain_ms", header: "drained after", unit: "ms", best: null },
  { path: "attempts_per_acquisition", header: "attempts a turn", unit: "", best: null },
  { path: "result_latency_ms.p50", header: "result p50", unit: "ms", best: null },
  { path: "result_latency_ms.p95", header: "result p95", unit: "ms", best: null },
];
const LIVE_CONTENDERS_MAX = 1_000;
const LIVE_HOT_RUNS_MAX = 100;
/** Turns of the lock, and hardly anything else: what a turn takes, beside the hold, is what all rows depend on. */
const TUNING = { contenders: 40, holdMs: 5 };

export const LOCK_BUSY = experiment({
  name: "lock-busy",
  summary: "many results of one run at once: how they get its lock, one after another",
  description:
    "A run may be changed by one process at a time, so whoever brings a result needs the run's lock. When a wide fan-out " +
    "comes home, hundreds of results want it at the same moment. One gets it; the others come back later. If all of them " +
    "come back at the same later moment, again one gets it. The experiment lets them come, with the shipped locks, queues " +
    "and retries, and looks at how long it takes until the last result is in and how much asking was in vain. The ideal is " +
    "the time for which the lock has to be held at least: once for each result, or once for each batch where results " +
    "share a turn.",
  params: PARAMS,
  seedsDefault: 1,
  centre: "median",
  check: ({ contenders, hotRuns }) => {
    if (contenders < hotRuns) throw new Error(`--contenders ${contenders}: give at least one for each hot run`);
    if (contenders / hotRuns <= PER_RUN_MAX) return;
    const runs = Math.ceil(contenders / PER_RUN_MAX);
    throw new Error(`--contenders ${contenders}: a run has at most ${PER_RUN_MAX}; give --hot-runs ${runs} or more`);
  },
  run: runAll,
  tables: [
    { kind: "rows", title: "until the last result is in, and what it takes", keys: POLICY, columns: WORK_COLUMNS },
    { kind: "rows", title: "how long a result waits", keys: POLICY, columns: WAIT_COLUMNS },
  ],
  charts: lockBusyPictures,
  findings: lockBusyConclusions,
  live: {
    compared: COMPARED,
    measuredParams: ["latencyMs", "latencySpread", "nakLookMs", "stepMs"],
    plan: planLive,
    times: 3,
    calibration: {
      measureBroker: async (crew) => (await import("./naks.ts")).conductNaks(crew),
      key: { policy: "hand_over" },
      label: `${TUNING.contenders} results in the queue`,
      params: (planned) => {
        const holdMs = Math.min(planned.holdMs, TUNING.holdMs);
        return { ...planned, ...{ contenders: TUNING.contenders, hotRuns: 1, policies: ["hand_over"], holdMs } };
      },
      figure: "drain_ms",
      times: 5,
    },
    keys: (params) => rowNames(params).map((policy) => ({ policy })),
    runRow: async (...given) => (await import("./live.ts")).conductLockBusy(...given),
    startProcess: async (...given) => (await import("./member.ts")).joinLockBusy(...given),
  },
});

/** How many take part is bounded: this is somebody's machine. */
function planLive(params: LockBusyParams, given: LiveConditions): LivePlan<LockBusyParams> {
  const { contenders, hotRuns, variant, replicas } = params;
  const tooMany = (flag: string, value: number, max: number): Error =>
    new Error(`${flag} ${value}: give ${max} at most with --live`);
  if (contenders > LIVE_CONTENDERS_MAX) throw tooMany("--contenders", contenders, LIVE_CONTENDERS_MAX);
  if (hotRuns > LIVE_HOT_RUNS_MAX) throw tooMany("--hot-runs", hotRuns, LIVE_HOT_RUNS_MAX);
  if (variant !== "bus" && variant !== "wide") {
    throw new Error(`--variant \`${variant}\` is simulated only: give bus or wide with --live`);
  }
  const processes = given.processes ?? Math.min(replicas, given.processesMax);
  const { latencyMs, latencySpread, nakLookMs, stepMs } = given;
  return { params: { ...params, replicas: processes, latencyMs, latencySpread, nakLookMs, stepMs }, processes };
}

function rowNames({ policies, variant }: LockBusyParams): readonly string[] {
  return [...new Set([...policies, ...(variant === "wide" ? WIDE_ROWS : [])])];
}

async function runAll(seed: number, params: LockBusyParams, note: (share: number) => void): Promise<readonly Row[]> {
  const [{ settingsOf }, { setStage }, { runRow }] = await Promise.all([
    import("./rows.ts"),
    import("./stage.ts"),
    import("./world.ts"),
  ]);
  const { contenders, hotRuns, replicas, holdMs, latencyMs, latencySpread, nakLookMs, stepMs, binMs } = params;
  const variant = params.variant as Variant;
  const names = rowNames(params);
  const isLeased = variant === "gateway";
  const stage = await setStage({ seed, contenders, hotRuns, isLeased, settings: settingsOf("default", true) });
  const rows: Row[] = [];
  for (const policy of names) {
    const settings = settingsOf(policy, params.cap === "on");
    const order = { seed, settings, replicas, holdMs, latencyMs, latencySpread, nakLookMs, stepMs, binMs, variant };
    const { figures, series = {}, steps = 0 } = await runRow(stage, order);
    rows.push({ key: { policy }, figures, series, steps });
    note(rows.length / names.length);
  }
  return rows;
}
