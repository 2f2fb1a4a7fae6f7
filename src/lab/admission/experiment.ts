/**
 * `cordum lab admission`: many want to start a run at once, and only two may be open. The world is in `admission-world.ts`,
 * those who want something in `admission-clients.ts`.
 */

import { experiment, type Row } from "../experiment.ts";
import type { LiveConditions, LivePlan } from "../live.ts";
import type { ParamTable, ValuesOf } from "../params.ts";
import type { Column, TableSpec } from "../report/tables.ts";
import { CLIENT_NAMES, cellsOf, keyOf } from "./cells.ts";
import { admissionConclusions, admissionPictures } from "./report.ts";

const KNOWN = {
  atomic: "the slot is taken in the write that starts the run: nobody waits. The default",
  "fixed:10ms": "behind a lock that is asked for every 10 ms: as the system began",
  "bounded:10ms:0.5": "behind the same lock, asked for every 5 to 15 ms by chance",
} as const;

const MS = { kind: "number", unit: "ms", isWhole: true, min: 0, max: 3_600_000 } as const;
const FINE_MS = { kind: "number", unit: "ms", isWhole: false, min: 0, max: 10_000 } as const;

const LATENCY_MS_MIN = 0.01;

const PARAMS = {
  policies: {
    kind: "rows",
    default: Object.keys(KNOWN),
    known: KNOWN,
    help: "how the server lets them in, atomic or the policy with which the lock is polled; may be given several times",
  },
  contenders: {
    ...{ kind: "numbers", unit: "", isWhole: true, min: 1, max: 100_000 },
    default: [100, 1_000],
    help: "callers that want a run of one org at the same instant; several, with commas",
  },
  client: {
    kind: "choice",
    choices: ["all", ...CLIENT_NAMES],
    default: "all",
    help: "what a caller does that was told to come back: nothing, after 1 s, full:250ms:4s, or when Retry-After says so",
  },
  holdMs: { ...MS, default: 200, min: 1, help: "how long a run lasts; then its slot is free again" },
  budgetMs: { ...MS, default: 3_000, help: "how long a caller goes on trying" },
  maxWaitMs: { ...MS, default: 2_000, max: 60_000, help: "how long the server polls for the lock of one request" },
  replicas: { kind: "number", unit: "", isWhole: true, default: 4, min: 1, max: 1_000, help: "control planes" },
  latencyMs: { ...FINE_MS, default: 0.2, min: LATENCY_MS_MIN, help: "one way through the network, on average" },
  storeMs: {
    ...FINE_MS,
    default: 0.05,
    help: "what one call costs the server of records and locks, which does one at a time",
  },
  otherRate: {
    ...{ kind: "number", unit: "requests/s", isWhole: false, min: 0.1, max: 10_000 },
    default: 40,
    help: "what the other org asks for beside",
  },
  otherForMs: { ...MS, default: 2_000, min: 1_000, help: "for how long it does, from the burst on" },
  part: {
    kind: "choice",
    choices: ["both", "grid", "sweep"],
    default: "both",
    help: "the grid of servers and clients, the sweep of the server's and the clients' patience, or both",
  },
  maxWaitsMs: {
    ...{ kind: "numbers", unit: "ms", isWhole: true, min: 0, max: 60_000 },
    default: [20, 50, 150, 2_000],
    help: "of the sweep: how long the server polls for the lock of one request",
  },
  budgetsMs: {
    ...{ kind: "numbers", unit: "ms", isWhole: true, min: 0, max: 3_600_000 },
    default: [500, 3_000, 12_000],
    help: "of the sweep: how long a caller goes on trying",
  },
  binMs: { ...MS, default: 20, min: 1, max: 60_000, help: "the width of a column in the picture of arrivals" },
} as const satisfies ParamTable;

export type AdmissionParams = ValuesOf<typeof PARAMS>;

const COLUMNS: readonly Column[] = [
  { path: "request_ms.p50", header: "request p50", unit: "ms", best: "least" },
  { path: "request_ms.p95", header: "p95", unit: "ms", best: "least" },
  { path: "share.200", header: "200", unit: "%", best: null },
  { path: "share.429", header: "429", unit: "%", best: null },
  { path: "share.503", header: "503", unit: "%", best: "least" },
  { path: "admitted", header: "let in", unit: "callers", best: "most" },
  { path: "wait_ms_max", header: "longest wait", unit: "ms", best: null },
  { path: "slots_used_share", header: "slots used", unit: "%", best: "most" },
  { path: "asks", header: "asks for the key", unit: "", best: "least" },
  { path: "arrivals.peak", header: "peak", unit: "per bin", best: "least" },
  { path: "other_ms.p95", header: "other org p95", unit: "ms", best: "least" },
  { path: "other_503", header: "its 503", unit: "", best: "least" },
  { path: "other_alone_ms.p95", header: "alone", unit: "ms", best: null },
  { path: "admitted_max_concurrent", header: "open at once", unit: "", best: null },
];

/** What is set beside what happened live. */
const COMPARED: readonly Column[] = [
  { path: "request_ms.p95", header: "request p95", unit: "ms", best: null },
  { path: "request_ms.p50", header: "request p50", unit: "ms", best: null },
  { path: "share.503", header: "503", unit: "%", best: null },
  { path: "admitted", header: "let in", unit: "callers", best: null },
  { path: "asks", header: "asks for the key", unit: "", best: null },
  { path: "other_ms.p95", header: "other org p95", unit: "ms", best: null },
];
const LIVE_CONTENDERS_MAX = 1_000;
const LIVE_OTHER_RATE_MAX = 1_000;

export const ADMISSION = experiment({
  name: "admission",
  summary: "many callers start runs of one org at once, and only two may be open: who gets in, and who else feels it",
  description:
    "An org may have two runs open, and many callers want to start one at the same moment. The server either takes the slot " +
    "in the one write that starts the run, or lets the requests queue before a lock that each of them asks for again and " +
    "again. Callers that are turned away come back in their own way. The experiment counts who gets in, how long it takes, " +
    "and whether another org, which has nothing to do with it, has to wait as well.",
  params: PARAMS,
  seedsDefault: 1,
  centre: "median",
  run: runAll,
  tables: tablesOf(),
  charts: admissionPictures,
  findings: admissionConclusions,
  live: {
    compared: COMPARED,
    measuredParams: ["latencyMs"],
    plan: planLive,
    keys: (params) => cellsOf(0, params).map(keyOf),
    runRow: async (...given) => (await import("./live.ts")).conductAdmission(...given),
    startProcess: async (...given) => (await import("./member.ts")).joinAdmission(...given),
  },
});

async function runAll(seed: number, params: AdmissionParams, note: (share: number) => void): Promise<readonly Row[]> {
  const { admissionRow, aloneMs } = await import("./rows.ts");
  const cells = cellsOf(seed, params);
  const alone = new Map<string, readonly number[]>();
  const rows: Row[] = [];
  for (const cell of cells) {
    if (cell.part === "grid" && !alone.has(cell.policy)) alone.set(cell.policy, await aloneMs(cell));
    rows.push(await admissionRow(cell, alone.get(cell.policy) ?? []));
    note(rows.length / cells.length);
  }
  return rows;
}

/** How many take part is bounded: this is somebody's machine. How long a row lasts is bounded by whoever runs it. */
function planLive(params: AdmissionParams, given: LiveConditions): LivePlan<AdmissionParams> {
  const most = Math.max(...params.contenders);
  if (most > LIVE_CONTENDERS_MAX) {
    throw new Error(`--contenders ${most}: give ${LIVE_CONTENDERS_MAX} at most with --live`);
  }
  if (params.otherRate > LIVE_OTHER_RATE_MAX) {
    throw new Error(`--other-rate ${params.otherRate}: give ${LIVE_OTHER_RATE_MAX} at most with --live`);
  }
  const processes = given.processes ?? Math.min(params.replicas, given.processesMax);
  return {
    params: { ...params, replicas: processes, latencyMs: Math.max(LATENCY_MS_MIN, given.latencyMs) },
    processes,
  };
}

function tablesOf(): readonly TableSpec[] {
  const sweep = (title: string, path: string, unit: string, best: Column["best"]): TableSpec => ({
    kind: "pivot",
    title: `${title}; down: how long the server polls, across: how long callers go on (ms)`,
    down: { key: "max_wait_ms", header: "max wait" },
    across: "budget_ms",
    column: { path, header: title, unit, best },
    where: ({ key }) => key.part === "sweep",
  });
  return [
    {
      kind: "rows",
      title: "servers and clients",
      keys: [
        { key: "contenders", header: "callers" },
        { key: "policy", header: "server" },
        { key: "client", header: "client" },
      ],
      columns: COLUMNS,
      groupBy: "contenders",
      where: ({ key }) => key.part === "grid",
    },
    sweep("callers let in", "admitted_share", "%", "most"),
    sweep("requests that were told 503", "share.503", "%", "least"),
    sweep("a request takes, p95", "request_ms.p95", "ms", "least"),
    sweep("requests for each caller", "requests_per_caller", "", "least"),
  ];
}
