import { dispatchJob, waitForRule } from "../../core/jobs/attempt.ts";
import {
  BACKLOG_GROUP,
  backlogGroupOf,
  IN_FLIGHT_GROUP,
  JOBS,
  type Job,
  limitOfRule,
  queueOf,
} from "../../core/model/job.ts";
import { type Guard, put, type Versioned } from "../../ports/store.ts";
import { commit } from "../commit.ts";
import { decisionContext, type Engine } from "../engine.ts";
import { recordGrantEnded } from "../safety/fail-open.ts";
import { allowedPerOrg, capacityGuards, limitOfGuard } from "./capacity-guards.ts";
import { selectNext } from "./select-next.ts";
import { dispatchBlock, isTopicBlocked } from "./select-target.ts";
import { sendJob } from "./send-job.ts";

/**
 * Takes jobs out of a topic's backlog while its window has room, in turn between the orgs that wait.
 *
 * 1. What cannot go now does not stand in the way of what can (see `pick.ts`).
 * 2. Room is a guard of each commit; the counts read before only say how many are worth taking.
 * 3. Nobody waits for it: it is asked for after a commit by whoever made room, and by the sweeper for those who died.
 */
export function drainBacklog(engine: Engine, topic: string): void {
  if (engine.jobCache.isClosed) return;
  engine.jobCache.drainOnce(topic, async () => {
    try {
      await drainRounds(engine, topic);
    } catch (error) {
      engine.world.log.write("warn", "drain_left_to_sweeper", { topic, error: String(error) });
    }
  });
}

async function drainRounds(engine: Engine, topic: string): Promise<void> {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    if (
      engine.jobCache.isClosed ||
      engine.jobCache.isIdle(topic, engine.world.clock.now()) ||
      isTopicBlocked(engine, topic)
    )
      return;
    const { store } = engine.world;
    const [inFlight, waiting] = await Promise.all([
      store.counts(IN_FLIGHT_GROUP, GROUP_MAX),
      store.counts(backlogGroupOf(topic), GROUP_MAX),
    ]);
    const room = engine.settings.current.dispatch.windowMax - (inFlight.get(topic) ?? 0);
    if (waiting.size === 0) engine.jobCache.markRoomy(topic);
    if (room <= 0 || waiting.size === 0) return;
    const allowed = await allowedPerOrg(engine, waiting);
    // A topic that nobody served is tried with one job, whatever the length of its backlog.
    const batchMax = engine.jobCache.idleCount(topic) > 0 ? 1 : BATCH_MAX;
    if ((await sendShares(engine, topic, allowed, Math.min(room, batchMax))) === 0) return;
    if (batchMax === 1) return;
  }
}

async function sendShares(
  engine: Engine,
  topic: string,
  waiting: ReadonlyMap<string, number>,
  room: number,
): Promise<number> {
  const { fit, asideCount, failure } = await selectNext(engine, topic, waiting, room, (job) =>
    dispatchBlock(engine, job),
  );
  const sent = await Promise.all(fit.map((job) => sendOne(engine, job)));
  if (failure !== null) throw failure;
  // Those set aside have left the backlog: there may be more behind them.
  return sent.filter(Boolean).length + asideCount;
}

async function sendOne(engine: Engine, taken: Versioned<Job>): Promise<boolean> {
  const job = dispatchJob(taken.value, decisionContext(engine));
  const committed = await commit(engine, {
    org: job.org,
    puts: [put(JOBS, taken.id, taken, job)],
    guards: capacityGuards(job, engine.settings.current),
  });
  if (committed.kind === "committed") {
    sendJob(engine, { id: taken.id, version: taken.version + 1, value: job });
    return true;
  }
  if (committed.kind === "refused") await putBack(engine, taken, committed.guard);
  return false;
}

/** A job that was taken, and for which there was no room after all. */
export async function putBack(engine: Engine, taken: Versioned<Job>, guard: Guard): Promise<void> {
  const job = taken.value;
  if (limitOfGuard(guard, job) === "rule") {
    const waiting = waitForRule(job, limitOfRule(job) ?? 0, decisionContext(engine));
    await commit(engine, { org: job.org, puts: [put(JOBS, taken.id, taken, waiting)] });
    return;
  }
  if (limitOfGuard(guard, job) === "lease") recordGrantEnded(engine, job);
  // The room went to another process. Whoever makes room next must see this job at its place.
  await engine.world.store.untake(JOBS, queueOf(job.topic, job.org), [taken.id]);
}

/** All that have a backlog: something that kept jobs from going is over. */
export async function drainAllBacklogs(engine: Engine): Promise<void> {
  for (const topic of (await backlogTopics(engine)).keys()) drainBacklog(engine, topic);
}

/** The topics that have a backlog. */
export async function backlogTopics(engine: Engine): Promise<ReadonlyMap<string, number>> {
  return engine.world.store.counts(BACKLOG_GROUP, GROUP_MAX);
}

const ROUNDS_MAX = 1_000;
const BATCH_MAX = 256;
const GROUP_MAX = 10_000;
