/**
 * `cordum lab admission`: many callers start a run of one org at the same time, and two runs may be open.
 *
 * `scenario.ts` has the settings, the workflows and the figures, `clients.ts` the callers, `simulation.ts` simulates a cell,
 * `live.ts` runs it with real processes, `report.ts` describes the figures.
 */
import { experiment, type OnProgress, type Row, type RowKey } from "../experiment.ts";
import { type LiveConditions, type LivePlan, limitLive } from "../live.ts";
import { decimal, type ParamTable, type ValuesOf, whole, wholes } from "../params.ts";
import { type Column, column, type TableSpec } from "../report/tables.ts";
import { admissionCharts, admissionFindings, DEFAULT_POLL } from "./report.ts";

const KNOWN_ROWS = {
  atomic: "the slot is taken in the commit that starts the run, without a wait (the default)",
  "fixed:10ms": "behind a lock that is polled every 10 ms (profile `baseline`)",
  "bounded:10ms:0.5": "behind the same lock, polled every 5 to 15 ms at random",
} as const;

const CLIENTS = ["none", "fixed", "jittered", "retry_after"] as const;

const LATENCY_MS_MIN = 0.01;

const PARAMS = {
  policies: {
    kind: "rows",
    default: Object.keys(KNOWN_ROWS),
    known: KNOWN_ROWS,
    help: "admission of the server, repeatable: atomic, or the poll policy of the admission lock",
  },
  contenders: wholes({
    ...{ default: [100, 1_000], min: 1, max: 100_000 },
    help: "callers that start a run of one org at the same time; a comma-separated list",
  }),
  client: {
    kind: "choice",
    choices: ["all", ...CLIENTS],
    default: "all",
    help:
      "retries of a rejected caller: none, fixed (after 1 s), jittered (full:250ms:4s), or retry_after (after the time in " +
      "Retry-After)",
  },
  holdMs: whole({ unit: "ms", default: 200, min: 1, max: 3_600_000, help: "duration of a run" }),
  budgetMs: whole({ unit: "ms", default: 3_000, min: 0, max: 3_600_000, help: "how long a caller retries" }),
  maxWaitMs: whole({ unit: "ms", default: 2_000, min: 0, max: 60_000, help: "how long the server polls per request" }),
  replicas: whole({ default: 4, min: 1, max: 1_000, help: "control plane replicas" }),
  latencyMs: decimal({
    ...{ unit: "ms", default: 0.2, min: LATENCY_MS_MIN, max: 10_000 },
    help: "mean one-way network latency",
  }),
  storeMs: decimal({
    ...{ unit: "ms", default: 0.05, min: 0, max: 10_000 },
    help: "service time of a store or lock call; the server handles one at a time",
  }),
  otherRate: decimal({
    ...{ unit: "requests/s", default: 40, min: 0.1, max: 10_000 },
    help: "request rate of a second org",
  }),
  otherForMs: whole({
    ...{ unit: "ms", default: 2_000, min: 1_000, max: 3_600_000 },
    help: "how long the second org sends requests, from the burst on",
  }),
  part: {
    kind: "choice",
    choices: ["both", "grid", "sweep"],
    default: "both",
    help: "grid: servers by clients; sweep: server wait by client budget",
  },
  maxWaitsMs: wholes({
    ...{ unit: "ms", default: [20, 50, 150, 2_000], min: 0, max: 60_000 },
    help: "of the sweep: how long the server polls per request",
  }),
  budgetsMs: wholes({
    ...{ unit: "ms", default: [500, 3_000, 12_000], min: 0, max: 3_600_000 },
    help: "of the sweep: how long a caller retries",
  }),
  binMs: whole({ unit: "ms", default: 20, min: 1, max: 60_000, help: "bin width of arrival counts" }),
} as const satisfies ParamTable;

export type AdmissionParams = ValuesOf<typeof PARAMS>;
export type ClientName = (typeof CLIENTS)[number];

const COLUMNS: readonly Column[] = [
  column("request_ms.p50", "request p50", "ms", "least"),
  column("request_ms.p95", "p95", "ms", "least"),
  column("share.200", "200", "%"),
  column("share.429", "429", "%"),
  column("share.503", "503", "%", "least"),
  column("admitted", "admitted", "callers", "most"),
  column("wait_ms_max", "longest wait", "ms"),
  column("slots_used_share", "slot use", "%", "most"),
  column("asks", "admission attempts", "", "least"),
  column("arrivals.peak", "peak", "per bin", "least"),
  column("other_ms.p95", "other org p95", "ms", "least"),
  column("other_503", "other org 503", "", "least"),
  column("other_alone_ms.p95", "other org alone p95", "ms"),
  column("admitted_max_concurrent", "open runs max"),
];

const COMPARED: readonly Column[] = [
  column("request_ms.p95", "request p95", "ms"),
  column("request_ms.p50", "request p50", "ms"),
  column("share.503", "503", "%"),
  column("admitted", "admitted", "callers"),
  column("asks", "admission attempts"),
  column("other_ms.p95", "other org p95", "ms"),
];

export const ADMISSION = experiment({
  name: "admission",
  summary: "concurrent run starts at a limit of two: latency, status codes and the effect on another org",
  description:
    "An org may have two open runs, and many callers start one at the same time. The server either takes the slot in the " +
    "commit that starts the run, or each request polls an admission lock. Rejected callers retry with different policies. " +
    "The experiment measures how many callers are admitted, the response times, and the response times of a second org that " +
    "shares the servers.",
  params: PARAMS,
  seedsDefault: 1,
  centre: "median",
  run: runAll,
  tables: tablesOf(),
  charts: admissionCharts,
  findings: admissionFindings,
  live: {
    compared: COMPARED,
    measuredParams: ["latencyMs"],
    plan: planLive,
    keys: (params) => cellsOf(0, params).map(keyOf),
    runRow: async (group, request, timeUp) => {
      return (await import("./live.ts")).runLiveCell(group, cellAt(request.key, request.params), timeUp);
    },
    startProcess: async (...args) => (await import("./live.ts")).startLiveProcess(...args),
  },
});

async function runAll(seed: number, params: AdmissionParams, onProgress: OnProgress): Promise<readonly Row[]> {
  const { otherAloneMs, simulateCell } = await import("./simulation.ts");
  const cells = cellsOf(seed, params);
  const alone = new Map<string, readonly number[]>();
  const rows: Row[] = [];
  for (const cell of cells) {
    if (cell.part === "grid" && !alone.has(cell.policy)) alone.set(cell.policy, await otherAloneMs(cell));
    rows.push({ key: keyOf(cell), ...(await simulateCell(cell, alone.get(cell.policy) ?? [])) });
    onProgress(rows.length / cells.length);
  }
  return rows;
}

function planLive(params: AdmissionParams, conditions: LiveConditions): LivePlan<AdmissionParams> {
  limitLive("--contenders", Math.max(...params.contenders), 1_000);
  limitLive("--other-rate", params.otherRate, 1_000);
  const processes = conditions.processes ?? Math.min(params.replicas, conditions.processesMax);
  const latencyMs = Math.max(LATENCY_MS_MIN, conditions.latencyMs);
  return { params: { ...params, replicas: processes, latencyMs }, processes };
}

/** One row of the results: a number of callers, a server and a client. */
export interface Cell
  extends Pick<
    AdmissionParams,
    "holdMs" | "budgetMs" | "maxWaitMs" | "replicas" | "latencyMs" | "storeMs" | "binMs" | "otherForMs" | "otherRate"
  > {
  readonly seed: number;
  readonly part: "grid" | "sweep";
  readonly contenders: number;
  /** `atomic`, or the poll policy of the admission lock. */
  readonly policy: string;
  readonly client: ClientName;
}

/** In the order of the tables. */
function cellsOf(seed: number, params: AdmissionParams): readonly Cell[] {
  return [
    ...(params.part === "sweep" ? [] : gridOf(seed, params)),
    ...(params.part === "grid" ? [] : sweepOf(seed, params)),
  ];
}

function keyOf({ part, contenders, policy, client, maxWaitMs, budgetMs }: Cell): RowKey {
  return { part, contenders, policy, client, max_wait_ms: maxWaitMs, budget_ms: budgetMs };
}

export function cellAt(key: RowKey, params: AdmissionParams): Cell {
  const name = JSON.stringify(key);
  const found = cellsOf(0, params).find((cell) => JSON.stringify(keyOf(cell)) === name);
  if (found === undefined) throw new Error(`no row has the key ${name}`);
  return found;
}

function gridOf(seed: number, params: AdmissionParams): readonly Cell[] {
  const clients = CLIENTS.filter((name) => params.client === "all" || params.client === name);
  return params.contenders.flatMap((contenders) =>
    params.policies.flatMap((policy) =>
      clients.map((client): Cell => ({ ...params, seed, part: "grid", contenders, policy, client })),
    ),
  );
}

/** The server's wait by the clients' budget, for the smallest burst and without the second org. */
function sweepOf(seed: number, params: AdmissionParams): readonly Cell[] {
  const polled = params.policies.filter((policy) => policy !== "atomic");
  const policy = polled.includes(DEFAULT_POLL) ? DEFAULT_POLL : polled[0];
  const [contenders] = params.contenders;
  if (policy === undefined || contenders === undefined) return [];
  const common = { ...params, seed, part: "sweep", contenders, policy, client: "jittered", otherRate: 0 } as const;
  return params.maxWaitsMs.flatMap((maxWaitMs) =>
    params.budgetsMs.map((budgetMs): Cell => ({ ...common, maxWaitMs, budgetMs })),
  );
}

function tablesOf(): readonly TableSpec[] {
  const sweep = (title: string, path: string, unit: string, best: Column["best"]): TableSpec => ({
    kind: "pivot",
    title: `${title} by server wait (rows, ms) and client budget (columns, ms)`,
    down: { key: "max_wait_ms", header: "server wait" },
    across: "budget_ms",
    column: column(path, title, unit, best),
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
    sweep("admitted callers", "admitted_share", "%", "most"),
    sweep("503 responses", "share.503", "%", "least"),
    sweep("request p95", "request_ms.p95", "ms", "least"),
    sweep("requests per caller", "requests_per_caller", "", "least"),
  ];
}
