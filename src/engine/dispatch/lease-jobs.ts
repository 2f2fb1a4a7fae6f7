import { leaseJob, requeueJob } from "../../core/jobs/attempt.ts";
import { hasCapabilities, noCapableWorker, servesTenant, waitForWorker } from "../../core/jobs/select-target.ts";
import { bareTopic } from "../../core/model/canonical.ts";
import { backlogGroupOf, IN_FLIGHT_GROUP, JOBS, type Job } from "../../core/model/job.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { HEARTBEAT, workSubject } from "../../protocol/subjects.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { putBack } from "./backlog.ts";
import { allowedPerOrg, capacityGuards } from "./capacity-guards.ts";
import { recordHeartbeat } from "./requeue-eligible.ts";
import { selectNext } from "./select-next.ts";
import { applyPoolSettings, type DispatchBlock } from "./select-target.ts";

/**
 * Long polling: workers that fetch jobs over HTTP.
 *
 * 1. A worker takes jobs from the backlog of its own tenant; a key of every tenant takes them in fair-share order.
 * 2. Leasing a job is one commit with the same guards as a dispatch. The lease id is secret and valid until the
 *    attempt's deadline, which the worker may extend.
 * 3. A worker without a job waits until one enters a matching backlog (`long-poll-waiters.ts`), and polls again within
 *    a second.
 * 4. If the client disconnects during the poll, its jobs return to the backlog.
 */
export interface LeaseRequest {
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

/** Leased jobs; empty after the wait time. */
export async function leaseJobs(
  engine: DispatchContext & Needs<"waiters">,
  request: LeaseRequest,
): Promise<readonly Job[]> {
  const { clock } = engine.world;
  const untilMs = clock.now() + request.waitMs;
  const waiter = engine.waiters.subscribe(request);
  try {
    for (;;) {
      waiter.beginPoll();
      announce(engine, request);
      const jobs = await claimJobs(engine, request);
      if (request.signal.aborted) {
        await Promise.all(jobs.map(({ value }) => releaseJob(engine, value)));
        return [];
      }
      if (jobs.length > 0) waiter.endPoll();
      const restMs = untilMs - clock.now();
      if (jobs.length > 0 || restMs <= 0) return jobs.map(({ value }) => value);
      await waiter.wait(restMs);
    }
  } finally {
    waiter.stop();
  }
}

/** Broadcasts a heartbeat for the worker, because only this process sees its polls. */
function announce(
  engine: DispatchContext,
  { org, workerId, topics, max, capabilities = [], pool }: LeaseRequest,
): void {
  const { bus, clock, name } = engine.world;
  const nowMs = clock.now();
  const heartbeat = { id: workerId, transport: "http", org, topics, capabilities, maxParallelJobs: max } as const;
  recordHeartbeat(engine, pool === undefined ? heartbeat : { ...heartbeat, pool });
  if (!engine.registry.isAnnouncementDue(heartbeat, ANNOUNCED_EVERY_MS, nowMs)) return;
  bus.broadcast(HEARTBEAT, {
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

async function claimJobs(engine: DispatchContext, request: LeaseRequest): Promise<readonly Versioned<Job>[]> {
  if (request.pool !== undefined && engine.pools.draining.has(request.pool)) return [];
  const waiting = await waitingFor(engine, request);
  if (waiting.length === 0) return [];
  const inFlight = await engine.world.store.counts(IN_FLIGHT_GROUP, GROUP_MAX);
  const jobs: Versioned<Job>[] = [];
  // Starts at a random topic, so that a topic with a long backlog does not starve the others.
  const start = Math.floor(engine.world.random.next() * waiting.length);
  for (const [topic, orgs] of [...waiting.slice(start), ...waiting.slice(0, start)]) {
    if (jobs.length >= request.max || request.signal.aborted) break;
    const room = engine.settings.current.dispatch.windowMax - (inFlight.get(topic) ?? 0);
    try {
      jobs.push(...(await claimTopic(engine, request, topic, orgs, Math.min(room, request.max - jobs.length))));
    } catch (error) {
      // Jobs leased before the failure belong to the worker and must be returned.
      if (jobs.length === 0) throw error;
      engine.world.log.write("warn", "lease_poll_truncated", { topic, error: String(error) });
      break;
    }
  }
  return jobs;
}

/** Topics with a backlog for this worker, with the waiting count per org. */
async function waitingFor(engine: Needs<"world">, { org, topics }: LeaseRequest): Promise<readonly Waiting[]> {
  const names = new Set(topics.flatMap(namesOf));
  const found = await Promise.all(
    [...names].sort().map(async (topic): Promise<Waiting> => {
      const orgs = await engine.world.store.counts(backlogGroupOf(topic), GROUP_MAX);
      const own = orgs.get(org) ?? 0;
      return [topic, org === "*" ? orgs : new Map(own > 0 ? [[org, own]] : [])];
    }),
  );
  return found.filter(([, orgs]) => orgs.size > 0);
}

type Waiting = readonly [topic: string, orgs: ReadonlyMap<string, number>];

/** The topic with and without the prefix of its subject. */
function namesOf(topic: string): readonly string[] {
  const subject = workSubject(topic);
  const bare = bareTopic(subject);
  return workSubject(bare) === subject ? [bare, subject] : [subject];
}

async function claimTopic(
  engine: DispatchContext,
  request: LeaseRequest,
  topic: string,
  waiting: ReadonlyMap<string, number>,
  room: number,
): Promise<readonly Versioned<Job>[]> {
  if (room <= 0) return [];
  const allowed = await allowedPerOrg(engine, waiting);
  const { fit, failure } = await selectNext(engine, topic, allowed, room, blockFor(engine, request));
  if (failure !== null) engine.world.log.write("warn", "lease_claim_failed", { topic, error: String(failure) });
  const leases = await Promise.allSettled(fit.map((job) => leaseOne(engine, request, job)));
  const leased = leases.flatMap((one) => (one.status === "fulfilled" && one.value !== null ? [one.value] : []));
  const failed = leases.find((one) => one.status === "rejected");
  if (failed && leased.length === 0) throw failed.reason;
  return leased;
}

/** Why this worker cannot take a job. The capabilities of its pool count as its own. */
function blockFor(
  engine: Needs<"world" | "settings" | "registry" | "pools" | "safety">,
  { org, workerId, capabilities = [] }: LeaseRequest,
): (job: Job) => DispatchBlock | null {
  applyPoolSettings(engine);
  let abilities: ReadonlySet<string> | null = null;
  return (job) => {
    const unpermitted = engine.safety.block(job);
    if (unpermitted || job.requires.length === 0) return unpermitted;
    abilities ??= new Set([
      ...capabilities,
      ...engine.registry.capabilitiesOf({ id: workerId, transport: "http", org }),
    ]);
    return hasCapabilities(abilities, job.requires) ? null : blockIneligible(engine, job);
  };
}

async function leaseOne(
  engine: DispatchContext,
  request: LeaseRequest,
  taken: Versioned<Job>,
): Promise<Versioned<Job> | null> {
  const job = leaseJob(taken.value, request.workerId, engine.world.random.id(), decisionContext(engine, taken.value));
  const puts = [put(JOBS, taken.id, taken, job)];
  const { current } = engine.settings;
  const guards = capacityGuards(job, current, current.dispatch.windowMax);
  const committed = await engine.commit({ org: job.org, puts, guards });
  switch (committed.kind) {
    case "committed":
      return { id: taken.id, version: taken.version + 1, value: job };
    case "stale":
      return null;
    case "refused":
      await putBack(engine, taken, committed);
      return null;
    default:
      return committed satisfies never;
  }
}

/** The job requires a capability that this worker lacks. */
function blockIneligible(engine: Needs<"world" | "settings" | "registry">, job: Job): DispatchBlock {
  const { topic, org, requires } = job;
  const workers = engine.registry.serving(topic, engine.world.clock.now());
  if (workers.some((worker) => servesTenant(worker, org) && hasCapabilities(worker.capabilities, requires)))
    return { kind: "stays" };
  engine.registry.rememberIneligible(topic, job);
  return { kind: "waits", job: waitForWorker(job, noCapableWorker(requires), decisionContext(engine, job)) };
}

/** Returns a leased job that did not reach the worker. Never throws: without it the lease expires. */
export async function releaseJob(
  engine: Needs<"world" | "settings" | "commit">,
  { id, org, leaseId }: Job,
): Promise<void> {
  try {
    const found = await engine.world.store.load(JOBS, id);
    if (found?.value.leaseId !== leaseId || found?.value.state !== "RUNNING") return;
    await engine.commit({
      org,
      puts: [put(JOBS, id, found, requeueJob(found.value, decisionContext(engine, found.value)))],
    });
  } catch (error) {
    engine.world.log.write("warn", "lease_release_failed", { job: id, error: String(error) });
  }
}

export const LEASE_WAIT_MS_MAX = 55_000;
const ANNOUNCED_EVERY_MS = 5_000;
const GROUP_MAX = 10_000;
