import { JOBS, type Job, RUNNING_GROUP } from "../../core/model/job.ts";
import { jobsOf } from "../../core/model/lists/job-lists.ts";
import { INDEXES_MAX } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";
import type { WorkerView } from "./worker-registry.ts";

/**
 * Workers for lists and explanations: those that are there, and the silent ones whose leases are open.
 *
 * 1. Leases are read from the jobs: the registry is a hint of this process. The `JOBS_MAX` oldest running jobs are read.
 * 2. The last sign of life of a worker is its last poll, or the last change of a job that it holds.
 */
export interface ListedWorker extends WorkerView {
  /** Null for a worker that is there. */
  readonly silentMs: number | null;
  /** Jobs that an HTTP worker holds. */
  readonly leases: readonly Job[];
}

/** `org`: the tenant whose leases are read; `*` for all. */
export async function listWorkers(
  engine: Needs<"world" | "registry" | "settings">,
  org: string,
): Promise<readonly ListedWorker[]> {
  const { registry, world, settings } = engine;
  const nowMs = world.clock.now();
  const held = new Map<string, { readonly worker: WorkerView; readonly jobs: Job[] }>();
  for (const worker of registry.list(nowMs)) held.set(keyOf(worker), { worker, jobs: [] });
  for (const job of await leasedJobs(engine, org)) {
    const worker = registry.httpWorker(job.workerId ?? "", job.org) ?? unknownWorker(job);
    const known = held.get(keyOf(worker));
    if (known === undefined) held.set(keyOf(worker), { worker, jobs: [job] });
    else known.jobs.push(job);
  }
  const listed = [...held.values()].map(({ worker, jobs }): ListedWorker => {
    const lastSeenMs = jobs.reduce((lastMs, { updatedMs }) => Math.max(lastMs, updatedMs), worker.lastSeenMs);
    const ageMs = Math.max(0, nowMs - lastSeenMs);
    const silentMs = ageMs > settings.current.worker.silentMs ? ageMs : null;
    return { ...worker, activeJobs: Math.max(worker.activeJobs, jobs.length), lastSeenMs, silentMs, leases: jobs };
  });
  return listed.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The worker that holds the job; null if the job has no lease. */
export async function holderOf(
  engine: Needs<"world" | "registry" | "settings">,
  job: Job,
): Promise<ListedWorker | null> {
  if (!isLeased(job)) return null;
  const workers = await listWorkers(engine, job.org);
  return workers.find(({ leases }) => leases.some(({ id }) => id === job.id)) ?? null;
}

const isLeased = ({ state, leaseId, workerId }: Job): boolean =>
  state === "RUNNING" && leaseId !== undefined && workerId !== null;

async function leasedJobs({ world }: Needs<"world">, org: string): Promise<readonly Job[]> {
  const { store } = world;
  const orgs = org === "*" ? [...(await store.counts(RUNNING_GROUP, ORGS_MAX)).keys()].sort() : [org];
  const jobs: Job[] = [];
  for (let from = 0; from < orgs.length && jobs.length < JOBS_MAX; from += INDEXES_MAX) {
    const index = orgs.slice(from, from + INDEXES_MAX).map((one) => jobsOf(one, "RUNNING"));
    const page = await store.list(JOBS, { index, limit: JOBS_MAX - jobs.length, order: "oldest" });
    jobs.push(...page.items.map(({ value }) => value));
  }
  return jobs.filter(isLeased);
}

/** As far as its job says: it polled another process, or before this one started. */
function unknownWorker({ workerId, org, topic, updatedMs }: Job): WorkerView {
  return {
    id: workerId ?? "",
    pool: null,
    topics: [topic],
    capabilities: [],
    activeJobs: 0,
    maxParallelJobs: null,
    lastSeenMs: updatedMs,
    transport: "http",
    org,
    isLeaving: false,
    isUnsupported: false,
  };
}

const keyOf = ({ transport, org, id }: WorkerView): string => JSON.stringify([transport, org, id]);

const JOBS_MAX = 1_000;
const ORGS_MAX = 1_000;
