import { workSubject } from "../../protocol/subjects.ts";
import type { RegisteredWorker, Transport, WorkerHeartbeat } from "./worker-registry.ts";

/** A registered worker: its last heartbeat and the jobs sent to it since. */
export class RegistryEntry implements RegisteredWorker {
  readonly id: string;
  readonly transport: Transport;
  readonly org: string | null;
  pool: string | null = null;
  topics: readonly string[] = [];
  subjects: ReadonlySet<string> = new Set();
  capabilities: ReadonlySet<string> = new Set();
  flags: readonly string[] = [];
  declared: readonly string[] = [];
  isDirect = false;
  isLeaving = false;
  isUnsupported = false;
  supportsVersion: boolean | null = null;
  reported = 0;
  loadMax = Number.POSITIVE_INFINITY;
  lastSeenMs = 0;
  announcedMs = Number.NEGATIVE_INFINITY;
  readonly unanswered = new Map<string, number>();

  constructor({ id, transport, org }: WorkerHeartbeat) {
    this.id = id;
    this.transport = transport;
    this.org = transport === "bus" ? null : (org ?? null);
  }

  get load(): number {
    return this.reported + this.unanswered.size;
  }

  /** True if dispatch decisions may change. */
  update(heartbeat: WorkerHeartbeat, nowMs: number): boolean {
    this.lastSeenMs = nowMs;
    if (heartbeat.maxParallelJobs !== undefined && heartbeat.maxParallelJobs > 0)
      this.loadMax = heartbeat.maxParallelJobs;
    if (heartbeat.activeJobs !== undefined) this.#count(heartbeat.activeJobs, nowMs);
    const topics = heartbeat.topics?.slice(0, TOPICS_OF_ONE_MAX) ?? this.topics;
    const flags = heartbeat.flags?.slice(0, CAPABILITIES_MAX) ?? this.flags;
    const said = heartbeat.capabilities?.slice(0, CAPABILITIES_MAX) ?? this.declared;
    const pool = heartbeat.pool || this.pool;
    const isLeaving = heartbeat.isLeaving ?? false;
    if (heartbeat.supportsVersion !== undefined) this.supportsVersion = heartbeat.supportsVersion;
    // What a handshake declared counts, else the version of the last packet.
    const isUnsupported =
      this.supportsVersion === null ? (heartbeat.sendsOtherVersion ?? this.isUnsupported) : !this.supportsVersion;
    const isSame =
      pool === this.pool &&
      isLeaving === this.isLeaving &&
      isUnsupported === this.isUnsupported &&
      isEqual(topics, this.topics) &&
      isEqual(flags, this.flags) &&
      isEqual(said, this.declared);
    if (isSame) return false;
    this.pool = pool;
    this.isLeaving = isLeaving;
    this.isUnsupported = isUnsupported;
    this.topics = topics;
    this.subjects = new Set(topics.map(workSubject));
    this.flags = flags;
    this.declared = said;
    this.capabilities = new Set([...flags, ...said]);
    this.isDirect = this.transport === "bus" && this.capabilities.has("direct") && TOKEN.test(this.id);
    return true;
  }

  giveAbilities(names: readonly string[]): void {
    this.capabilities = new Set([...this.flags, ...this.declared, ...names]);
  }

  /** A job sent within `CROSSING_MS` may be missing in the reported number. */
  #count(activeJobs: number, nowMs: number): void {
    this.reported = Math.max(0, activeJobs);
    for (const [jobId, sentMs] of this.unanswered) {
      if (nowMs - sentMs <= CROSSING_MS) break;
      this.unanswered.delete(jobId);
    }
  }
}

function isEqual(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((text, index) => text === b[index]));
}

const TOPICS_OF_ONE_MAX = 1_000;
const CAPABILITIES_MAX = 200;
const CROSSING_MS = 250;
/** Ids that are valid as a subject token. */
const TOKEN = /^[A-Za-z0-9_-]+$/;
