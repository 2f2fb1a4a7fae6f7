/**
 * What is there before the first result comes: hot runs, each a fan-out whose children are all with workers.
 *
 * It is made once, by the shipped flow, on a world of its own; every row of the experiment begins with the same records.
 * What is handed on are the commits, in their order, so that each row's store is built as the flow built the first one.
 */
import { startControl } from "../control.ts";
import { type Flow, openFlow } from "../flow/flow.ts";
import { lease } from "../flow/lease.ts";
import { startRun } from "../flow/start-run.ts";
import { applyWorkflow } from "../flow/workflows.ts";
import { JOBS, type Job } from "../model/job.ts";
import type { Change } from "../ports/store.ts";
import type { Settings } from "../settings.ts";
import { CALM } from "../sim/faults.ts";
import { Process } from "../sim/process.ts";
import { SeededRandom } from "../sim/random.ts";
import type { BlobShelf } from "../sim/sim-blobs.ts";
import type { Kernel } from "../sim/sim-safety.ts";
import { openNet, type SimNet, simWorld } from "../sim/world.ts";
import { workSubject } from "../wire/subjects.ts";

export interface Stage {
  readonly changes: readonly Change[];
  readonly blobs: BlobShelf;
  /** When it was ready. */
  readonly atMs: number;
  readonly runIds: readonly string[];
  /** One for each result that will come; those of one run are not neighbours. */
  readonly contenders: readonly Contender[];
}

export interface Contender {
  readonly jobId: string;
  readonly runId: string;
  /** Of a worker that came for its work over HTTP. */
  readonly leaseId: string | null;
}

export interface StageOrder {
  readonly seed: number;
  readonly contenders: number;
  readonly hotRuns: number;
  /** Whether the workers come over HTTP: then they tell the gateway how it went, else the bus. */
  readonly isLeased: boolean;
  readonly settings: Settings;
}

/** Everything is allowed: safety is another experiment. */
export const ALLOWS: Kernel = {
  decide: () => ({ effect: "allow", ruleId: null, reason: "the lab allows everything", snapshot: "lab" }),
  health: "up",
  timeoutMs: 1_000,
};

export async function setStage(order: StageOrder): Promise<Stage> {
  const { ackWaitMs, deliverMax, ackPendingMax: inFlightMax } = order.settings.bus;
  const random = new SeededRandom(order.seed, "stage");
  const net = openNet({ random, faults: CALM, bus: { ackWaitMs, deliverMax, inFlightMax }, kernel: ALLOWS });
  const changes: Change[] = [];
  const out = new Map<string, Contender>();
  net.store.tap((change) => {
    changes.push(change);
    for (const { table, value } of change.puts) if (table === JOBS.name && value) noteJob(out, value as Job);
  });
  const process = new Process(net.timeline, "stage", random.fork("stage"));
  const flow = openFlow(simWorld(net, process, { safety: "local" }), { current: order.settings });
  const runIds = await net.timeline.runUntilSettled(beginRuns(net, flow, order), LIMIT_MS);
  while (out.size < order.contenders) {
    const before = net.timeline.nowMs;
    await net.timeline.runUntil(before + 1_000);
    if (before > LIMIT_MS) throw new Error(`only ${out.size} of ${order.contenders} jobs are with a worker`);
  }
  process.crash();
  return { changes, blobs: net.blobs, atMs: net.timeline.nowMs, runIds, contenders: mixed([...out.values()], runIds) };
}

/** Everything that a net needs to go on from there. */
export async function moveTo(net: SimNet, stage: Stage): Promise<void> {
  await net.timeline.runUntil(stage.atMs);
  for (const [key, blob] of stage.blobs) net.blobs.set(key, blob);
  const process = new Process(net.timeline, "stage", new SeededRandom(0, "stage"));
  // Fences never go back: what the stage wrote under its locks would refuse whoever begins to count anew.
  const fenceMax = fenceMaxOf(stage.changes);
  for (let fence = 0; fence < fenceMax; fence += 1) {
    const wish = { key: "lab:fence", org: ORG, token: "stage", owner: "stage", ttlMs: 1, isWaiting: false };
    net.locks.acquire({ ...wish, process, onGrant: () => undefined });
    net.locks.release(wish.key, wish.token);
  }
  for (const change of stage.changes) {
    const committed = net.store.commit(change);
    if (committed.kind !== "committed") throw new Error(`the stage could not be built again: ${committed.kind}`);
  }
}

function fenceMaxOf(changes: readonly Change[]): number {
  let max = 0;
  for (const { guards } of changes) {
    for (const guard of guards) if (guard.kind === "fence") max = Math.max(max, guard.fence);
  }
  return max;
}

async function beginRuns(net: SimNet, flow: Flow, order: StageOrder): Promise<readonly string[]> {
  if (!order.isLeased) await flow.world.bus.serve(workSubject(TOPIC), () => undefined);
  await startControl(flow);
  const applied = await applyWorkflow(flow, { org: ORG, by: "lab", document: FAN });
  if (applied.kind === "invalid") throw new Error(applied.problems.join("\n"));
  const runIds: string[] = [];
  for (let index = 0; index < order.hotRuns; index += 1) {
    // As even as whole numbers can be.
    const from = Math.floor((index * order.contenders) / order.hotRuns);
    const count = Math.floor(((index + 1) * order.contenders) / order.hotRuns) - from;
    const items = Array.from({ length: count }, (_, item) => item);
    const outcome = await startRun(flow, { ...WISH, input: { items } }, "lab");
    if (outcome.kind !== "started") throw new Error(`run ${index} did not start: ${JSON.stringify(outcome)}`);
    runIds.push(outcome.runId);
  }
  if (order.isLeased) await takeAll(net, flow, order.contenders);
  return runIds;
}

async function takeAll(net: SimNet, flow: Flow, count: number): Promise<void> {
  const wish = { org: ORG, workerId: "worker", topics: [TOPIC], max: 100, waitMs: 1_000 };
  for (let taken = 0; taken < count && net.timeline.nowMs < LIMIT_MS; ) {
    taken += (await lease(flow, { ...wish, signal: new AbortController().signal })).length;
  }
}

function noteJob(out: Map<string, Contender>, { id, state, step, leaseId }: Job): void {
  if (step && (state === "DISPATCHED" || state === "RUNNING")) {
    out.set(id, { jobId: id, runId: step.runId, leaseId: leaseId ?? null });
  } else out.delete(id);
}

/** The first of each run, then the second of each: so their results meet, as those of busy runs do. */
function mixed(contenders: readonly Contender[], runIds: readonly string[]): readonly Contender[] {
  const byRun = new Map<string, Contender[]>(runIds.map((runId) => [runId, []]));
  for (const contender of contenders) byRun.get(contender.runId)?.push(contender);
  const columns = [...byRun.values()];
  const longest = Math.max(...columns.map(({ length }) => length));
  return Array.from({ length: longest }, (_, row) => columns.flatMap((column) => column[row] ?? [])).flat();
}

export const ORG = "default";
const TOPIC = "lab.work";
const FAN = {
  id: "lab-fan",
  steps: { each: { topic: TOPIC, for_each: "${input.items}", max_parallel: 10_000, input: "${item}" } },
};
const WISH = {
  org: ORG,
  workflowId: FAN.id,
  version: null,
  labels: {},
  priority: null,
  idempotencyKey: null,
  traceId: null,
  traceparent: null,
  submittedBy: "lab",
  actorId: null,
};
const LIMIT_MS = 3_600_000;
