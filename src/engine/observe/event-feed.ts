import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import { RUNS, type Run, type RunState } from "../../core/model/run.ts";
import { isRolloutRecord, ROLLOUTS, type Rollout, type RolloutState } from "../../core/rollout/rollout.ts";
import type { Put } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import type { Packet } from "../../protocol/packet.ts";
import { EVENTS } from "../../protocol/subjects.ts";

/**
 * Live feed of job, run and rollout changes, for streams and long-poll waiters.
 *
 * 1. Best effort: an event may be lost, never invented. Consumers that must not miss one read the store.
 * 2. Subscribers of this process receive a change at once; other processes receive it over the bus, in one packet per
 *    tick. What does not fit into the packet is dropped and counted.
 * 3. Nothing is published before `start`, or if the bus has no subscribers. Without a local subscriber the bus
 *    subscription is closed.
 * 4. A subscriber that throws affects no other subscriber.
 * 5. Subscribers of losses are called when another process had more updates than fit into a packet.
 * 6. Runs have their own limit in a packet, so that the jobs of a run do not crowd out the run.
 */
/** `version` is that of the record; 0 from a process of an earlier version. */
export interface JobUpdate {
  readonly org: string;
  readonly jobId: string;
  readonly topic: string;
  readonly state: JobState;
  readonly atMs: number;
  readonly version: number;
}

export interface RunUpdate {
  readonly org: string;
  readonly runId: string;
  readonly workflowId: string;
  readonly state: RunState;
  readonly atMs: number;
  readonly version: number;
}

export interface RolloutUpdate {
  readonly rolloutId: string;
  readonly subject: string;
  readonly state: RolloutState;
  readonly atMs: number;
  readonly version: number;
}

export type RolloutUpdateListener = (update: RolloutUpdate) => void;
export type JobUpdateListener = (update: JobUpdate) => void;
export type RunUpdateListener = (update: RunUpdate) => void;

export class EventFeed {
  readonly #world: World;
  readonly #listeners = new Set<JobUpdateListener>();
  readonly #runListeners = new Set<RunUpdateListener>();
  readonly #rolloutListeners = new Set<RolloutUpdateListener>();
  readonly #lossListeners = new Set<() => void>();
  #gathered: Row[] = [];
  #gatheredRuns: Row[] = [];
  #gatheredRollouts: Row[] = [];
  #leftOut = 0;
  #isTelling = false;
  #isGathering = false;
  #hearing: Promise<() => Promise<void>> | null = null;

  constructor(world: World) {
    this.#world = world;
  }

  /** Starts publishing to other processes. */
  start(): void {
    this.#isTelling = true;
  }

  async stop(): Promise<void> {
    this.#isTelling = false;
    this.#listeners.clear();
    this.#runListeners.clear();
    this.#rolloutListeners.clear();
    this.#lossListeners.clear();
    const hearing = this.#hearing;
    this.#hearing = null;
    if (hearing) await (await hearing)();
  }

  /** Returns the unsubscribe function. */
  subscribe(listener: JobUpdateListener): () => void {
    this.#listeners.add(listener);
    this.#subscribeBus();
    return () => void this.#listeners.delete(listener);
  }

  /** Runs: called for every write, also without a change of state. */
  subscribeRuns(listener: RunUpdateListener): () => void {
    this.#runListeners.add(listener);
    this.#subscribeBus();
    return () => void this.#runListeners.delete(listener);
  }

  /** Rollouts: called for every write. */
  subscribeRollouts(listener: RolloutUpdateListener): () => void {
    this.#rolloutListeners.add(listener);
    this.#subscribeBus();
    return () => void this.#rolloutListeners.delete(listener);
  }

  /** Called when updates were lost. */
  subscribeLosses(listener: () => void): () => void {
    this.#lossListeners.add(listener);
    return () => void this.#lossListeners.delete(listener);
  }

  #subscribeBus(): void {
    this.#hearing ??= this.#world.bus
      .subscribe(EVENTS, (packet) => this.#receive(packet))
      .catch((error: unknown) => {
        this.#world.log.write("warn", "event_feed_subscribe_failed", { error: String(error) });
        this.#hearing = null;
        return async () => {};
      });
  }

  record(puts: readonly Put[]): void {
    const isTelling = this.#isTelling && this.#world.bus.hasSubscribers(EVENTS);
    const local = this.#listeners.size + this.#runListeners.size + this.#rolloutListeners.size;
    if (!isTelling && local === 0) return;
    for (const { table, id, value, expect } of puts) {
      if (value === null) continue;
      const version = (expect ?? 0) + 1;
      if (table === JOBS.name) this.#addJob(value as Job, version, isTelling);
      else if (table === RUNS.name) this.#addRun(value as Run, version, isTelling);
      else if (table === ROLLOUTS.name && isRolloutRecord(id)) this.#addRollout(value as Rollout, version, isTelling);
    }
  }

  #addJob({ org, id: jobId, topic, state, updatedMs: atMs }: Job, version: number, isTelling: boolean): void {
    if (this.#listeners.size > 0) this.#give(this.#listeners, { org, jobId, topic, state, atMs, version });
    if (isTelling) this.#gather(this.#gathered, [org, jobId, topic, state, atMs, version], JOB_UPDATES_MAX);
  }

  #addRun({ org, id: runId, workflowId, state, updatedMs: atMs }: Run, version: number, isTelling: boolean): void {
    if (this.#runListeners.size > 0) this.#give(this.#runListeners, { org, runId, workflowId, state, atMs, version });
    if (isTelling) this.#gather(this.#gatheredRuns, [org, runId, workflowId, state, atMs, version], RUN_UPDATES_MAX);
  }

  #addRollout({ id: rolloutId, subject, state, updatedMs: atMs }: Rollout, version: number, isTelling: boolean): void {
    this.#give(this.#rolloutListeners, { rolloutId, subject, state, atMs, version });
    if (isTelling)
      this.#gather(this.#gatheredRollouts, ["", rolloutId, subject, state, atMs, version], ROLLOUT_UPDATES_MAX);
  }

  #gather(gathered: Row[], row: Row, max: number): void {
    if (gathered.length < max) gathered.push(row);
    else this.#leftOut++;
    if (this.#isGathering) return;
    this.#isGathering = true;
    // Flushes after all commits that resolved in this tick.
    void Promise.resolve()
      .then(() => {})
      .then(() => this.#publish());
  }

  #publish(): void {
    const { bus, clock, metrics, name } = this.#world;
    const [jobs, runs, leftOut] = [this.#gathered, this.#gatheredRuns, this.#leftOut];
    const rollouts = this.#gatheredRollouts;
    this.#gatheredRollouts = [];
    this.#gathered = [];
    this.#gatheredRuns = [];
    this.#leftOut = 0;
    this.#isGathering = false;
    if (leftOut > 0) metrics.add("cordum_notices_left_out_total", {}, leftOut);
    const details = {
      jobs: JSON.stringify(jobs),
      ...(runs.length === 0 ? {} : { runs: JSON.stringify(runs) }),
      ...(rollouts.length === 0 ? {} : { rollouts: JSON.stringify(rollouts) }),
      left_out: String(leftOut),
    };
    const alert = { kind: "alert", level: "INFO", message: "jobs changed", component: name, code: CODE } as const;
    try {
      bus.broadcast(EVENTS, { traceId: "", senderId: name, createdAtMs: clock.now(), body: { ...alert, details } });
    } catch (error) {
      this.#world.log.write("debug", "event_feed_publish_failed", { error: String(error) });
    }
  }

  #receive({ senderId, body }: Packet): void {
    if (senderId === this.#world.name || body.kind !== "alert" || body.code !== CODE) return;
    const { jobs = "", runs = "", rollouts = "", left_out = "0" } = body.details ?? {};
    for (const update of rowsIn(jobs, JOB_UPDATES_MAX).flatMap(jobUpdateOf)) this.#give(this.#listeners, update);
    for (const update of rowsIn(runs, RUN_UPDATES_MAX).flatMap(runUpdateOf)) this.#give(this.#runListeners, update);
    for (const update of rowsIn(rollouts, ROLLOUT_UPDATES_MAX).flatMap(rolloutUpdateOf)) {
      this.#give(this.#rolloutListeners, update);
    }
    if (left_out !== "0") this.#give(this.#lossListeners, undefined);
  }

  #give<T>(listeners: ReadonlySet<(update: T) => void>, update: T): void {
    for (const listener of listeners) {
      try {
        listener(update);
      } catch (error) {
        this.#world.log.write("warn", "event_subscriber_failed", { error: String(error) });
      }
    }
  }
}

/** Rows in field order instead of objects: field names would be most of the packet. */
type Row = readonly [org: string, id: string, topicOrWorkflow: string, state: string, atMs: number, version?: number];

function rowsIn(text: string, max: number): readonly unknown[] {
  try {
    const rows: unknown = JSON.parse(text);
    return Array.isArray(rows) ? rows.slice(0, max) : [];
  } catch {
    return []; // A foreign packet on this subject.
  }
}

function jobUpdateOf(row: unknown): JobUpdate[] {
  if (!isValidRow(row)) return [];
  const [org, jobId, topic, state, atMs, version = 0] = row;
  return [{ org, jobId, topic, state: state as JobState, atMs, version }];
}

function runUpdateOf(row: unknown): RunUpdate[] {
  if (!isValidRow(row)) return [];
  const [org, runId, workflowId, state, atMs, version = 0] = row;
  return [{ org, runId, workflowId, state: state as RunState, atMs, version }];
}

function rolloutUpdateOf(row: unknown): RolloutUpdate[] {
  if (!isValidRow(row)) return [];
  const [, rolloutId, subject, state, atMs, version = 0] = row;
  return [{ rolloutId, subject, state: state as RolloutState, atMs, version }];
}

function isValidRow(row: unknown): row is Row {
  if (!Array.isArray(row)) return false;
  const [version] = row.slice(5);
  if (version !== undefined && typeof version !== "number") return false;
  return row.slice(0, 4).every((part) => typeof part === "string") && typeof row[4] === "number";
}

const CODE = "jobs.changed";
/** With the longest names this is less than half of the maximum message size. */
const JOB_UPDATES_MAX = 500;
const RUN_UPDATES_MAX = 200;
const ROLLOUT_UPDATES_MAX = 50;
