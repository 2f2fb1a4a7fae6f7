/**
 * `cordum lab safety-outage`: what becomes of the jobs that wait while the safety kernel is away, and of the kernel when it
 * is back. The world is in `safety-outage-world.ts`, the kernel in `safety-outage-kernel.ts`.
 */
import { experiment, type Row } from "../experiment.ts";
import type { LiveConditions, LivePlan } from "../live.ts";
import type { ParamTable, ValuesOf } from "../params.ts";
import type { Column, TableSpec } from "../report/tables.ts";
import { DEFAULT_POLICY, outageConclusions, outagePictures } from "./report.ts";

const KNOWN = {
  "fixed:5s": "always 5 s: as the system began",
  "capped_exponential:1s:30s:500ms": "doubles up to 30 s; its half second of chance vanishes at the cap",
  "full:1s:30s": "anything from nothing to the doubled delay, by chance: the default",
  "decorrelated:1s:30s": "anything from 1 s to three times the delay before, by chance",
} as const;

const COUNT = { kind: "number", unit: "", isWhole: true } as const;
const MS = { kind: "number", unit: "ms", isWhole: true } as const;

const PARAMS = {
  policies: {
    kind: "rows",
    default: Object.keys(KNOWN),
    known: KNOWN,
    help: "how a job comes back that found no kernel; may be given several times",
  },
  outageMs: {
    ...MS,
    default: 600_000,
    min: 1_000,
    max: 24 * 3_600_000,
    help: "how long the kernel is away; with --live 10 s unless given, 60 s at most",
  },
  contenders: {
    ...COUNT,
    default: 1_000,
    min: 1,
    max: 100_000,
    help: "jobs of the burst, all at the same instant; with --live 200 unless given, 500 at most",
  },
  waitedMs: {
    ...MS,
    default: 50_000,
    min: 1_000,
    max: 24 * 3_600_000,
    help: "how long the burst has waited when the kernel comes back",
  },
  rate: {
    ...{ kind: "number", unit: "jobs/s", isWhole: false, min: 0.01, max: 10_000 },
    default: 0.15,
    help: "the steady load, from the moment on at which the kernel goes",
  },
  replicas: { ...COUNT, default: 3, min: 1, max: 10_000, help: "control planes that share the jobs" },
  kernelMs: {
    ...{ kind: "number", unit: "ms", isWhole: false, min: 0, max: 10_000 },
    default: 5,
    help: "what one check costs the kernel, which does one at a time",
  },
  latencyMs: {
    ...{ kind: "number", unit: "ms", isWhole: false, min: 0.01, max: 1_000 },
    default: 0.3,
    help: "one way through the network, on average",
  },
  leaseAfterMs: {
    ...MS,
    default: 60_000,
    min: 0,
    max: 24 * 3_600_000,
    help: "in the rows with a lease: when somebody opens it, after the kernel has gone",
  },
  gone: {
    kind: "choice",
    choices: ["refuses", "hangs"],
    default: "refuses",
    help: "how it is away: connections are refused at once, or nothing comes back in time",
  },
  load: {
    kind: "choice",
    choices: ["both", "burst", "steady"],
    default: "both",
    help: "which rows; with --live the burst alone",
  },
  breaker: { kind: "choice", choices: ["both", "on", "off"], default: "both", help: "which rows" },
  mode: {
    kind: "choice",
    choices: ["both", "closed", "lease"],
    default: "both",
    help: "which rows: nothing goes out without a verdict, or a fail-open lease lets it; with --live closed alone",
  },
  binMs: { ...MS, default: 1_000, min: 1, max: 60_000, help: "the width of a column in the picture of arrivals" },
} as const satisfies ParamTable;

export type OutageParams = ValuesOf<typeof PARAMS>;

const CLOSED_COLUMNS: readonly Column[] = [
  { path: "drain_ms", header: "drained after", unit: "ms", best: "least" },
  { path: "pressure.checks_per_s", header: "checks while away", unit: "1/s", best: "least" },
  { path: "pressure.refused_per_s", header: "held by breaker", unit: "1/s", best: null },
  { path: "recovery_ms", header: "first answer after", unit: "ms", best: "least" },
  { path: "arrivals.peak_to_mean", header: "peak:mean", unit: "", best: "least" },
  { path: "arrivals.poisson", header: "of pure chance", unit: "", best: null },
  { path: "late_checks", header: "answered too late", unit: "", best: "least" },
  { path: "wait_ms.p95", header: "wait p95", unit: "ms", best: "least" },
  { path: "left", header: "never drained", unit: "jobs", best: "least" },
];

const LEASE_COLUMNS: readonly Column[] = [
  { path: "bypassed", header: "bypassed", unit: "jobs", best: null },
  { path: "submitted", header: "of", unit: "jobs", best: null },
  { path: "wait_ms.p50", header: "wait p50", unit: "ms", best: "least" },
  { path: "wait_ms.p95", header: "wait p95", unit: "ms", best: "least" },
  { path: "pressure.checks_per_s", header: "checks while away", unit: "1/s", best: "least" },
  { path: "drain_ms", header: "drained after", unit: "ms", best: "least" },
];

/** What is set beside what happened live. */
const COMPARED: readonly Column[] = [
  { path: "drain_ms", header: "drained after", unit: "ms", best: null },
  { path: "pressure.checks_per_s", header: "checks while away", unit: "1/s", best: null },
  { path: "recovery_ms", header: "first answer after", unit: "ms", best: null },
  { path: "arrivals.peak_to_mean", header: "peak:mean", unit: "", best: null },
  { path: "late_checks", header: "answered too late", unit: "", best: null },
  { path: "wait_ms.p95", header: "wait p95", unit: "ms", best: null },
];

/** Nobody waits ten minutes for a row; and what is written down for virtual time is replaced by what fits. */
const LIVE = {
  outageMs: { usual: 10_000, max: 60_000 },
  contenders: { usual: 200, max: 500 },
  waitedShare: 0.8,
} as const;

export const SAFETY_OUTAGE = experiment({
  name: "safety-outage",
  summary: "the safety kernel is away for a while: who waits, who asks, and what happens when it is back",
  description:
    "No job goes out before the safety kernel has allowed it, so while the kernel is away jobs wait and come back to ask " +
    "again. If all of them come back at the same moment, they meet a kernel that has just returned and bring it down " +
    "again. The experiment takes the kernel away, lets jobs wait for it under several retry policies, brings it back, and " +
    "looks at how evenly they come, how long it takes until nobody waits any more, and what a fail-open lease lets out.",
  params: PARAMS,
  seedsDefault: 1,
  centre: "mean",
  run: runAll,
  tables: tablesOf(),
  charts: outagePictures,
  findings: outageConclusions,
  live: {
    compared: COMPARED,
    measuredParams: ["latencyMs"],
    plan: planLive,
    keys: (params) => wishesOf(params).map(({ load, mode, policy, breaker }) => ({ load, mode, policy, breaker })),
    runRow: async (...given) => (await import("./live.ts")).conductSafetyOutage(...given),
    startProcess: async (...given) => (await import("./member.ts")).joinSafetyOutage(...given),
  },
});

/**
 * The burst, with nothing going out without a verdict. The rest takes minutes by its nature: under a steady load there is
 * nothing to see before many have come, and a lease is opened by a person who has noticed.
 */
function planLive(params: OutageParams, given: LiveConditions): LivePlan<OutageParams> {
  const onlySimulated = (flag: string, value: string, instead: string): Error =>
    new Error(`${flag} \`${value}\` is simulated only: give ${instead} with --live`);
  if (params.load === "steady") throw onlySimulated("--load", "steady", "burst");
  if (params.mode === "lease") throw onlySimulated("--mode", "lease", "closed");
  if (params.gone === "hangs") throw onlySimulated("--gone", "hangs", "refuses");
  if (given.processes === 1 && given.processesMax > 1) {
    throw new Error("--processes 1: give 2 or more, for one of them is the safety kernel");
  }
  // The kernel is one more, which does not touch the world.
  const replicas = given.processes === null ? params.replicas : given.processes - 1;
  const controls = Math.max(1, Math.min(replicas, given.processesMax - 1));
  const outageMs = liveOf("outageMs", "--outage-ms", params.outageMs, given);
  return {
    params: {
      ...params,
      ...{ load: "burst", mode: "closed", replicas: controls, outageMs },
      contenders: liveOf("contenders", "--contenders", params.contenders, given),
      waitedMs: Math.min(params.waitedMs, LIVE.waitedShare * outageMs),
      latencyMs: Math.max(PARAMS.latencyMs.min, given.latencyMs),
    },
    processes: controls + 1,
  };
}

function liveOf(
  name: "outageMs" | "contenders",
  flag: string,
  value: number,
  { givenParams: typed }: LiveConditions,
): number {
  if (!typed.has(name)) return LIVE[name].usual;
  if (value > LIVE[name].max) throw new Error(`${flag} ${value}: give ${LIVE[name].max} at most with --live`);
  return value;
}

async function runAll(seed: number, params: OutageParams, note: (share: number) => void): Promise<readonly Row[]> {
  const { outageRow } = await import("./rows.ts");
  const { contenders: jobs, waitedMs, rate: perS, ...rest } = params;
  const loads = { burst: { kind: "burst", jobs, waitedMs }, steady: { kind: "steady", perS } } as const;
  const wishes = wishesOf(params);
  const rows: Row[] = [];
  for (const { load, mode, policy, breaker } of wishes) {
    const gone = params.gone === "hangs" ? "hangs" : "refuses";
    const leaseAfterMs = mode === "lease" ? params.leaseAfterMs : null;
    const hasBreaker = breaker === "on";
    rows.push(await outageRow({ ...rest, seed, load: loads[load], policy, hasBreaker, leaseAfterMs, gone }));
    note(rows.length / wishes.length);
  }
  return rows;
}

function wishesOf(params: OutageParams) {
  const loads = (["burst", "steady"] as const).filter((load) => isAsked(params.load, load));
  const modes = ["closed", "lease"].filter((mode) => isAsked(params.mode, mode));
  const breakers = ["off", "on"].filter((breaker) => isAsked(params.breaker, breaker));
  // Under a lease nobody waits for the kernel: with or without a breaker is asked once, as it is shipped.
  const breakersOf = (mode: string): readonly string[] => (mode === "lease" ? breakers.slice(-1) : breakers);
  // A burst that comes when a lease is open is let out at once: no policy has a say in it, and one of them is enough.
  const isLeasedAtOnce = params.leaseAfterMs <= params.outageMs - params.waitedMs;
  const policiesOf = (load: string, mode: string): readonly string[] =>
    load === "burst" && mode === "lease" && isLeasedAtOnce ? [mainOf(params.policies)] : params.policies;
  return loads.flatMap((load) =>
    modes.flatMap((mode) =>
      policiesOf(load, mode).flatMap((policy) => breakersOf(mode).map((breaker) => ({ load, mode, policy, breaker }))),
    ),
  );
}

const mainOf = (policies: readonly string[]): string =>
  policies.find((policy) => policy === DEFAULT_POLICY) ?? policies[0] ?? DEFAULT_POLICY;

const isAsked = (asked: string, one: string): boolean => asked === "both" || asked === one;

function tablesOf(): readonly TableSpec[] {
  const keys = [
    { key: "policy", header: "policy" },
    { key: "breaker", header: "breaker" },
  ];
  const titles = { burst: "a burst that came at one instant", steady: "a steady load" } as const;
  return (["burst", "steady"] as const).flatMap((load): TableSpec[] => [
    {
      kind: "rows",
      title: `${titles[load]}; nothing goes out without a verdict`,
      keys,
      columns: CLOSED_COLUMNS,
      where: ({ key }) => key.load === load && key.mode === "closed",
    },
    {
      kind: "rows",
      title: `${titles[load]}; under a fail-open lease`,
      keys,
      columns: LEASE_COLUMNS,
      where: ({ key }) => key.load === load && key.mode === "lease",
    },
  ]);
}
