import type { Work } from "../../core/jobs/select-target.ts";
import { workSubject } from "../../protocol/subjects.ts";
import { RegistryEntry } from "./registered-worker.ts";

/**
 * Workers seen by this process: by handshake, heartbeat, or poll over HTTP.
 *
 * 1. Hints only: entries may be missing or outdated. The job's record and its deadline are authoritative.
 * 2. Bounded: the worker that was silent longest is evicted; HTTP workers only within their tenant, because a key may
 *    name any number of workers. A worker is gone after `worker.silent_ms` without a heartbeat.
 * 3. The load of a worker is its last reported load plus the unanswered jobs sent since, so that a burst between two
 *    heartbeats does not reach one worker (L41).
 */
export interface WorkerView {
  readonly id: string;
  readonly pool: string | null;
  readonly topics: readonly string[];
  /** Declared capabilities. `direct` and `inline` describe how the worker receives work. */
  readonly capabilities: readonly string[];
  readonly activeJobs: number;
  /** Null if not declared. */
  readonly maxParallelJobs: number | null;
  readonly lastSeenMs: number;
  readonly transport: Transport;
  /** The tenant it works for; null for any, as on the bus. */
  readonly org: string | null;
  readonly isLeaving: boolean;
  /** It supports other protocol versions only, and gets no jobs. */
  readonly isUnsupported: boolean;
}

export type Transport = "bus" | "http";

/** What a worker reports. Omitted fields keep their value. */
export interface WorkerHeartbeat {
  readonly id: string;
  readonly transport: Transport;
  /** The tenant of the API key (HTTP only). */
  readonly org?: string;
  readonly topics?: readonly string[];
  /** Flags of the handshake. */
  readonly flags?: readonly string[];
  readonly capabilities?: readonly string[];
  readonly pool?: string;
  readonly activeJobs?: number;
  readonly maxParallelJobs?: number;
  readonly isLeaving?: boolean;
  /** Whether its handshake declares our protocol version; null if it declares none. */
  readonly supportsVersion?: boolean | null;
  /** The packet has another protocol version. */
  readonly sendsOtherVersion?: boolean;
}

/** A worker as dispatch sees it. `load` includes jobs sent since the last heartbeat. */
export interface RegisteredWorker {
  readonly id: string;
  readonly pool: string | null;
  readonly transport: Transport;
  readonly org: string | null;
  readonly capabilities: ReadonlySet<string>;
  readonly isDirect: boolean;
  readonly isLeaving: boolean;
  readonly isUnsupported: boolean;
  readonly loadMax: number;
  readonly lastSeenMs: number;
  readonly load: number;
}

export class WorkerRegistry {
  readonly #silentMs: () => number;
  /** HTTP workers are keyed by tenant and id: they cannot impersonate a worker of another tenant. */
  readonly #workers = new Map<string, RegistryEntry>();
  /** Keys of HTTP workers by tenant, in order of last contact. */
  readonly #ofOrg = new Map<string, Set<string>>();
  /** Subject → workers that serve it; rebuilt after a change. */
  #serving = new Map<string, readonly RegistryEntry[]>();
  /** Job → the worker it was sent to. */
  readonly #sent = new Map<string, RegistryEntry>();
  /** Jobs without an eligible worker, by subject. */
  readonly #ineligible = new Map<string, Map<string, Work>>();
  #ineligibleCount = 0;
  /** Keys of workers that support other protocol versions only. */
  readonly #unsupported = new Set<string>();
  /** Topics and capabilities of pools, for workers that declare none. */
  #poolOf: (pool: string) => PoolFacts = () => NO_POOL;

  constructor(silentMs: () => number) {
    this.#silentMs = silentMs;
  }

  /** True if the worker serves a topic or has a capability that it did not have before. */
  record(heartbeat: WorkerHeartbeat, nowMs: number): boolean {
    const key = keyOf(heartbeat);
    const before = this.#workers.get(key);
    const isBack = before === undefined || nowMs - before.lastSeenMs > this.#silentMs() || before.isLeaving;
    if (before === undefined) this.#makeRoom(heartbeat);
    const worker = before ?? new RegistryEntry(heartbeat);
    const isChanged = worker.update(heartbeat, nowMs);
    if (worker.isUnsupported) this.#unsupported.add(key);
    else this.#unsupported.delete(key);
    // Keeps the map in order of last contact.
    this.#workers.delete(key);
    this.#workers.set(key, worker);
    if (worker.transport === "http") this.#keepOrder(key, worker.org ?? "");
    if (!isChanged && before !== undefined) return isBack;
    this.#serving = new Map();
    return (isBack || isChanged) && !worker.isLeaving;
  }

  /** Whether a worker that is there supports other protocol versions only. */
  isUnsupported(heartbeat: Pick<WorkerHeartbeat, "id" | "transport" | "org">, nowMs: number): boolean {
    const worker = this.#workers.get(keyOf(heartbeat));
    return worker?.isUnsupported === true && this.#isThere(worker, nowMs);
  }

  /** Whether any worker supports other protocol versions only. */
  get hasUnsupported(): boolean {
    return this.#unsupported.size > 0;
  }

  /** Capabilities of the worker and its pool. */
  capabilitiesOf(heartbeat: Pick<WorkerHeartbeat, "id" | "transport" | "org">): ReadonlySet<string> {
    const worker = this.#workers.get(keyOf(heartbeat));
    if (!worker) return NOTHING;
    worker.giveAbilities(this.#factsOf(worker).capabilities);
    return worker.capabilities;
  }

  list(nowMs: number): readonly WorkerView[] {
    const there = [...this.#workers.values()].filter((worker) => this.#isThere(worker, nowMs));
    return there.sort((a, b) => (a.id < b.id ? -1 : 1)).map(viewOf);
  }

  /** An HTTP worker of the tenant, else of a key of all tenants; silent ones too. */
  httpWorker(id: string, org: string): WorkerView | null {
    const find = (owner: string) => this.#workers.get(keyOf({ id, transport: "http", org: owner }));
    const worker = find(org) ?? find("*");
    return worker === undefined ? null : viewOf(worker);
  }

  /** Whether a heartbeat for this HTTP worker should be broadcast now. */
  isAnnouncementDue(
    heartbeat: Pick<WorkerHeartbeat, "id" | "transport" | "org">,
    everyMs: number,
    nowMs: number,
  ): boolean {
    const worker = this.#workers.get(keyOf(heartbeat));
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

  /** The worker no longer holds the job. */
  recordAnswer(jobId: string): void {
    const worker = this.#sent.get(jobId);
    if (!worker) return;
    this.#sent.delete(jobId);
    worker.unanswered.delete(jobId);
  }

  remove(workerId: string): void {
    const worker = this.#workers.get(workerId);
    if (worker) this.#forget(workerId, worker);
  }

  rememberIneligible(topic: string, { id, org, requires }: Work & { readonly id: string }): void {
    if (this.#ineligibleCount >= UNFIT_MAX) return; // Its due time requeues it.
    const subject = workSubject(topic);
    const jobs = this.#ineligible.get(subject) ?? new Map<string, Work>();
    if (!jobs.has(id)) this.#ineligibleCount++;
    this.#ineligible.set(subject, jobs.set(id, { org, requires }));
  }

  /** Returns and removes the jobs that are eligible now. */
  takeEligible(topic: string, isFit: (work: Work) => boolean): readonly string[] {
    const subject = workSubject(topic);
    const jobs = this.#ineligible.get(subject) ?? new Map<string, Work>();
    const ids = [...jobs].flatMap(([id, work]) => (isFit(work) ? [id] : []));
    for (const id of ids) jobs.delete(id);
    this.#ineligibleCount -= ids.length;
    if (jobs.size === 0) this.#ineligible.delete(subject);
    return ids;
  }

  ineligibleSubjects(): readonly string[] {
    return [...this.#ineligible.keys()];
  }

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
    // Explicit order: equal loads go to the first by id.
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
    this.#unsupported.delete(key);
    this.#serving = new Map();
    if (worker.transport !== "http") return;
    const own = this.#ofOrg.get(worker.org ?? "");
    own?.delete(key);
    if (own?.size === 0) this.#ofOrg.delete(worker.org ?? "");
  }
}

export interface PoolFacts {
  serves(subject: string): boolean;
  readonly capabilities: readonly string[];
}

/** Bus workers are keyed by id alone: work is sent to them by id. */
const keyOf = ({ id, transport, org }: Pick<WorkerHeartbeat, "id" | "transport" | "org">): string =>
  transport === "bus" ? id : `http\n${org ?? ""}\n${id}`;

function viewOf(worker: RegistryEntry): WorkerView {
  const { id, pool, topics, transport, org, lastSeenMs, isLeaving, isUnsupported, loadMax, load } = worker;
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
    isUnsupported,
  };
}

const NO_POOL: PoolFacts = { serves: () => false, capabilities: [] };
const NOTHING: ReadonlySet<string> = new Set();
const WORKERS_MAX = 10_000;
const WORKERS_OF_ORG_MAX = 1_000;
const TOPICS_MAX = 10_000;
const SENT_MAX = 65_536;
const UNFIT_MAX = 10_000;
