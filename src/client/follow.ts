/**
 * Waits for changes of jobs and runs.
 *
 * 1. Subscribe, then read, then follow: a change between the read and the subscription cannot be lost.
 * 2. A record is read again after each (re)connection, and at intervals, because delivery of events is best effort.
 * 3. Subscriptions with the same filter share one connection.
 */
import { CordumError } from "./client-error.ts";
import { type ClientEvent, eventStream, type StreamFilter } from "./event-stream.ts";
import type { Job, JobDetail, JobEvent, RunDetail } from "./schema.ts";
import type { CallOptions, ClientParts, Transport } from "./transport.ts";

export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
  /** Rejects with `deadline_exceeded` after this time; unlimited by default. The job or run continues. */
  readonly timeoutMs?: number | undefined;
}

export interface ChangesOptions {
  readonly topic?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Start with the jobs updated after this time (ISO 8601); by default with the next change. */
  readonly since?: string | undefined;
}

const JOB_ENDS: ReadonlySet<string> = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT", "DENIED"]);
const RUN_ENDS: ReadonlySet<string> = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"]);

export class Follower {
  readonly #transport: Transport;
  readonly #hubs = new Map<string, Hub>();

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  events(filter: StreamFilter, signal?: AbortSignal): AsyncGenerator<ClientEvent, void, undefined> {
    return eventStream(this.#transport, filter, signal ?? new AbortController().signal);
  }

  async *job(id: string, options: WaitOptions): AsyncGenerator<JobDetail, void, undefined> {
    const load = (call: CallOptions) => this.#transport.send("GET /jobs/{id}", { path: { id } }, call);
    // The stream has no filter for one job; its topic is the narrowest.
    const { topic } = await load(options);
    const isAbout = (event: ClientEvent) => event.event === "job" && event.data.job_id === id;
    yield* this.#record({ topic }, load, isAbout, JOB_ENDS, options);
  }

  run(id: string, options: WaitOptions): AsyncGenerator<RunDetail, void, undefined> {
    const load = (call: CallOptions) => this.#transport.send("GET /workflow-runs/{id}", { path: { id } }, call);
    return this.#record({ run: id }, load, () => true, RUN_ENDS, options);
  }

  /** Every state of each job that is observed, with those after a gap read from the list. */
  async *jobChanges({ topic, signal, since }: ChangesOptions): AsyncGenerator<JobEvent, void, undefined> {
    const seen = new SeenStates();
    let seenAt = since;
    let isFirst = true;
    for await (const event of this.events({ topic }, signal)) {
      if (event.event === "connected" && seenAt !== undefined && (event.isGap || isFirst)) {
        for (const job of await this.#updatedAfter(topic, seenAt, signal)) {
          const change = changeOf(job);
          if (seen.isNew(change)) yield change;
        }
      }
      if (event.event === "connected") isFirst = false;
      if (event.event === "connected") seenAt ??= new Date(this.#transport.parts.wallMs()).toISOString();
      if (event.event !== "job" || !seen.isNew(event.data)) continue;
      if (seenAt === undefined || event.data.at > seenAt) seenAt = event.data.at;
      yield event.data;
    }
  }

  /** Oldest change first. */
  async #updatedAfter(topic: string | undefined, since: string, signal: AbortSignal | undefined): Promise<Job[]> {
    const jobs: Job[] = [];
    const updated_after = new Date(Date.parse(since) - OVERLAP_MS).toISOString();
    let cursor: string | undefined;
    for (let pages = 0; pages < CATCH_UP_PAGES_MAX; pages++) {
      const query = { topic, updated_after, limit: 200, cursor };
      const page = await this.#transport.send("GET /jobs", { query }, { signal });
      jobs.push(...page.items);
      if (page.next_cursor === null) return jobs.sort((a, b) => a.updated_at.localeCompare(b.updated_at));
      cursor = page.next_cursor;
    }
    const detail = `more than ${CATCH_UP_PAGES_MAX} pages of jobs to read since ${since}; name a topic, or list the jobs and start again without \`since\``;
    throw new CordumError({ code: "catch_up_limit", title: "catch-up limit reached", detail });
  }

  async *#record<T extends { readonly state: string; readonly updated_at: string }>(
    filter: StreamFilter,
    load: (call: CallOptions) => Promise<T>,
    isAbout: (event: ClientEvent) => boolean,
    ends: ReadonlySet<string>,
    { signal, timeoutMs }: WaitOptions,
  ): AsyncGenerator<T, void, undefined> {
    const { parts } = this.#transport;
    const deadline = timeoutMs === undefined ? undefined : parts.timeout(timeoutMs);
    const signals = [signal, deadline].filter((one) => one !== undefined);
    const either = signals.length === 0 ? undefined : AbortSignal.any(signals);
    const subscription = this.#subscribe(filter, isAbout);
    try {
      await subscription.next(CONNECT_MS_MAX, either);
      for (let shown: string | null = null, polls = 0; ; polls++) {
        const record = await load({ signal: either });
        const version = `${record.state} ${record.updated_at}`;
        if (version !== shown) yield record;
        if (ends.has(record.state)) return;
        if (version !== shown) polls = 0;
        shown = version;
        await subscription.next(pollMs(polls, subscription.isConnected, parts.random()), either);
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (deadline?.aborted !== true) throw error;
      const detail = `not finished within ${timeoutMs} ms; it continues: wait again, or cancel it`;
      throw new CordumError({ code: "deadline_exceeded", title: "deadline exceeded", detail, cause: error });
    } finally {
      subscription.close();
    }
  }

  #subscribe(filter: StreamFilter, isAbout: (event: ClientEvent) => boolean): Subscription {
    const key = JSON.stringify(filter);
    let hub = this.#hubs.get(key);
    if (hub === undefined) {
      hub = new Hub(this.#transport, filter, () => this.#hubs.delete(key));
      this.#hubs.set(key, hub);
    }
    return new Subscription(this.#transport.parts, hub, isAbout);
  }
}

/** One connection for all subscriptions with the same filter; closed with the last. */
class Hub {
  isConnected = false;
  readonly #subscriptions = new Set<Subscription>();
  readonly #closing = new AbortController();
  readonly #onEmpty: () => void;

  constructor(transport: Transport, filter: StreamFilter, onEmpty: () => void) {
    this.#onEmpty = onEmpty;
    this.#read(transport, filter).catch(() => this.#publish({ event: "disconnected", error: null }));
  }

  add(subscription: Subscription): void {
    this.#subscriptions.add(subscription);
  }

  remove(subscription: Subscription): void {
    this.#subscriptions.delete(subscription);
    if (this.#subscriptions.size > 0) return;
    this.#closing.abort();
    this.#onEmpty();
  }

  async #read(transport: Transport, filter: StreamFilter): Promise<void> {
    for await (const event of eventStream(transport, filter, this.#closing.signal)) this.#publish(event);
  }

  #publish(event: ClientEvent): void {
    if (event.event === "connected") this.isConnected = true;
    if (event.event === "disconnected") this.isConnected = false;
    for (const subscription of this.#subscriptions) subscription.publish(event);
  }
}

/** Remembers one event that the subscriber has not waited for yet. */
class Subscription {
  readonly #parts: ClientParts;
  readonly #hub: Hub;
  readonly #isAbout: (event: ClientEvent) => boolean;
  #isPending: boolean;
  #wake = (): void => {};

  constructor(parts: ClientParts, hub: Hub, isAbout: (event: ClientEvent) => boolean) {
    this.#parts = parts;
    this.#hub = hub;
    this.#isAbout = isAbout;
    this.#isPending = hub.isConnected;
    hub.add(this);
  }

  get isConnected(): boolean {
    return this.#hub.isConnected;
  }

  publish(event: ClientEvent): void {
    if (event.event !== "connected" && event.event !== "disconnected" && !this.#isAbout(event)) return;
    this.#isPending = true;
    this.#wake();
  }

  close(): void {
    this.#hub.remove(this);
  }

  /** Resolves after the next event, or after the delay. */
  async next(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (!this.#isPending) {
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      const either = signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal]);
      await this.#parts.sleep(delayMs, either).catch(() => {});
    }
    this.#isPending = false;
    signal?.throwIfAborted();
  }
}

/** The latest change of each job. Drops what the list returns again, and events older than the list; bounded. */
class SeenStates {
  readonly #latest = new Map<string, JobEvent>();

  isNew(change: JobEvent): boolean {
    const key = `${change.tenant_id} ${change.job_id}`;
    const before = this.#latest.get(key);
    const isKnown = before?.at === change.at && before.state === change.state;
    if (before !== undefined && (isKnown || change.at < before.at)) return false;
    this.#latest.delete(key);
    this.#latest.set(key, change);
    const [oldest] = this.#latest.keys();
    if (this.#latest.size > SEEN_MAX && oldest !== undefined) this.#latest.delete(oldest);
    return true;
  }
}

function changeOf({ job_id, tenant_id, topic, state, updated_at, record_version }: Job): JobEvent {
  return { job_id, tenant_id, topic, state, at: updated_at, record_version };
}

function pollMs(polls: number, isConnected: boolean, random: number): number {
  const ceilingMs = isConnected ? CONNECTED_POLL_MS : Math.min(POLL_MS_MAX, POLL_MS * 2 ** polls);
  return (ceilingMs * (1 + random)) / 2;
}

const CONNECT_MS_MAX = 2_000;
const CONNECTED_POLL_MS = 30_000;
const POLL_MS = 500;
const POLL_MS_MAX = 5_000;
/** Clocks of the gateways of a cluster differ. */
const OVERLAP_MS = 5_000;
const CATCH_UP_PAGES_MAX = 500;
const SEEN_MAX = 100_000;
