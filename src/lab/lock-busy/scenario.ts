/**
 * The settings of each row, and the runs that exist before the first result arrives: fan-outs whose children are all
 * dispatched to workers.
 *
 * 1. A retry policy row has coalescing and the lock queue off: a result tries the lock once per delivery.
 * 2. The settings of the baseline come from the profile `baseline`.
 * 3. Without a cap, the broker redelivers without limit and lock_busy retries use no budget.
 */
import { settingsFrom } from "../../config/config.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import type { Settings } from "../../core/settings.ts";
import { leaseJobs } from "../../engine/dispatch/index.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import { defaultRunRequest, startRun } from "../../engine/intake/index.ts";
import { applyWorkflow } from "../../engine/runs/index.ts";
import { startControl } from "../../engine/start-control.ts";
import type { Message, Stop } from "../../ports/bus.ts";
import { RESULT, workSubject } from "../../protocol/subjects.ts";
import type { MemoryStore } from "../../sim/adapters/memory-store.ts";
import type { BlobMap } from "../../sim/adapters/store.ts";
import { type SimNet, simWorld } from "../../sim/adapters/world.ts";
import { NO_NET_FAULTS } from "../../sim/faults.ts";
import { Process } from "../../sim/process.ts";
import { SeededRandom } from "../../sim/random.ts";
import { openLabNet } from "../simulation.ts";
import { evenShares } from "../statistics.ts";
import type { KnownRow } from "./experiment.ts";

/** `row` is a known row or a retry policy. */
export function settingsOf(row: string, isCapped: boolean): Settings {
  const common = { ...UNLIMITED, ...(isCapped ? {} : UNCAPPED) };
  switch (row as KnownRow) {
    case "baseline":
      return settingsFrom({ ...common, profile: "baseline" });
    case "baseline_capped":
      return settingsFrom({ ...UNLIMITED, profile: "baseline" });
    case "hand_over":
      return settingsFrom({ ...common, "run_lock.coalesce": "false", "run_lock.engine_wait_ms": ENGINE_WAIT_MS_MAX });
    case "hand_over_500ms":
      return settingsFrom({ ...common, "run_lock.coalesce": "false" });
    case "default":
      return settingsFrom(common);
    default:
      return settingsFrom({
        ...common,
        "run_lock.coalesce": "false",
        "run_lock.engine_wait_ms": 0,
        "retry.lock_busy.policy": row,
      });
  }
}

const LIMIT_MAX = 100_000;

/** No limit other than the lock applies, and no attempt times out. */
const UNLIMITED = {
  "limits.max_concurrent_runs": LIMIT_MAX,
  "dispatch.window_max": LIMIT_MAX,
  "dispatch.deadline_ms": 24 * 3_600_000,
  "job.deadline_ms": 7 * 24 * 3_600_000,
  // Its commits would be part of the measurement.
  "contention.record": "off",
} as const;

const UNCAPPED = { "bus.max_deliver": 100_000, "retry.lock_busy.budget": "deadline" } as const;
const ENGINE_WAIT_MS_MAX = 60_000;

export interface Contender {
  readonly jobId: string;
  readonly runId: string;
  /** Of a worker that leased its job over HTTP. */
  readonly leaseId: string | null;
}

/** The state of a net after the fan-outs were dispatched. Every row starts with a copy of it. */
export interface PreparedRuns {
  readonly store: MemoryStore;
  /** The last fence of its locks. */
  readonly fence: number;
  readonly blobs: BlobMap;
  readonly atMs: number;
  readonly runIds: readonly string[];
  /** One per result, interleaved over the runs. */
  readonly contenders: readonly Contender[];
}

export interface PrepareRequest {
  readonly seed: number;
  readonly contenders: number;
  readonly hotRuns: number;
  /** Results of each run; without it, the runs share them evenly. */
  readonly widths?: readonly number[];
  /** Workers lease jobs over HTTP and report to the gateway, not over the bus. */
  readonly isLeased: boolean;
  readonly settings: Settings;
}

export async function prepareRuns(request: PrepareRequest): Promise<PreparedRuns> {
  const random = new SeededRandom(request.seed, "stage");
  const net = openLabNet(random, request.settings, { latencyMs: NO_NET_FAULTS.bus.latencyMs });
  const dispatched = new Map<string, Contender>();
  net.store.observe((change) => {
    for (const { table, value } of change.puts) if (table === JOBS.name && value) trackJob(dispatched, value as Job);
  });
  const process = new Process(net.timeline, "stage", random.fork("stage"));
  const engine = openEngine(simWorld(net, process, { safety: "local" }), { current: request.settings });
  const runIds = await net.timeline.runUntilSettled(startRuns(net, engine, request), LIMIT_MS);
  while (dispatched.size < request.contenders) {
    const before = net.timeline.nowMs;
    await net.timeline.runUntil(before + 1_000);
    if (before > LIMIT_MS) throw new Error(`only ${dispatched.size} of ${request.contenders} jobs were dispatched`);
  }
  process.crash();
  const { store, locks, blobs, timeline } = net;
  const contenders = interleaved([...dispatched.values()], runIds);
  return { store, fence: locks.fenceOf(ORG), blobs, atMs: timeline.nowMs, runIds, contenders };
}

/** Copies the prepared state into a new net. */
export async function restore(net: SimNet, prepared: PreparedRuns): Promise<void> {
  await net.timeline.runUntil(prepared.atMs);
  for (const [key, blob] of prepared.blobs) net.blobs.set(key, blob);
  // The copied records have fences; the locks continue from the last one.
  net.locks.setFence(ORG, prepared.fence);
  net.store.copyFrom(prepared.store);
}

async function startRuns(net: SimNet, engine: Engine, request: PrepareRequest): Promise<readonly string[]> {
  if (!request.isLeased) await serveSilentWorker(engine);
  await startControl(engine);
  const runIds = await startFanOuts(engine, request);
  if (request.isLeased) await leaseAll(net, engine, request.contenders);
  return runIds;
}

/** A worker that accepts every job and never reports a result. */
export function serveSilentWorker(engine: Engine): Promise<Stop> {
  return engine.world.bus.serve(workSubject(TOPIC), () => undefined);
}

export async function startFanOuts(
  engine: Engine,
  { contenders, hotRuns, widths }: Pick<PrepareRequest, "contenders" | "hotRuns" | "widths">,
): Promise<readonly string[]> {
  const applied = await applyWorkflow(engine, { org: ORG, by: "lab", document: FAN_OUT });
  if (applied.kind === "invalid") throw new Error(applied.problems.join("\n"));
  const runIds: string[] = [];
  for (const count of widths ?? evenShares(contenders, hotRuns)) {
    const items = Array.from({ length: count }, (_, item) => item);
    const outcome = await startRun(engine, { ...RUN_REQUEST, input: { items } }, "lab");
    if (outcome.kind !== "started") throw new Error(`run ${runIds.length} did not start: ${JSON.stringify(outcome)}`);
    runIds.push(outcome.runId);
  }
  return runIds;
}

async function leaseAll(net: SimNet, engine: Engine, count: number): Promise<void> {
  const request = { org: ORG, workerId: "worker", topics: [TOPIC], max: 100, waitMs: 1_000 };
  for (let leased = 0; leased < count && net.timeline.nowMs < LIMIT_MS; ) {
    leased += (await leaseJobs(engine, { ...request, signal: new AbortController().signal })).length;
  }
}

/** Keeps the set of jobs that are with a worker. */
export function trackJob(dispatched: Map<string, Contender>, { id, state, step, leaseId }: Job): void {
  if (step && (state === "DISPATCHED" || state === "RUNNING")) {
    dispatched.set(id, { jobId: id, runId: step.runId, leaseId: leaseId ?? null });
  } else dispatched.delete(id);
}

/** The first result of each run, then the second of each, and so on. */
export function interleaved(contenders: readonly Contender[], runIds: readonly string[]): readonly Contender[] {
  const byRun = new Map<string, Contender[]>(runIds.map((runId) => [runId, []]));
  for (const contender of contenders) byRun.get(contender.runId)?.push(contender);
  const columns = [...byRun.values()];
  const longest = Math.max(...columns.map(({ length }) => length));
  return Array.from({ length: longest }, (_, row) => columns.flatMap((column) => column[row] ?? [])).flat();
}

export function resultOf(jobId: string): Message {
  const body = { kind: "job_result", jobId, workerId: "worker", status: "succeeded", result: null } as const;
  const packet = { traceId: jobId, senderId: "worker", createdAtMs: 0, body };
  return { id: `${MESSAGE_PREFIX}${jobId}`, subject: RESULT, packet };
}

/** The job of a result message. Parked messages have a suffix. */
export const jobIdOf = (messageId: string): string =>
  messageId.slice(messageId.startsWith(MESSAGE_PREFIX) ? MESSAGE_PREFIX.length : 0).replace(/~back\d+$/, "");

export const ORG = "default";
const MESSAGE_PREFIX = "lab:";
export const TOPIC = "lab.work";
const FAN_OUT = {
  id: "lab-fan",
  steps: { each: { topic: TOPIC, for_each: "${input.items}", max_parallel: 10_000, input: "${item}" } },
};
const RUN_REQUEST = defaultRunRequest(ORG, FAN_OUT.id, "lab");
const LIMIT_MS = 3_600_000;
