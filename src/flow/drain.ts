import { dispatchJob, waitForRule } from "../jobs/attempt.ts";
import { shareOut } from "../jobs/share.ts";
import { BACKLOG_GROUP, backlogGroupOf, IN_FLIGHT_GROUP, JOBS, type Job, limitOfRule, queueOf } from "../model/job.ts";
import { type Guard, put, type Versioned } from "../ports/store.ts";
import { type Held, held, isHeld } from "./aim.ts";
import { apply } from "./apply.ts";
import { dispatch } from "./dispatch.ts";
import { noteLeaseOver } from "./fail-open.ts";
import { type Flow, given } from "./flow.ts";
import { allowedOf, guardsOf, refusedBy } from "./room.ts";

/**
 * Takes jobs out of a topic's backlog while its window has room, in turn between the orgs that wait.
 *
 * 1. A job is taken under a short lease: two processes do not work on the same head, and a dead one loses nothing.
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
  const { taken, failure } = await takeShares(flow, topic, waiting, room);
  const sent = await Promise.all(taken.map((job) => sendOne(flow, job)));
  if (failure !== null) throw failure;
  return sent.filter(Boolean).length;
}

/** Takes jobs of those who wait, in turn by their weights, under a short lease. */
export async function takeShares(
  flow: Flow,
  topic: string,
  waiting: ReadonlyMap<string, number>,
  room: number,
): Promise<{ readonly taken: readonly Versioned<Job>[]; readonly failure: unknown }> {
  const { orgs } = flow.settings.current;
  const before = flow.desk.turnOf(topic) ?? { org: anyOf(waiting, flow), taken: 0 };
  const { shares, turn } = shareOut(waiting, room, before, (org) => orgs[org]?.weight ?? 1);
  flow.desk.giveTurn(topic, turn);
  const nowMs = flow.world.clock.now();
  const takes = await Promise.allSettled(
    [...shares].map(([org, limit]) =>
      flow.world.store.take(JOBS, { queue: queueOf(topic, org), limit, nowMs, leaseMs: TAKE_LEASE_MS }),
    ),
  );
  // What was taken is used even if another org's take failed: it would be hidden until its lease ends.
  const taken = takes.flatMap((take) => (take.status === "fulfilled" ? take.value : []));
  const failed = takes.find((take) => take.status === "rejected");
  return { taken, failure: failed ? failed.reason : null };
}

/** A process that has just started begins anywhere: beginning at the first would favour it whenever processes restart. */
function anyOf(waiting: ReadonlyMap<string, number>, flow: Flow): string {
  return [...waiting.keys()][Math.floor(flow.world.random.next() * waiting.size)] ?? "";
}

async function sendOne(flow: Flow, taken: Versioned<Job>): Promise<boolean> {
  const holding = held(flow, taken.value);
  if (holding) {
    await setAside(flow, taken, holding);
    return holding.kind === "waits"; // It has left the backlog: those behind it are tried as well.
  }
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

/** Not for any worker that this process could send it to now. */
export async function setAside(flow: Flow, taken: Versioned<Job>, holding: Held): Promise<void> {
  const { org, topic } = taken.value;
  if (holding.kind === "stays") await flow.world.store.untake(JOBS, queueOf(topic, org), [taken.id]);
  else await apply(flow, { org, puts: [put(JOBS, taken.id, taken, holding.job)] });
}

/** The topics that have a backlog. */
export async function backlogTopics(flow: Flow): Promise<ReadonlyMap<string, number>> {
  return flow.world.store.counts(BACKLOG_GROUP, GROUP_MAX);
}

const ROUNDS_MAX = 1_000;
const BATCH_MAX = 256;
const GROUP_MAX = 10_000;
/** Long enough for a commit, short enough that a job taken by a process that died is soon taken again. */
const TAKE_LEASE_MS = 5_000;
