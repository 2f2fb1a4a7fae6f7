/**
 * What is there before the first result comes: hot runs, each a fan-out whose children are all with workers.
 *
 * It is made once, by the shipped flow, on a world of its own; every row of the experiment begins with a copy of its
 * records.
 */

import { JOBS, type Job } from "../../core/model/job.ts";
import type { Settings } from "../../core/settings.ts";
import { startControl } from "../../engine/control.ts";
import { leaseJobs } from "../../engine/dispatch/index.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import { defaultRunRequest, startRun } from "../../engine/intake/index.ts";
import { applyWorkflow } from "../../engine/runs/index.ts";
import type { Stop } from "../../ports/bus.ts";
import { workSubject } from "../../protocol/subjects.ts";
import type { BlobMap } from "../../sim/adapters/blobs.ts";
import type { MemoryStore } from "../../sim/adapters/memory-store.ts";
import type { Kernel } from "../../sim/adapters/safety.ts";
import { openNet, type SimNet, simWorld } from "../../sim/adapters/world.ts";
import { NO_NET_FAULTS } from "../../sim/faults.ts";
import { Process } from "../../sim/process.ts";
import { SeededRandom } from "../../sim/random.ts";

export interface Stage {
  readonly store: MemoryStore;
  /** The last that its locks gave. */
  readonly fence: number;
  readonly blobs: BlobMap;
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
  const net = openNet({ random, faults: NO_NET_FAULTS, bus: { ackWaitMs, deliverMax, inFlightMax }, kernel: ALLOWS });
  const out = new Map<string, Contender>();
  net.store.observe((change) => {
    for (const { table, value } of change.puts) if (table === JOBS.name && value) noteJob(out, value as Job);
  });
  const process = new Process(net.timeline, "stage", random.fork("stage"));
  const engine = openEngine(simWorld(net, process, { safety: "local" }), { current: order.settings });
  const runIds = await net.timeline.runUntilSettled(beginRuns(net, engine, order), LIMIT_MS);
  while (out.size < order.contenders) {
    const before = net.timeline.nowMs;
    await net.timeline.runUntil(before + 1_000);
    if (before > LIMIT_MS) throw new Error(`only ${out.size} of ${order.contenders} jobs are with a worker`);
  }
  process.crash();
  const { store, locks, blobs, timeline } = net;
  const contenders = mixed([...out.values()], runIds);
  return { store, fence: locks.fenceOf(ORG), blobs, atMs: timeline.nowMs, runIds, contenders };
}

/** Everything that a net needs to go on from there. */
export async function moveTo(net: SimNet, stage: Stage): Promise<void> {
  await net.timeline.runUntil(stage.atMs);
  for (const [key, blob] of stage.blobs) net.blobs.set(key, blob);
  // Fences never go back: what the stage wrote under its locks would refuse whoever begins to count anew.
  net.locks.setFence(ORG, stage.fence);
  net.store.copyFrom(stage.store);
}

async function beginRuns(net: SimNet, engine: Engine, order: StageOrder): Promise<readonly string[]> {
  if (!order.isLeased) await serveWork(engine);
  await startControl(engine);
  const runIds = await startFans(engine, order);
  if (order.isLeased) await takeAll(net, engine, order.contenders);
  return runIds;
}

/** A worker that takes everything and never says a word. */
export function serveWork(engine: Engine): Promise<Stop> {
  return engine.world.bus.serve(workSubject(TOPIC), () => undefined);
}

export async function startFans(
  engine: Engine,
  order: Pick<StageOrder, "contenders" | "hotRuns">,
): Promise<readonly string[]> {
  const applied = await applyWorkflow(engine, { org: ORG, by: "lab", document: FAN });
  if (applied.kind === "invalid") throw new Error(applied.problems.join("\n"));
  const runIds: string[] = [];
  for (let index = 0; index < order.hotRuns; index += 1) {
    // As even as whole numbers can be.
    const from = Math.floor((index * order.contenders) / order.hotRuns);
    const count = Math.floor(((index + 1) * order.contenders) / order.hotRuns) - from;
    const items = Array.from({ length: count }, (_, item) => item);
    const outcome = await startRun(engine, { ...WISH, input: { items } }, "lab");
    if (outcome.kind !== "started") throw new Error(`run ${index} did not start: ${JSON.stringify(outcome)}`);
    runIds.push(outcome.runId);
  }
  return runIds;
}

async function takeAll(net: SimNet, engine: Engine, count: number): Promise<void> {
  const request = { org: ORG, workerId: "worker", topics: [TOPIC], max: 100, waitMs: 1_000 };
  for (let taken = 0; taken < count && net.timeline.nowMs < LIMIT_MS; ) {
    taken += (await leaseJobs(engine, { ...request, signal: new AbortController().signal })).length;
  }
}

/** Whether it is with a worker now: then its result can come. */
export function noteJob(out: Map<string, Contender>, { id, state, step, leaseId }: Job): void {
  if (step && (state === "DISPATCHED" || state === "RUNNING")) {
    out.set(id, { jobId: id, runId: step.runId, leaseId: leaseId ?? null });
  } else out.delete(id);
}

/** The first of each run, then the second of each: so their results meet, as those of busy runs do. */
export function mixed(contenders: readonly Contender[], runIds: readonly string[]): readonly Contender[] {
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
const WISH = defaultRunRequest(ORG, FAN.id, "lab");
const LIMIT_MS = 3_600_000;
