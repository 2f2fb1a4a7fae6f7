import { resumeJob } from "../../core/jobs/attempt.ts";
import { hasCapabilities, servesTenant } from "../../core/jobs/select-target.ts";
import { JOBS } from "../../core/model/job.ts";
import { bareTopic } from "../../core/policy/pattern.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import type { RegisteredWorker, WorkerHeartbeat } from "../workers/index.ts";
import { drainBacklog } from "./backlog.ts";
import { placeJob } from "./place-job.ts";
import { targetOf } from "./select-target.ts";

/** A worker has said something of itself. */
export function recordHeartbeat(engine: DispatchContext, sign: WorkerHeartbeat | null): void {
  if (sign === null) return;
  const isNews = engine.registry.record(sign, engine.world.clock.now());
  if (sign.isLeaving) return;
  if (isNews) engine.tasks.track(requeueEligible(engine, sign));
  // Who comes for its work by itself is not reached by sending.
  if (sign.transport === "http") return;
  for (const topic of topicsOf(engine, sign)) {
    for (const name of [topic, bareTopic(topic), `job.${bareTopic(topic)}`]) {
      if (engine.jobCache.markServed(name)) drainBacklog(engine, name);
    }
  }
}

/** Those that it named; else those of its pool that are left alone now. */
function topicsOf(engine: Needs<"world" | "jobCache" | "registry">, sign: WorkerHeartbeat): readonly string[] {
  if (sign.topics && sign.topics.length > 0) return sign.topics;
  const nowMs = engine.world.clock.now();
  const isServed = (topic: string) => engine.registry.serving(topic, nowMs).some(({ id }) => id === sign.id);
  return engine.jobCache.idleTopics(IDLE_TOPICS_MAX).filter(isServed);
}

/**
 * Jobs for which no worker was fit, when that has changed.
 *
 * 1. Only those that have somewhere to go now leave their wait: whoever keeps changing what it says of itself moves
 *    nobody else's jobs.
 * 2. A bounded number of them at a time. Who is missed here comes back at its own time.
 */
export async function requeueEligible(engine: DispatchContext, sign: WorkerHeartbeat): Promise<void> {
  const nowMs = engine.world.clock.now();
  for (const topic of engine.registry.unfitSubjects()) {
    const worker = engine.registry.serving(topic, nowMs).find((known) => isOf(known, sign));
    if (worker) await placeAll(engine, topic, worker);
  }
}

/** A pool takes work again. */
export async function requeueAllEligible(engine: DispatchContext): Promise<void> {
  for (const topic of engine.registry.unfitSubjects()) await placeAll(engine, topic, null);
}

/** `by`: the only worker of whom there is news; the others were not fit before. */
async function placeAll(engine: DispatchContext, topic: string, by: RegisteredWorker | null): Promise<void> {
  const ids = engine.registry.recallUnfit(topic, (work) => {
    if (by && !(servesTenant(by, work.org) && hasCapabilities(by.capabilities, work.requires))) return false;
    return targetOf(engine, { ...work, topic }).kind !== "wait";
  });
  for (let at = 0; at < ids.length; at += BATCH_MAX) {
    await Promise.all(ids.slice(at, at + BATCH_MAX).map((id) => placeAgain(engine, id)));
  }
}

async function placeAgain(engine: DispatchContext, id: string): Promise<void> {
  if (engine.tasks.isClosed) return;
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
const IDLE_TOPICS_MAX = 1_000;
