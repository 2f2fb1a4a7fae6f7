/**
 * `cordum lab occ`: do our event loop and our retry policies agree with the literature? The model is in `occ-model.ts`.
 *
 * Where our policies differ from the published ones, on purpose:
 * - `decorrelated`: published is `min(cap, U[base, 3·previous])`, which heaps delays up on the cap. Ours draws from
 *   `[base, min(3·previous, cap)]` and never clips, so its delays are shorter once the cap is near: about 8 % less time
 *   at 100 clients for about as many calls (400 seeds; the mean of 20 varies by some 3 % either way).
 *   `decorrelated_clipped` is the published one, for comparison; it exists only here.
 * - All of ours are whole milliseconds, both ends included. It makes no difference that can be seen.
 * `equal`, `full` and the exponential (here `capped_exponential` without its jitter) are the published ones.
 */
import { experiment, type Row } from "../experiment.ts";
import type { LiveConditions, LivePlan } from "../live.ts";
import type { ParamTable, ValuesOf } from "../params.ts";
import type { Column } from "../report/tables.ts";
import { occConclusions, occPictures } from "./report.ts";
import { backoffOf, measured } from "./rows.ts";

const KNOWN = {
  none: "starts again at once",
  exponential: "doubles its delay each time, up to the cap; everybody the same",
  equal: "half of that delay, and up to as much again by chance",
  full: "anything from nothing to that delay, by chance",
  decorrelated: "anything from the base to three times the delay before, by chance",
  decorrelated_clipped: "the same as it was published: whatever is over the cap is the cap",
} as const;

const PARAMS = {
  clients: {
    kind: "numbers",
    default: Array.from({ length: 19 }, (_, index) => 10 * (index + 1)),
    unit: "",
    min: 1,
    max: 2_000,
    isWhole: true,
    help: "how many clients update the row at once; several, with commas; with --live 10,50 unless given, 200 at most",
  },
  policies: {
    kind: "rows",
    default: ["none", "exponential", "equal", "full", "decorrelated"],
    known: KNOWN,
    help: "how a client that was too late comes back; may be given several times",
  },
  baseMs: {
    kind: "number",
    default: 5,
    unit: "ms",
    min: 1,
    max: 60_000,
    isWhole: true,
    help: "the base of the delays; the first one is of twice that",
  },
  capMs: {
    kind: "number",
    default: 2_000,
    unit: "ms",
    min: 2,
    max: 3_600_000,
    isWhole: true,
    help: "no delay is longer",
  },
  latencyMs: {
    kind: "number",
    default: 10,
    unit: "ms",
    min: 0.1,
    max: 60_000,
    isWhole: false,
    help: "one way through the network, on average",
  },
  latencyMsSd: {
    kind: "number",
    default: 2,
    unit: "ms",
    min: 0,
    max: 60_000,
    isWhole: false,
    help: "how much that varies: the standard deviation",
  },
  binMs: {
    kind: "number",
    default: 50,
    unit: "ms",
    min: 1,
    max: 60_000,
    isWhole: true,
    help: "calls are counted in bins of this width",
  },
} as const satisfies ParamTable;

export type OccParams = ValuesOf<typeof PARAMS>;

/** What is set beside what happened live. */
const COMPARED: readonly Column[] = [
  { path: "time_ms", header: "time", unit: "ms", best: null },
  { path: "calls", header: "calls", unit: "", best: null },
  { path: "wait_ms.p50", header: "wait p50", unit: "ms", best: null },
  { path: "wait_ms.p95", header: "wait p95", unit: "ms", best: null },
];
/** Of more, those that wait ever longer without any chance in it take a minute and more. */
const LIVE_CLIENTS = [10, 50];
const LIVE_CLIENTS_MAX = 200;
const LIVE_PROCESSES = 4;

export const OCC = experiment({
  name: "occ",
  summary: "many clients update one row at once: the published model, as a check of our policies and our event loop",
  description:
    "Many clients want to change the same row at the same moment. Only one can win; whoever was too late reads again and " +
    "tries again. How they come back decides how much work is wasted and how long the last one waits. The model and its " +
    "figures are published, so this shows whether our policies and our virtual clock can be believed.",
  params: PARAMS,
  seedsDefault: 20,
  centre: "mean",
  check: (params) => void params.policies.map((name) => backoffOf(name, params)),
  run: runAll,
  tables: [
    {
      kind: "pivot",
      title: "time until the last client is done",
      down: { key: "clients", header: "clients" },
      across: "policy",
      column: { path: "time_ms", header: "time", unit: "ms", best: "least" },
    },
    {
      kind: "pivot",
      title: "calls: writes that reached the server",
      down: { key: "clients", header: "clients" },
      across: "policy",
      column: { path: "calls", header: "calls", unit: "", best: "least" },
    },
  ],
  charts: occPictures,
  findings: occConclusions,
  live: {
    compared: COMPARED,
    measuredParams: [],
    plan: planLive,
    keys: (params) =>
      params.clients.flatMap((clients) =>
        params.policies.map((policy) => ({ policy, spelling: backoffOf(policy, params).spelling, clients })),
      ),
    runRow: async (...given) => (await import("./live.ts")).conductOcc(...given),
    startProcess: async (...given) => (await import("./member.ts")).joinOcc(...given),
  },
});

/**
 * Real clients update a real record. The network is the model's all the same, and each client waits for it: with what lies
 * between this machine and its servers there would be other figures, and none to compare them with.
 */
function planLive(params: OccParams, given: LiveConditions): LivePlan<OccParams> {
  const clients = given.givenParams.has("clients") ? params.clients : LIVE_CLIENTS;
  const most = Math.max(...clients);
  if (most > LIVE_CLIENTS_MAX) throw new Error(`--clients ${most}: give ${LIVE_CLIENTS_MAX} at most with --live`);
  const processes = given.processes ?? Math.min(LIVE_PROCESSES, given.processesMax);
  return { params: { ...params, clients }, processes };
}

async function runAll(seed: number, params: OccParams, note: (share: number) => void): Promise<readonly Row[]> {
  const [{ runOcc }, { SeededRandom }] = await Promise.all([import("./model.ts"), import("../../sim/random.ts")]);
  const chance = new SeededRandom(seed, "occ");
  const rows: Row[] = [];
  for (const [index, clients] of params.clients.entries()) {
    for (const policy of params.policies) {
      const { spelling, backoff } = backoffOf(policy, params);
      const ask = { clients, hopMs: params.latencyMs, hopMsSd: params.latencyMsSd, backoff };
      const history = await runOcc(ask, chance.fork(`${policy} ${clients}`));
      rows.push({ key: { policy, spelling, clients }, ...measured(history, clients, params.binMs) });
    }
    note((index + 1) / params.clients.length);
  }
  return rows;
}
