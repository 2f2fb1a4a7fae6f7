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
import { apply } from "../commit.ts";
import { type Flow, given } from "../engine.ts";
import { noteLeaseOver } from "../safety/fail-open.ts";
import { allowedOf, guardsOf, refusedBy } from "./capacity-guards.ts";
import { pick } from "./select-next.ts";
import { held, isHeld } from "./select-target.ts";
import { dispatch } from "./send-job.ts";

/**
 * Takes jobs out of a topic's backlog while its window has room, in turn between the orgs that wait.
 *
 * 1. What cannot go now does not stand in the way of what can (see `pick.ts`).
 * 2. Room is a guard of each commit; the counts read before only say how many are worth taking.
 * 3. Nobody waits for it: it is asked for after a commit by whoever made room, and by the sweeper for those who died.
 */
export function drain(flow: Flow, topic: string): void {
  if (flow.desk.isClosed) return;
  flow.desk.drainOnce(topic, async () => {
    try {
      await drainRounds(flow, topic);
    } catch (error) {
      flow.world.log.write("warn", "drain_left_to_sweeper", { topic, error: String(error) });
    }
  });
}

async function drainRounds(flow: Flow, topic: string): Promise<void> {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    if (flow.desk.isClosed || flow.desk.isIdle(topic, flow.world.clock.now()) || isHeld(flow, topic)) return;
    const { store } = flow.world;
    const [inFlight, waiting] = await Promise.all([
      store.counts(IN_FLIGHT_GROUP, GROUP_MAX),
      store.counts(backlogGroupOf(topic), GROUP_MAX),
    ]);
    const room = flow.settings.current.dispatch.windowMax - (inFlight.get(topic) ?? 0);
    if (waiting.size === 0) flow.desk.markRoomy(topic);
    if (room <= 0 || waiting.size === 0) return;
    const allowed = await allowedOf(flow, waiting);
    // A topic that nobody served is tried with one job, whatever the length of its backlog.
    const batchMax = flow.desk.idleCount(topic) > 0 ? 1 : BATCH_MAX;
    if ((await sendShares(flow, topic, allowed, Math.min(room, batchMax))) === 0) return;
    if (batchMax === 1) return;
  }
}

async function sendShares(
  flow: Flow,
  topic: string,
  waiting: ReadonlyMap<string, number>,
  room: number,
): Promise<number> {
  const { fit, asideCount, failure } = await pick(flow, topic, waiting, room, (job) => held(flow, job));
  const sent = await Promise.all(fit.map((job) => sendOne(flow, job)));
  if (failure !== null) throw failure;
  // Those set aside have left the backlog: there may be more behind them.
  return sent.filter(Boolean).length + asideCount;
}

async function sendOne(flow: Flow, taken: Versioned<Job>): Promise<boolean> {
  const job = dispatchJob(taken.value, given(flow));
  const committed = await apply(flow, {
    org: job.org,
    puts: [put(JOBS, taken.id, taken, job)],
    guards: guardsOf(job, flow.settings.current),
  });
  if (committed.kind === "committed") {
    dispatch(flow, { id: taken.id, version: taken.version + 1, value: job });
    return true;
  }
  if (committed.kind === "refused") await putBack(flow, taken, committed.guard);
  return false;
}

/** A job that was taken, and for which there was no room after all. */
export async function putBack(flow: Flow, taken: Versioned<Job>, guard: Guard): Promise<void> {
  const job = taken.value;
  if (refusedBy(guard, job) === "rule") {
    const waiting = waitForRule(job, limitOfRule(job) ?? 0, given(flow));
    await apply(flow, { org: job.org, puts: [put(JOBS, taken.id, taken, waiting)] });
    return;
  }
  if (refusedBy(guard, job) === "lease") noteLeaseOver(flow, job);
  // The room went to another process. Whoever makes room next must see this job at its place.
  await flow.world.store.untake(JOBS, queueOf(job.topic, job.org), [taken.id]);
}

/** All that have a backlog: something that kept jobs from going is over. */
export async function drainAll(flow: Flow): Promise<void> {
  for (const topic of (await backlogTopics(flow)).keys()) drain(flow, topic);
}

/** The topics that have a backlog. */
export async function backlogTopics(flow: Flow): Promise<ReadonlyMap<string, number>> {
  return flow.world.store.counts(BACKLOG_GROUP, GROUP_MAX);
}

const ROUNDS_MAX = 1_000;
const BATCH_MAX = 256;
const GROUP_MAX = 10_000;
