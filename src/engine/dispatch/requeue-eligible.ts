import { resumeJob } from "../../core/jobs/attempt.ts";
import { hasCapabilities, servesTenant } from "../../core/jobs/select-target.ts";
import { JOBS } from "../../core/model/job.ts";
import { decisionContext, type Engine } from "../engine.ts";
import type { RegisteredWorker, WorkerHeartbeat } from "../workers/worker-registry.ts";
import { placeJob } from "./place-job.ts";
import { targetOf } from "./select-target.ts";

/**
 * Jobs for which no worker was fit, when that has changed.
 *
 * 1. Only those that have somewhere to go now leave their wait: whoever keeps changing what it says of itself moves
 *    nobody else's jobs.
 * 2. A bounded number of them at a time. Who is missed here comes back at its own time.
 */
export async function requeueEligible(engine: Engine, sign: WorkerHeartbeat): Promise<void> {
  const nowMs = engine.world.clock.now();
  for (const topic of engine.registry.unfitSubjects()) {
    const worker = engine.registry.serving(topic, nowMs).find((known) => isOf(known, sign));
    if (worker) await placeAll(engine, topic, worker);
  }
}

/** A pool takes work again. */
export async function requeueAllEligible(engine: Engine): Promise<void> {
  for (const topic of engine.registry.unfitSubjects()) await placeAll(engine, topic, null);
}

/** `by`: the only worker of whom there is news; the others were not fit before. */
async function placeAll(engine: Engine, topic: string, by: RegisteredWorker | null): Promise<void> {
  const ids = engine.registry.recallUnfit(topic, (work) => {
    if (by && !(servesTenant(by, work.org) && hasCapabilities(by.capabilities, work.requires))) return false;
    return targetOf(engine, { ...work, topic }).kind !== "wait";
  });
  for (let at = 0; at < ids.length; at += BATCH_MAX) {
    await Promise.all(ids.slice(at, at + BATCH_MAX).map((id) => placeAgain(engine, id)));
  }
}

async function placeAgain(engine: Engine, id: string): Promise<void> {
  if (engine.jobCache.isClosed) return;
  try {
    const found = await engine.world.store.load(JOBS, id);
    if (found?.value.state !== "RETRYING" || found.value.wait?.retryClass !== "no_worker") return;
    await placeJob(engine, found, resumeJob(found.value, decisionContext(engine)));
  } catch (error) {
    engine.world.log.write("warn", "wake_left_to_sweeper", { id, error: String(error) });
  }
}

const isOf = (known: RegisteredWorker, { id, transport, org }: WorkerHeartbeat): boolean =>
  known.id === id && known.transport === transport && (transport === "bus" || known.org === (org ?? null));

const BATCH_MAX = 64;
