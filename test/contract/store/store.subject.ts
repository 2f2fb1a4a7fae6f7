import type { Count, CounterName, Entry, Table } from "../../../src/core/model/table.ts";
import type { Message } from "../../../src/ports/bus.ts";
import type { Locks } from "../../../src/ports/locks.ts";
import type { Change, Committed, Guard, ListQuery, Put, Store, Total, Versioned } from "../../../src/ports/store.ts";
import { put } from "../../../src/ports/store.ts";

/** The interface between the store contract and an adapter's test harness, and helpers of the cases. */
export interface StoreSubject {
  readonly store: Store;
  /** Drives the subject until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
  /** Closes and reopens the store on the same data; absent if not possible. */
  reopen?(): Promise<Store>;
  /** Another process with locks, for the guard `free`; absent if the adapter has no lock-free commits. */
  peer?(): Promise<Peer>;
  close(): Promise<void>;
}

export interface Peer {
  readonly locks: Locks;
  /** Crashes the process: its locks stay held until they expire. */
  crash(): Promise<void>;
}

export type StoreCase = (title: string, body: (kit: StoreKit) => Promise<void>) => void;

/** A record that contains its placement. */
export interface Doc {
  readonly text: string;
  readonly lists?: readonly Entry[];
  readonly queue?: Entry | null;
  readonly counters?: readonly Count[];
  readonly dueMs?: number | null;
}

export const DOCS: Table<Doc> = tableOf("doc");
export const NOTES: Table<Doc> = tableOf("note");

function tableOf(name: string): Table<Doc> {
  return {
    name,
    placement: (doc) => ({
      lists: doc.lists ?? [],
      queue: doc.queue ?? null,
      counters: doc.counters ?? [],
      dueMs: doc.dueMs ?? null,
    }),
  };
}

export interface ChangeParts {
  readonly guards?: readonly Guard[];
  readonly sends?: readonly Message[];
  readonly watch?: readonly CounterName[];
  readonly totals?: readonly Total[];
  readonly atMs?: number;
}

export const T0 = 1_700_000_000_000;
export const ORG = "default";

export const changeOf = (puts: readonly Put[], parts: ChangeParts = {}): Change => ({
  org: ORG,
  atMs: T0,
  guards: [],
  sends: [],
  watch: [],
  ...parts,
  puts,
});

export const counter = (name: string, group = "slots"): CounterName => ({ group, name });
export const at = (name: string, score: number): Entry => ({ name, score });
export const message = (id: string): Message => ({
  id,
  subject: "sys.job.submit",
  packet: {
    traceId: `trace-${id}`,
    senderId: "contract",
    createdAtMs: T0,
    body: { kind: "job_request", jobId: id, topic: "echo", input: { text: "héllo", list: [1, null, true] } },
  },
});

/** Shortcuts for the cases; everything is awaited through the subject. */
export class StoreKit {
  readonly subject: StoreSubject;
  store: Store;

  readonly skip: (reason: string) => void;

  constructor(subject: StoreSubject, skip: (reason: string) => void = () => {}) {
    this.subject = subject;
    this.skip = skip;
    this.store = subject.store;
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.subject.run(promise);
  }

  commit(puts: readonly Put[], parts: ChangeParts = {}): Promise<Committed> {
    return this.run(this.store.commit(changeOf(puts, parts)));
  }

  /** Starts all commits in one tick. */
  commitTogether(changes: readonly Change[]): Promise<readonly Committed[]> {
    return this.run(Promise.all(changes.map((change) => this.store.commit(change))));
  }

  load(id: string, table = DOCS): Promise<Versioned<Doc> | null> {
    return this.run(this.store.load(table, id));
  }

  /** Writes a record at its current version. */
  async set(id: string, doc: Doc | null, parts: ChangeParts = {}, table = DOCS): Promise<Committed> {
    return this.commit([put(table, id, await this.load(id, table), doc)], parts);
  }

  async create(docs: Readonly<Record<string, Doc>>, table = DOCS): Promise<void> {
    const puts = Object.entries(docs).map(([id, doc]) => put(table, id, null, doc));
    for (let from = 0; from < puts.length; from += 250) await this.commit(puts.slice(from, from + 250));
  }

  async take(queue: string, limit: number, nowMs = T0, leaseMs = 1_000, table = DOCS): Promise<string[]> {
    const taken = await this.run(this.store.take(table, { queue, limit, nowMs, leaseMs }));
    return taken.map(({ id }) => id);
  }

  async due(untilMs: number, limit = 100, nowMs = untilMs, leaseMs = 1_000): Promise<string[]> {
    const due = await this.run(this.store.due({ nowMs, untilMs, leaseMs, limit }));
    return due.map(({ id }) => id);
  }

  async counts(group = "slots", limit = 1_000): Promise<Record<string, number>> {
    return Object.fromEntries(await this.run(this.store.counts(group, limit)));
  }

  async unsent(untilMs: number, limit = 100): Promise<string[]> {
    return (await this.run(this.store.unsent(untilMs, limit))).map(({ id }) => id);
  }

  /** All pages of a list; `between` runs after each page. */
  async pages(query: Omit<ListQuery, "cursor">, between?: (page: number) => Promise<void>): Promise<string[][]> {
    const pages: string[][] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await this.run(this.store.list(DOCS, { ...query, cursor }));
      pages.push(page.items.map(({ id }) => id));
      if (page.cursor === null) return pages;
      cursor = page.cursor;
      await between?.(pages.length);
    }
  }
}

export const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}-${String(index).padStart(5, "0")}`);
