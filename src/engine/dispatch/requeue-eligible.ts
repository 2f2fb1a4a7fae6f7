import { resumeJob } from "../../core/jobs/attempt.ts";
import { hasCapabilities, servesTenant } from "../../core/jobs/select-target.ts";
import { bareTopic } from "../../core/model/canonical.ts";
import { JOBS } from "../../core/model/job.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import type { RegisteredWorker, WorkerHeartbeat } from "../workers/index.ts";
import { drainBacklog } from "./backlog.ts";
import { placeJob } from "./place-job.ts";
import { targetOf } from "./select-target.ts";

/** Records a heartbeat, requeues jobs that the worker makes eligible, and drains topics that were idle. */
export function recordHeartbeat(engine: DispatchContext, heartbeat: WorkerHeartbeat | null): void {
  if (heartbeat === null) return;
  const isNew = engine.registry.record(heartbeat, engine.world.clock.now());
  if (heartbeat.isLeaving) return;
  if (isNew) engine.tasks.track(requeueEligible(engine, heartbeat));
  // HTTP workers poll; nothing is sent to them.
  if (heartbeat.transport === "http") return;
  for (const topic of topicsOf(engine, heartbeat)) {
    for (const name of [topic, bareTopic(topic), `job.${bareTopic(topic)}`]) {
      if (engine.jobCache.markServed(name)) drainBacklog(engine, name);
    }
  }
}

/** The topics of the heartbeat; without any, the idle topics that the worker's pool serves. */
function topicsOf(engine: Needs<"world" | "jobCache" | "registry">, heartbeat: WorkerHeartbeat): readonly string[] {
  if (heartbeat.topics && heartbeat.topics.length > 0) return heartbeat.topics;
  const nowMs = engine.world.clock.now();
  const isServed = (topic: string) => engine.registry.serving(topic, nowMs).some(({ id }) => id === heartbeat.id);
  return engine.jobCache.idleTopics(IDLE_TOPICS_MAX).filter(isServed);
}

/**
 * Requeues jobs that waited for an eligible worker.
 *
 * 1. Only jobs that have a target now leave their wait, so a worker that keeps changing its capabilities moves no other
 *    jobs.
 * 2. At most `BATCH_MAX` at a time. The due time of a job that is missed requeues it.
 */
export async function requeueEligible(engine: DispatchContext, heartbeat: WorkerHeartbeat): Promise<void> {
  const nowMs = engine.world.clock.now();
  for (const topic of engine.registry.ineligibleSubjects()) {
    const worker = engine.registry.serving(topic, nowMs).find((known) => isOf(known, heartbeat));
    if (worker) await requeueTopic(engine, topic, worker);
  }
}

export async function requeueAllEligible(engine: DispatchContext): Promise<void> {
  for (const topic of engine.registry.ineligibleSubjects()) await requeueTopic(engine, topic, null);
}

/** `by`: the only worker that changed; null to consider all. */
async function requeueTopic(engine: DispatchContext, topic: string, by: RegisteredWorker | null): Promise<void> {
  const ids = engine.registry.takeEligible(topic, (work) => {
    if (by && !(servesTenant(by, work.org) && hasCapabilities(by.capabilities, work.requires))) return false;
    return targetOf(engine, { ...work, topic }).kind !== "wait";
  });
  for (let at = 0; at < ids.length; at += BATCH_MAX) {
    await Promise.all(ids.slice(at, at + BATCH_MAX).map((id) => requeueJobById(engine, id)));
  }
}

async function requeueJobById(engine: DispatchContext, id: string): Promise<void> {
  if (engine.tasks.isClosed) return;
  try {
    const found = await engine.world.store.load(JOBS, id);
    if (found?.value.state !== "RETRYING" || found.value.wait?.retryClass !== "no_worker") return;
    await placeJob(engine, found, resumeJob(found.value, decisionContext(engine, found.value)));
  } catch (error) {
    engine.world.log.write("warn", "timer_deferred", { id, error: String(error) });
  }
}

const isOf = (known: RegisteredWorker, { id, transport, org }: WorkerHeartbeat): boolean =>
  known.id === id && known.transport === transport && (transport === "bus" || known.org === (org ?? null));

const BATCH_MAX = 64;
const IDLE_TOPICS_MAX = 1_000;
