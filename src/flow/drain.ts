import { dispatchJob } from "../jobs/life.ts";
import { shareOut } from "../jobs/share.ts";
import { BACKLOG_GROUP, backlogGroupOf, IN_FLIGHT_GROUP, inFlightOf, JOBS, type Job, queueOf } from "../model/job.ts";
import { put, type Versioned } from "../ports/store.ts";
import { apply } from "./apply.ts";
import { dispatch } from "./dispatch.ts";
import { type Flow, given } from "./flow.ts";

/**
 * Takes jobs out of a topic's backlog while its window has room, in turn between the orgs that wait.
 *
 * 1. A job is taken under a short lease: two processes do not work on the same head, and a dead one loses nothing.
 * 2. The window is a guard of each commit; the count read before only says how many are worth taking.
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
    if (flow.desk.isClosed || flow.desk.isIdle(topic, flow.world.clock.now())) return;
    const { store } = flow.world;
    const [inFlight, waiting] = await Promise.all([
      store.counts(IN_FLIGHT_GROUP, GROUP_MAX),
      store.counts(backlogGroupOf(topic), GROUP_MAX),
    ]);
    const room = flow.settings.current.dispatch.windowMax - (inFlight.get(topic) ?? 0);
    if (waiting.size === 0) flow.desk.markRoomy(topic);
    if (room <= 0 || waiting.size === 0) return;
    if ((await sendShares(flow, topic, waiting, Math.min(room, BATCH_MAX))) === 0) return;
  }
}

async function sendShares(
  flow: Flow,
  topic: string,
  waiting: ReadonlyMap<string, number>,
  room: number,
): Promise<number> {
  const { shares, last } = shareOut(waiting, room, flow.desk.turnOf(topic) ?? anyOf(waiting, flow));
  flow.desk.giveTurn(topic, last);
  const nowMs = flow.world.clock.now();
  const takes = await Promise.allSettled(
    [...shares].map(([org, limit]) =>
      flow.world.store.take(JOBS, { queue: queueOf(topic, org), limit, nowMs, leaseMs: TAKE_LEASE_MS }),
    ),
  );
  // What was taken is sent even if another org's take failed: it would be hidden until its lease ends.
  const taken = takes.flatMap((take) => (take.status === "fulfilled" ? take.value : []));
  const sent = await Promise.all(taken.map((job) => sendOne(flow, job)));
  const failed = takes.find((take) => take.status === "rejected");
  if (failed) throw failed.reason;
  return sent.filter(Boolean).length;
}

/** A process that has just started begins anywhere: beginning at the first would favour it whenever processes restart. */
function anyOf(waiting: ReadonlyMap<string, number>, flow: Flow): string {
  return [...waiting.keys()][Math.floor(flow.world.random.next() * waiting.size)] ?? "";
}

async function sendOne(flow: Flow, taken: Versioned<Job>): Promise<boolean> {
  const job = dispatchJob(taken.value, given(flow));
  const committed = await apply(flow, {
    org: job.org,
    puts: [put(JOBS, taken.id, taken, job)],
    guards: [{ kind: "counter", counter: inFlightOf(job.topic), max: flow.settings.current.dispatch.windowMax }],
  });
  if (committed.kind === "committed") {
    dispatch(flow, { id: taken.id, version: taken.version + 1, value: job });
    return true;
  }
  // The room went to another process. Whoever makes room next must see this job at its place.
  if (committed.kind === "refused") await flow.world.store.untake(JOBS, queueOf(job.topic, job.org), [taken.id]);
  return false;
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
