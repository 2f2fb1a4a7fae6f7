// Control planes and workers of the fan-out suite, in processes of their own or in one process.

import { isFinal, JOBS, type Job } from "../../../src/core/model/job.ts";
import type { Run } from "../../../src/core/model/run.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import type { World } from "../../../src/ports/world.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { STEP_TOPICS } from "../payload.ts";
import type { FanControlFigures, FanControlTask, FanWorkersTask, ServeFigures } from "../task.ts";
import { CHILD_TOPIC, MANY_RUNS, openEngineWith, watchRunEnds } from "./workflows.ts";
import { cordumOnly, openWorld } from "./world.ts";

type Ready = () => void;

/** A control plane in its own process. Broadcasts the end of every run. */
export async function serveFanControl(
  task: FanControlTask,
  ready: Ready,
  stopped: Promise<void>,
): Promise<FanControlFigures> {
  const opened = await openWorld(cordumOnly(task.backend));
  const counts = countRunWork(opened.world);
  watchRunEnds(opened.world, (run) => broadcastEnd(opened.world, run));
  const control = await startControl(openEngineWith(opened.world, MANY_RUNS));
  ready();
  await stopped;
  await control.stop();
  await opened.close();
  return counts();
}

export async function serveFanWorkers(
  task: FanWorkersTask,
  ready: Ready,
  stopped: Promise<void>,
): Promise<ServeFigures> {
  const spec = cordumOnly(task.backend);
  const opened = await openWorld(spec);
  const workers = await startWorkers(opened.world, task.workers, spec.concurrency);
  ready();
  await stopped;
  const figures = await workers.stop();
  await opened.close();
  return figures;
}

export async function startWorkers(world: World, count: number, concurrency: number) {
  const seen = new Set<string>();
  let again = 0;
  const handle = async ({ jobId }: { readonly jobId: string }) => {
    if (seen.has(jobId)) again++;
    seen.add(jobId);
    return { ok: true };
  };
  const topics = [...STEP_TOPICS, CHILD_TOPIC];
  const options = (n: number) => ({ id: `bench-${n}`, topics, concurrency, handle });
  const stops = await Promise.all(Array.from({ length: count }, (_, n) => startWorker(world, options(n))));
  return {
    async stop(): Promise<ServeFigures> {
      await Promise.all(stops.map((stop) => stop()));
      return { worked: seen.size, again };
    },
  };
}

/** Counts, per run, the acquisitions of its lock, its busy replies and the applied results, at the lock and store ports. */
export function countRunWork({ locks, store }: World): () => FanControlFigures {
  const acquisitions: Record<string, number> = {};
  const busy: Record<string, number> = {};
  const results: Record<string, number> = {};
  const acquire = locks.acquire.bind(locks);
  locks.acquire = async (request) => {
    const acquired = await acquire(request);
    if (request.key.startsWith(RUN_LOCK)) {
      count(acquired.kind === "held" ? acquisitions : busy, request.key.slice(RUN_LOCK.length));
    }
    return acquired;
  };
  const commit = store.commit.bind(store);
  store.commit = async (change) => {
    const committed = await commit(change);
    if (committed.kind !== "committed") return committed;
    for (const { table, value } of change.puts) {
      if (table !== JOBS.name || value === null) continue;
      const { step, state } = value as Job;
      if (step && isFinal(state)) count(results, step.runId);
    }
    return committed;
  };
  return () => ({ acquisitions, busy, results });
}

function count(counts: Record<string, number>, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1;
}

function broadcastEnd(world: World, run: Run): void {
  const status = run.state === "SUCCEEDED" ? "succeeded" : "failed_fatal";
  const packet = { traceId: "", senderId: world.name, createdAtMs: world.clock.now() };
  world.bus.broadcast(RUN_ENDED, { ...packet, body: { kind: "job_result", jobId: run.id, workerId: "bench", status } });
}

export function subscribeEnds(
  world: World,
  ended: (runId: string, isGood: boolean) => void,
): Promise<() => Promise<void>> {
  return world.bus.subscribe(RUN_ENDED, ({ body }) => {
    if (body.kind === "job_result") ended(body.jobId, body.status === "succeeded");
  });
}

const RUN_LOCK = runLockKey("");
const RUN_ENDED = "bench.run-ended";
