import type { Work } from "../../core/jobs/select-target.ts";
import { workSubject } from "../../protocol/subjects.ts";
import { RegistryEntry } from "./registered-worker.ts";

/**
 * The workers that this process has heard of: by handshake, heartbeat, or a lease over HTTP.
 *
 * 1. Hints only: it may lack workers that are there, and list some that have just gone. Nothing is lost by either; the
 *    job's record and its deadline are the truth.
 * 2. Bounded: the one that was silent for the longest makes room; over HTTP, where each key may name as many as it
 *    likes, of its own tenant. Who is silent for `worker.silent_ms` is not there.
 * 3. A worker's load is what it last reported, and what was sent to it since and is not answered: a burst between two
 *    heartbeats does not land on one worker (L41).
 */
export interface WorkerView {
  readonly id: string;
  readonly pool: string | null;
  readonly topics: readonly string[];
  /** What it said it can do; `direct` and `inline` are about how it takes its work. */
  readonly capabilities: readonly string[];
  readonly activeJobs: number;
  /** Null where it did not say. */
  readonly maxParallelJobs: number | null;
  readonly lastSeenMs: number;
  readonly transport: Transport;
  /** Whose work it does: null for anybody's, as on the bus. */
  readonly org: string | null;
  readonly isLeaving: boolean;
}

export type Transport = "bus" | "http";

/** What a worker has said of itself. What it did not say now stays as it was. */
export interface WorkerHeartbeat {
  readonly id: string;
  readonly transport: Transport;
  /** Over HTTP: the tenant of its key. */
  readonly org?: string;
  readonly topics?: readonly string[];
  /** How it takes its work, as its handshake says. */
  readonly flags?: readonly string[];
  readonly capabilities?: readonly string[];
  readonly pool?: string;
  readonly activeJobs?: number;
  readonly maxParallelJobs?: number;
  readonly isLeaving?: boolean;
}

/** A worker as placement looks at it; `load` grows with everything that is sent to it. */
export interface RegisteredWorker {
  readonly id: string;
  readonly pool: string | null;
  readonly transport: Transport;
  readonly org: string | null;
  readonly capabilities: ReadonlySet<string>;
  readonly isDirect: boolean;
  readonly isLeaving: boolean;
  readonly loadMax: number;
  readonly lastSeenMs: number;
  readonly load: number;
}

export class WorkerRegistry {
  readonly #silentMs: () => number;
  /** Who comes over HTTP has a name within its tenant: it cannot pass itself off as another's worker. */
  readonly #workers = new Map<string, RegistryEntry>();
  /** The keys of those that come over HTTP, by tenant, in the same order. */
  readonly #ofOrg = new Map<string, Set<string>>();
  /** Subject of the work → who serves it; made when first asked for, and anew when anybody changes. */
  #serving = new Map<string, readonly RegistryEntry[]>();
  /** Job → the worker that it was sent to. */
  readonly #sent = new Map<string, RegistryEntry>();
  /** Jobs for which no known worker of their topic is fit, by the subject of their work. */
  readonly #unfit = new Map<string, Map<string, Work>>();
  #unfitCount = 0;
  /** By the names of pools: which topics workers serve that did not name any themselves, and what they can do. */
  #poolOf: (pool: string) => PoolFacts = () => NO_POOL;

  constructor(silentMs: () => number) {
    this.#silentMs = silentMs;
  }

  /** True if it serves a topic, or can do something, that it did not before. */
  record(sign: WorkerHeartbeat, nowMs: number): boolean {
    const key = keyOf(sign);
    const before = this.#workers.get(key);
    const isBack = before === undefined || nowMs - before.lastSeenMs > this.#silentMs() || before.isLeaving;
    if (before === undefined) this.#makeRoom(sign);
    const worker = before ?? new RegistryEntry(sign);
    const isChanged = worker.update(sign, nowMs);
    // In the order in which they were last heard of.
    this.#workers.delete(key);
    this.#workers.set(key, worker);
    if (worker.transport === "http") this.#keepOrder(key, worker.org ?? "");
    if (!isChanged && before !== undefined) return isBack;
    this.#serving = new Map();
    return (isBack || isChanged) && !worker.isLeaving;
  }

  /** What the worker can do: by itself, and by its pool. */
  abilitiesOf(sign: Pick<WorkerHeartbeat, "id" | "transport" | "org">): ReadonlySet<string> {
    const worker = this.#workers.get(keyOf(sign));
    if (!worker) return NOTHING;
    worker.giveAbilities(this.#factsOf(worker).capabilities);
    return worker.capabilities;
  }

  /** By id. */
  list(nowMs: number): readonly WorkerView[] {
    const there = [...this.#workers.values()].filter((worker) => this.#isThere(worker, nowMs));
    return there.sort((a, b) => (a.id < b.id ? -1 : 1)).map(viewOf);
  }

  /** Whether other processes should be told of the worker now: asked for those that only this one hears. */
  isAnnouncementDue(sign: Pick<WorkerHeartbeat, "id" | "transport" | "org">, everyMs: number, nowMs: number): boolean {
    const worker = this.#workers.get(keyOf(sign));
    if (!worker || nowMs - worker.announcedMs < everyMs) return false;
    worker.announcedMs = nowMs;
    return true;
  }

  serving(topic: string, nowMs: number): readonly RegisteredWorker[] {
    const known = this.#known(workSubject(topic));
    const silentMs = this.#silentMs();
    for (const worker of known) {
      if (nowMs - worker.lastSeenMs > silentMs || worker.isLeaving)
        return known.filter((one) => this.#isThere(one, nowMs) && !one.isLeaving);
    }
    return known;
  }

  /** A job is on its way to the worker. */
  recordSent(workerId: string, jobId: string, nowMs: number): void {
    const worker = this.#workers.get(workerId);
    if (!worker) return;
    if (this.#sent.size >= SENT_MAX) {
      for (const oldest of this.#sent.keys()) {
        this.recordAnswer(oldest);
        break;
      }
    }
    this.#sent.set(jobId, worker);
    worker.unanswered.set(jobId, nowMs);
  }

  /** The job is with that worker no more, whatever became of it. */
  recordAnswer(jobId: string): void {
    const worker = this.#sent.get(jobId);
    if (!worker) return;
    this.#sent.delete(jobId);
    worker.unanswered.delete(jobId);
  }

  /** Nobody was there on the worker's own subject. */
  remove(workerId: string): void {
    const worker = this.#workers.get(workerId);
    if (worker) this.#forget(workerId, worker);
  }

  /** The job waits for a worker that can do what it requires. */
  rememberUnfit(topic: string, { id, org, requires }: Work & { readonly id: string }): void {
    if (this.#unfitCount >= UNFIT_MAX) return; // It comes back by itself, later.
    const subject = workSubject(topic);
    const jobs = this.#unfit.get(subject) ?? new Map<string, Work>();
    if (!jobs.has(id)) this.#unfitCount++;
    this.#unfit.set(subject, jobs.set(id, { org, requires }));
  }

  /** Those that are fit now, once: who still waits is remembered again. */
  recallUnfit(topic: string, isFit: (work: Work) => boolean): readonly string[] {
    const subject = workSubject(topic);
    const jobs = this.#unfit.get(subject) ?? new Map<string, Work>();
    const ids = [...jobs].flatMap(([id, work]) => (isFit(work) ? [id] : []));
    for (const id of ids) jobs.delete(id);
    this.#unfitCount -= ids.length;
    if (jobs.size === 0) this.#unfit.delete(subject);
    return ids;
  }

  /** Subjects of topics that have such jobs. */
  unfitSubjects(): readonly string[] {
    return [...this.#unfit.keys()];
  }

  /** What the settings say of pools has changed. */
  setPools(poolOf: (pool: string) => PoolFacts): void {
    this.#poolOf = poolOf;
    this.#serving = new Map();
  }

  #known(subject: string): readonly RegistryEntry[] {
    const known = this.#serving.get(subject);
    if (known) return known;
    if (this.#serving.size >= TOPICS_MAX) this.#serving.clear();
    const found: RegistryEntry[] = [];
    for (const worker of this.#workers.values()) {
      const pool = this.#factsOf(worker);
      const isServing = worker.subjects.size > 0 ? worker.subjects.has(subject) : pool.serves(subject);
      if (!isServing) continue;
      worker.giveAbilities(pool.capabilities);
      found.push(worker);
    }
    // Order is explicit: equal loads go to the first by id.
    found.sort((a, b) => (a.id < b.id ? -1 : 1));
    this.#serving.set(subject, found);
    return found;
  }

  #factsOf({ pool }: RegistryEntry): PoolFacts {
    return pool === null ? NO_POOL : this.#poolOf(pool);
  }

  #isThere(worker: RegistryEntry, nowMs: number): boolean {
    return nowMs - worker.lastSeenMs <= this.#silentMs();
  }

  #keepOrder(key: string, org: string): void {
    const keys = this.#ofOrg.get(org) ?? new Set();
    keys.delete(key);
    this.#ofOrg.set(org, keys.add(key));
  }

  #makeRoom({ transport, org }: WorkerHeartbeat): void {
    const own = transport === "http" ? this.#ofOrg.get(org ?? "") : undefined;
    if (own && own.size >= WORKERS_OF_ORG_MAX) this.#forgetFirst(own.values());
    else if (this.#workers.size >= WORKERS_MAX) this.#forgetFirst(this.#workers.keys());
  }

  #forgetFirst(keys: Iterable<string>): void {
    for (const key of keys) {
      const worker = this.#workers.get(key);
      if (worker) this.#forget(key, worker);
      return;
    }
  }

  #forget(key: string, worker: RegistryEntry): void {
    for (const jobId of worker.unanswered.keys()) this.#sent.delete(jobId);
    this.#workers.delete(key);
    this.#serving = new Map();
    if (worker.transport !== "http") return;
    const own = this.#ofOrg.get(worker.org ?? "");
    own?.delete(key);
    if (own?.size === 0) this.#ofOrg.delete(worker.org ?? "");
  }
}

export interface PoolFacts {
  /** Asked with the subject of the work. */
  serves(subject: string): boolean;
  readonly capabilities: readonly string[];
}

/** The id alone for workers on the bus: work is sent to them by it. */
const keyOf = ({ id, transport, org }: Pick<WorkerHeartbeat, "id" | "transport" | "org">): string =>
  transport === "bus" ? id : `http\n${org ?? ""}\n${id}`;

function viewOf(worker: RegistryEntry): WorkerView {
  const { id, pool, topics, transport, org, lastSeenMs, isLeaving, loadMax, load } = worker;
  return {
    id,
    pool,
    topics,
    capabilities: [...worker.capabilities],
    activeJobs: load,
    maxParallelJobs: Number.isFinite(loadMax) ? loadMax : null,
    lastSeenMs,
    transport,
    org,
    isLeaving,
  };
}

const NO_POOL: PoolFacts = { serves: () => false, capabilities: [] };
const NOTHING: ReadonlySet<string> = new Set();
const WORKERS_MAX = 10_000;
const WORKERS_OF_ORG_MAX = 1_000;
const TOPICS_MAX = 10_000;
const SENT_MAX = 65_536;
const UNFIT_MAX = 10_000;
