/**
 * `cordum lab safety-outage`: jobs that wait during an outage of the safety kernel, and the load on the kernel after it.
 *
 * `scenario.ts` has the settings and the figures, `simulation.ts` simulates a row, `live.ts` runs it with real processes,
 * `report.ts` describes the figures.
 */
import { experiment, type OnProgress, type Row } from "../experiment.ts";
import { type LiveConditions, type LivePlan, limitLive, simulatedOnly } from "../live.ts";
import { decimal, type ParamTable, type ValuesOf, whole } from "../params.ts";
import { type Column, column, type TableSpec } from "../report/tables.ts";
import { DEFAULT_POLICY, outageCharts, outageFindings } from "./report.ts";

const KNOWN_ROWS = {
  "fixed:5s": "5 s (profile `baseline`)",
  "capped_exponential:1s:30s:500ms": "doubles up to 30 s; its jitter of up to 500 ms vanishes at the cap",
  "full:1s:30s": "uniform from 0 to a delay that doubles up to 30 s (the default)",
  "decorrelated:1s:30s": "uniform from 1 s to three times the previous delay",
} as const;

const DAY_MS = 24 * 3_600_000;

const PARAMS = {
  policies: {
    kind: "rows",
    default: Object.keys(KNOWN_ROWS),
    known: KNOWN_ROWS,
    help: "retry policy of jobs without a safety decision, repeatable",
  },
  outageMs: whole({
    ...{ unit: "ms", default: 600_000, min: 1_000, max: DAY_MS },
    help: "duration of the outage; with --live 10 s unless given, 60 s at most",
  }),
  contenders: whole({
    ...{ default: 1_000, min: 1, max: 100_000 },
    help: "jobs of the burst; with --live 200 unless given, 500 at most",
  }),
  waitedMs: whole({
    ...{ unit: "ms", default: 50_000, min: 1_000, max: DAY_MS },
    help: "time from the burst to the end of the outage",
  }),
  rate: decimal({
    ...{ unit: "jobs/s", default: 0.15, min: 0.01, max: 10_000 },
    help: "rate of the steady load, from the start of the outage on",
  }),
  replicas: whole({ default: 3, min: 1, max: 10_000, help: "control plane replicas that share the jobs" }),
  kernelMs: decimal({
    ...{ unit: "ms", default: 5, min: 0, max: 10_000 },
    help: "service time of a check; the kernel handles one at a time",
  }),
  latencyMs: decimal({ unit: "ms", default: 0.3, min: 0.01, max: 1_000, help: "mean one-way network latency" }),
  leaseAfterMs: whole({
    ...{ unit: "ms", default: 60_000, min: 0, max: DAY_MS },
    help: "time from the start of the outage to the fail-open lease, in rows with a lease",
  }),
  gone: {
    kind: "choice",
    choices: ["refuses", "hangs"],
    default: "refuses",
    help: "failure mode of the kernel: refuses connections, or never responds",
  },
  load: {
    kind: "choice",
    choices: ["both", "burst", "steady"],
    default: "both",
    help: "rows by load; with --live burst only",
  },
  breaker: { kind: "choice", choices: ["both", "on", "off"], default: "both", help: "rows by circuit breaker" },
  mode: {
    kind: "choice",
    choices: ["both", "closed", "lease"],
    default: "both",
    help: "rows by fail mode: closed, or with a fail-open lease; with --live closed only",
  },
  binMs: whole({ unit: "ms", default: 1_000, min: 1, max: 60_000, help: "bin width of arrival counts" }),
} as const satisfies ParamTable;

export type OutageParams = ValuesOf<typeof PARAMS>;

const CLOSED_COLUMNS: readonly Column[] = [
  column("drain_ms", "drain time", "ms", "least"),
  column("pressure.checks_per_s", "checks in outage", "1/s", "least"),
  column("pressure.refused_per_s", "stopped by breaker", "1/s"),
  column("recovery_ms", "first decision", "ms", "least"),
  column("arrivals.peak_to_mean", "peak:mean", "", "least"),
  column("arrivals.poisson", "Poisson peak:mean"),
  column("late_checks", "timed-out checks", "", "least"),
  column("wait_ms.p95", "wait p95", "ms", "least"),
  column("left", "not drained", "jobs", "least"),
];

const LEASE_COLUMNS: readonly Column[] = [
  column("bypassed", "bypassed", "jobs"),
  column("submitted", "submitted", "jobs"),
  column("wait_ms.p50", "wait p50", "ms", "least"),
  column("wait_ms.p95", "wait p95", "ms", "least"),
  column("pressure.checks_per_s", "checks in outage", "1/s", "least"),
  column("drain_ms", "drain time", "ms", "least"),
];

const COMPARED: readonly Column[] = [
  column("drain_ms", "drain time", "ms"),
  column("pressure.checks_per_s", "checks in outage", "1/s"),
  column("recovery_ms", "first decision", "ms"),
  column("arrivals.peak_to_mean", "peak:mean"),
  column("late_checks", "timed-out checks"),
  column("wait_ms.p95", "wait p95", "ms"),
];

export const SAFETY_OUTAGE = experiment({
  name: "safety-outage",
  summary: "outage of the safety kernel: load on the kernel, recovery and drain time by retry policy and breaker",
  description:
    "A job is dispatched after the safety kernel has allowed it. During an outage of the kernel, jobs wait and retry their " +
    "check. Retries in step reach the recovered kernel as a thundering herd and overload it again. The experiment stops the " +
    "kernel, lets jobs wait under several retry policies, restores the kernel, and measures how evenly the retries arrive, the " +
    "drain time (from the recovery until no job waits) and how many jobs a fail-open lease lets through unchecked.",
  params: PARAMS,
  seedsDefault: 1,
  centre: "mean",
  run: runAll,
  tables: tablesOf(),
  charts: outageCharts,
  findings: outageFindings,
  live: {
    compared: COMPARED,
    measuredParams: ["latencyMs"],
    plan: planLive,
    keys: rowKeys,
    runRow: async (...args) => (await import("./live.ts")).runLiveRow(...args),
    startProcess: async (...args) => (await import("./live.ts")).startLiveProcess(...args),
  },
});

/** Defaults and limits of a live run. */
const LIVE = {
  outageMs: { flag: "--outage-ms", default: 10_000, max: 60_000 },
  contenders: { flag: "--contenders", default: 200, max: 500 },
  waitedShare: 0.8,
} as const;

/** The burst without a lease. A steady load and a lease need minutes and are simulated only. */
function planLive(params: OutageParams, conditions: LiveConditions): LivePlan<OutageParams> {
  if (params.load === "steady") throw simulatedOnly("--load", "steady", "burst");
  if (params.mode === "lease") throw simulatedOnly("--mode", "lease", "closed");
  if (params.gone === "hangs") throw simulatedOnly("--gone", "hangs", "refuses");
  const { processes, processesMax } = conditions;
  if (processes === 1 && processesMax > 1) {
    throw new Error("--processes 1: give 2 or more; one process is the safety kernel");
  }
  const replicas = processes === null ? params.replicas : processes - 1;
  const controls = Math.max(1, Math.min(replicas, processesMax - 1));
  const outageMs = liveValue("outageMs", params.outageMs, conditions);
  return {
    params: {
      ...params,
      ...{ load: "burst", mode: "closed", replicas: controls, outageMs },
      contenders: liveValue("contenders", params.contenders, conditions),
      waitedMs: Math.min(params.waitedMs, LIVE.waitedShare * outageMs),
      latencyMs: Math.max(PARAMS.latencyMs.min, conditions.latencyMs),
    },
    processes: controls + 1,
  };
}

function liveValue(name: "outageMs" | "contenders", value: number, { givenParams }: LiveConditions): number {
  if (!givenParams.has(name)) return LIVE[name].default;
  limitLive(LIVE[name].flag, value, LIVE[name].max);
  return value;
}

async function runAll(seed: number, params: OutageParams, onProgress: OnProgress): Promise<readonly Row[]> {
  const { simulateRow } = await import("./simulation.ts");
  const { contenders: jobs, waitedMs, rate: perS } = params;
  const loads = { burst: { kind: "burst", jobs, waitedMs }, steady: { kind: "steady", perS } } as const;
  const keys = rowKeys(params);
  const rows: Row[] = [];
  for (const key of keys) {
    const { load, mode, policy, breaker } = key;
    const gone = params.gone === "hangs" ? "hangs" : "refuses";
    const leaseAfterMs = mode === "lease" ? params.leaseAfterMs : null;
    const hasBreaker = breaker === "on";
    const request = { ...params, seed, load: loads[load], policy, hasBreaker, leaseAfterMs, gone } as const;
    rows.push({ key, ...(await simulateRow(request)) });
    onProgress(rows.length / keys.length);
  }
  return rows;
}

function rowKeys(params: OutageParams) {
  const isSelected = (selected: string, one: string): boolean => selected === "both" || selected === one;
  const loads = (["burst", "steady"] as const).filter((load) => isSelected(params.load, load));
  const modes = ["closed", "lease"].filter((mode) => isSelected(params.mode, mode));
  const breakers = ["off", "on"].filter((breaker) => isSelected(params.breaker, breaker));
  // With a lease jobs do not wait for the kernel, so one setting of the breaker is enough.
  const breakersOf = (mode: string): readonly string[] => (mode === "lease" ? breakers.slice(-1) : breakers);
  // A burst during an open lease is dispatched at once, so one policy is enough.
  const isLeasedAtOnce = params.leaseAfterMs <= params.outageMs - params.waitedMs;
  const [first = DEFAULT_POLICY] = params.policies;
  const main = params.policies.includes(DEFAULT_POLICY) ? DEFAULT_POLICY : first;
  const policiesOf = (load: string, mode: string): readonly string[] =>
    load === "burst" && mode === "lease" && isLeasedAtOnce ? [main] : params.policies;
  return loads.flatMap((load) =>
    modes.flatMap((mode) =>
      policiesOf(load, mode).flatMap((policy) => breakersOf(mode).map((breaker) => ({ load, mode, policy, breaker }))),
    ),
  );
}

function tablesOf(): readonly TableSpec[] {
  const keys = [
    { key: "policy", header: "policy" },
    { key: "breaker", header: "breaker" },
  ];
  return (["burst", "steady"] as const).flatMap((load): TableSpec[] => [
    {
      kind: "rows",
      title: `${load} load, fail mode closed`,
      keys,
      columns: CLOSED_COLUMNS,
      where: ({ key }) => key.load === load && key.mode === "closed",
    },
    {
      kind: "rows",
      title: `${load} load, fail-open lease`,
      keys,
      columns: LEASE_COLUMNS,
      where: ({ key }) => key.load === load && key.mode === "lease",
    },
  ]);
}
