import { giveBack, leaseJob } from "../jobs/attempt.ts";
import { waitForWorker } from "../jobs/placement.ts";
import { backlogGroupOf, IN_FLIGHT_GROUP, JOBS, type Job } from "../model/job.ts";
import { put, type Versioned } from "../ports/store.ts";
import { HEARTBEAT, workSubject } from "../wire/subjects.ts";
import { apply } from "./apply.ts";
import { backlogTopics, putBack, setAside, takeShares } from "./drain.ts";
import { heldByLease } from "./fail-open.ts";
import { type Flow, given } from "./flow.ts";
import { meet } from "./heartbeat.ts";
import { allowedOf, guardsOf } from "./room.ts";

/**
 * Workers that come for their work over HTTP.
 *
 * 1. They take from the backlog of their own tenant; with a key of every tenant, in turn between those that wait.
 * 2. Taking a job is one commit, with the same guards as sending it. It is theirs under a lease id that nobody else knows,
 *    until the attempt's deadline, which they move on.
 * 3. Who finds nothing waits: until a job of theirs joins a backlog, and looks again within a second in any case.
 * 4. Who has gone while its jobs were being taken has taken none: they go back to their places.
 */
export interface LeaseWish {
  /** `*` for any tenant. */
  readonly org: string;
  readonly workerId: string;
  readonly topics: readonly string[];
  readonly max: number;
  readonly waitMs: number;
  readonly capabilities?: readonly string[];
  readonly pool?: string;
  readonly signal: AbortSignal;
}

/** Jobs that are the worker's now; empty when nothing came in time. */
export async function lease(flow: Flow, wish: LeaseWish): Promise<readonly Job[]> {
  const { clock } = flow.world;
  const untilMs = clock.now() + wish.waitMs;
  const bell = new Bell(flow, wish);
  try {
    for (;;) {
      bell.rewind();
      announce(flow, wish);
      const jobs = await takeJobs(flow, wish);
      if (wish.signal.aborted) {
        await Promise.all(jobs.map(({ value }) => release(flow, value)));
        return [];
      }
      const restMs = untilMs - clock.now();
      if (jobs.length > 0 || restMs <= 0) return jobs.map(({ value }) => value);
      await bell.rings(restMs);
    }
  } finally {
    bell.stop();
  }
}

/** Other processes hear of it like of any other worker. */
function announce(flow: Flow, { org, workerId, topics, max, capabilities = [], pool }: LeaseWish): void {
  const { bus, clock, name } = flow.world;
  const nowMs = clock.now();
  const sign = { id: workerId, transport: "http", org, topics, capabilities, maxParallelJobs: max } as const;
  meet(flow, pool === undefined ? sign : { ...sign, pool });
  if (!flow.roster.isToTell(sign, ANNOUNCED_EVERY_MS, nowMs)) return;
  bus.tell(HEARTBEAT, {
    traceId: "",
    senderId: name,
    createdAtMs: nowMs,
    body: {
      kind: "heartbeat",
      workerId,
      topics,
      capabilities,
      maxParallelJobs: max,
      labels: { transport: "http", org },
      ...(pool === undefined ? {} : { pool }),
    },
  });
}

async function takeJobs(flow: Flow, wish: LeaseWish): Promise<readonly Versioned<Job>[]> {
  if (wish.pool !== undefined && flow.pools.draining.has(wish.pool)) return [];
  const wanted = new Set(wish.topics.map(workSubject));
  const topics = [...(await backlogTopics(flow)).keys()].filter((topic) => wanted.has(workSubject(topic))).sort();
  const jobs: Versioned<Job>[] = [];
  // Not always the same topic first: the others would wait for as long as it has a backlog.
  const start = Math.floor(flow.world.random.next() * topics.length);
  for (const topic of [...topics.slice(start), ...topics.slice(0, start)]) {
    if (jobs.length >= wish.max || wish.signal.aborted) break;
    try {
      jobs.push(...(await takeOf(flow, wish, topic, wish.max - jobs.length)));
    } catch (error) {
      // What was leased before is the worker's: it must hear of it.
      if (jobs.length === 0) throw error;
      flow.world.log.write("warn", "lease_cut_short", { topic, error: String(error) });
      break;
    }
  }
  return jobs;
}

async function takeOf(flow: Flow, wish: LeaseWish, topic: string, max: number): Promise<readonly Versioned<Job>[]> {
  const { store, log } = flow.world;
  const [inFlight, waiting] = await Promise.all([
    store.counts(IN_FLIGHT_GROUP, GROUP_MAX),
    store.counts(backlogGroupOf(topic), GROUP_MAX),
  ]);
  const room = Math.min(max, flow.settings.current.dispatch.windowMax - (inFlight.get(topic) ?? 0));
  const own = wish.org === "*" ? waiting : new Map([...waiting].filter(([org]) => org === wish.org));
  if (room <= 0 || own.size === 0) return [];
  const { taken, failure } = await takeShares(flow, topic, await allowedOf(flow, own), room);
  if (failure !== null) log.write("warn", "lease_take_failed", { topic, error: String(failure) });
  const leases = await Promise.allSettled(taken.map((job) => leaseOne(flow, wish, job)));
  const leased = leases.flatMap((one) => (one.status === "fulfilled" && one.value !== null ? [one.value] : []));
  const failed = leases.find((one) => one.status === "rejected");
  if (failed && leased.length === 0) throw failed.reason;
  return leased;
}

async function leaseOne(flow: Flow, wish: LeaseWish, taken: Versioned<Job>): Promise<Versioned<Job> | null> {
  const unpermitted = heldByLease(flow, taken.value);
  if (unpermitted) {
    await setAside(flow, taken, unpermitted);
    return null;
  }
  const abilities = wish.capabilities ?? [];
  if (!taken.value.requires.every((name) => abilities.includes(name))) {
    await leaveToOthers(flow, taken);
    return null;
  }
  const job = leaseJob(taken.value, wish.workerId, flow.world.random.id(), given(flow));
  const puts = [put(JOBS, taken.id, taken, job)];
  const committed = await apply(flow, { org: job.org, puts, guards: guardsOf(job, flow.settings.current) });
  switch (committed.kind) {
    case "committed":
      return { id: taken.id, version: taken.version + 1, value: job };
    case "stale":
      return null;
    case "refused":
      await putBack(flow, taken, committed.guard);
      return null;
    default:
      return committed satisfies never;
  }
}

/** It requires what this worker cannot do: it must not stand in the way of jobs that it can. */
async function leaveToOthers(flow: Flow, taken: Versioned<Job>): Promise<void> {
  const { topic, id, requires } = taken.value;
  const nowMs = flow.world.clock.now();
  const isFit = ({ capabilities }: { capabilities: ReadonlySet<string> }) =>
    requires.every((name) => capabilities.has(name));
  if (flow.roster.serving(topic, nowMs).some(isFit)) return setAside(flow, taken, { kind: "stays" });
  flow.roster.rememberUnfit(topic, id);
  const why = `no worker of the topic that is known can do ${requires.map((name) => `\`${name}\``).join(", ")}`;
  await setAside(flow, taken, { kind: "waits", job: waitForWorker(taken.value, why, given(flow)) });
}

/** A leased job that did not reach the worker goes back to its place. Never throws: else the lease ends by itself. */
export async function release(flow: Flow, { id, org, leaseId }: Job): Promise<void> {
  try {
    const found = await flow.world.store.load(JOBS, id);
    if (found?.value.leaseId !== leaseId || found?.value.state !== "RUNNING") return;
    await apply(flow, { org, puts: [put(JOBS, id, found, giveBack(found.value, given(flow)))] });
  } catch (error) {
    flow.world.log.write("warn", "lease_left_to_deadline", { job: id, error: String(error) });
  }
}

/** Rings when a job joins a backlog that the worker takes from, when it has gone, and now and then in any case. */
class Bell {
  readonly #flow: Flow;
  readonly #signal: AbortSignal;
  readonly #stopListening: () => void;
  #hasRung = false;
  #wake = (): void => {};
  readonly #ring = (): void => {
    this.#hasRung = true;
    this.#wake();
  };

  constructor(flow: Flow, { org, topics, signal }: LeaseWish) {
    this.#flow = flow;
    this.#signal = signal;
    const subjects = new Set(topics.map(workSubject));
    this.#stopListening = flow.notices.listen((notice) => {
      if (notice.state !== "SCHEDULED" || (org !== "*" && notice.org !== org)) return;
      if (subjects.has(workSubject(notice.topic))) this.#ring();
    });
    signal.addEventListener("abort", this.#ring);
  }

  /** What rings from now on says that looking again is worth while. */
  rewind(): void {
    this.#hasRung = false;
  }

  rings(restMs: number): Promise<void> {
    const { clock, random } = this.#flow.world;
    if (this.#hasRung || this.#signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const delayMs = Math.min(restMs, LOOK_EVERY_MS * (0.5 + random.next() / 2));
      const cancel = clock.after(delayMs, () => this.#wake());
      this.#wake = () => {
        cancel();
        this.#wake = () => {};
        resolve();
      };
    });
  }

  stop(): void {
    this.#stopListening();
    this.#signal.removeEventListener("abort", this.#ring);
  }
}

export const LEASE_WAIT_MS_MAX = 55_000;
const LOOK_EVERY_MS = 1_000;
const ANNOUNCED_EVERY_MS = 5_000;
const GROUP_MAX = 10_000;
