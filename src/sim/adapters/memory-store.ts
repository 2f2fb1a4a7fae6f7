import type { CounterName, Entry, Table } from "../../core/model/table.ts";
import type { Message } from "../../ports/bus.ts";
import type {
  Change,
  Committed,
  Due,
  DueQuery,
  Guard,
  ListQuery,
  Page,
  Put,
  TakeQuery,
  Versioned,
} from "../../ports/store.ts";
import { deltasOf, movesOf } from "../../ports/store.ts";
import { asWritten } from "./as-written.ts";
import { Sorted } from "./sorted.ts";

/**
 * The store as one server: the Store port's semantics, exactly, at once, in memory.
 *
 * Values are kept as they are handed in, never copied: the core treats them as readonly. `isFreezing` makes sure of it
 * (see `as-written.ts`).
 * Taps see every commit in the order of the writes, with what stood there before: the checkers live on that.
 */
export class MemoryStore {
  readonly #shelves = new Map<string, TableData>();
  readonly #due = new Sorted();
  readonly #counters = new Map<string, Map<string, number>>();
  readonly #turns = new Map<string, number>();
  readonly #outbox = new Map<string, { readonly atMs: number; readonly message: Message }>();
  readonly #totals = new Map<string, number>();
  readonly #taps: CommitObserver[] = [];
  readonly #isFreezing: boolean;
  readonly #isFree: (lock: string) => boolean;

  constructor(options: { readonly isFreezing?: boolean; readonly isFree?: (lock: string) => boolean } = {}) {
    this.#isFreezing = options.isFreezing ?? false;
    this.#isFree = options.isFree ?? (() => false);
  }

  observe(tap: CommitObserver): void {
    this.#taps.push(tap);
  }

  /** Everything that stands in another one, as if nobody had claimed any of it; what either writes later is its own. */
  copyFrom(other: MemoryStore): void {
    for (const [name, { rows, fences, lists, queues }] of other.#shelves) {
      const diskQueue = { rows: new Map(rows), fences: new Map(fences), lists: copied(lists), queues: copied(queues) };
      this.#shelves.set(name, diskQueue);
    }
    for (const { score, id } of other.#due) this.#due.add(score, id);
    for (const [group, counters] of other.#counters) this.#counters.set(group, new Map(counters));
    for (const [id, sending] of other.#outbox) this.#outbox.set(id, sending);
    for (const [name, total] of other.#totals) this.#totals.set(name, total);
  }

  load<T>(table: Table<T>, id: string): Versioned<T> | null {
    return recordOf<T>(this.#shelf(table.name), id) ?? null;
  }

  commit(change: Change): Committed {
    for (const { table, id, expect } of change.puts) {
      if (expect !== null && (this.#shelf(table).rows.get(id)?.record.version ?? 0) !== expect)
        return { kind: "stale", table, id };
    }
    for (const guard of change.guards) {
      if (guard.kind === "fence" && !this.#passes(guard)) return { kind: "refused", guard, value: 0 };
    }
    const deltas = deltasOf(change.puts);
    for (const guard of change.guards) {
      if (guard.kind === "counter") {
        const { group, name } = guard.counter;
        const own = deltas.find(({ counter }) => counter.group === group && counter.name === name)?.delta ?? 0;
        const value = this.count(group, name);
        if (value + own > guard.max) return { kind: "refused", guard, value };
      } else if (guard.kind !== "fence" && !this.#passes(guard)) {
        return { kind: "refused", guard, value: 0 };
      }
    }
    for (const guard of change.guards) {
      if (guard.kind === "fence") this.#shelf(guard.table).fences.set(guard.id, guard.fence);
    }
    const before = change.puts.map((put) => this.#write(put));
    for (const { counter, delta } of deltas) this.#addTo(counter.group, counter.name, delta);
    for (const message of change.sends) this.#outbox.set(message.id, { atMs: change.atMs, message });
    for (const { name, delta } of change.totals ?? []) this.#totals.set(name, this.total(name) + delta);
    for (const tap of this.#taps) tap(change, before);
    return { kind: "committed", seen: change.watch.map(({ group, name }) => this.count(group, name)) };
  }

  total(name: string): number {
    return this.#totals.get(name) ?? 0;
  }

  list<T>(table: Table<T>, query: ListQuery): Page<T> {
    const diskQueue = this.#shelf(table.name);
    const places =
      diskQueue.lists.get(query.index)?.page(query.order ?? "newest", readCursor(query.cursor), query.limit + 1) ?? [];
    const shown = places.slice(0, query.limit);
    const last = shown.at(-1);
    return {
      items: shown.flatMap(({ id }) => recordOf<T>(diskQueue, id) ?? []),
      cursor: last !== undefined && places.length > query.limit ? `${last.score}/${last.id}` : null,
    };
  }

  take<T>(table: Table<T>, { queue, limit, nowMs, leaseMs }: TakeQuery): readonly Versioned<T>[] {
    const diskQueue = this.#shelf(table.name);
    const heads = diskQueue.queues.get(queue)?.claim(Number.POSITIVE_INFINITY, limit, nowMs, nowMs + leaseMs) ?? [];
    return heads.flatMap(({ id }) => recordOf<T>(diskQueue, id) ?? []);
  }

  untake<T>(table: Table<T>, queue: string, ids: readonly string[]): void {
    this.#shelf(table.name).queues.get(queue)?.show(ids);
  }

  due({ nowMs, untilMs, leaseMs, limit }: DueQuery): readonly Due[] {
    return this.#due.claim(untilMs, limit, nowMs, nowMs + leaseMs).flatMap(({ score, id: key }) => {
      const cut = key.indexOf("\n");
      const table = key.slice(0, cut);
      const record = recordOf(this.#shelf(table), key.slice(cut + 1));
      return record === undefined ? [] : { table, dueMs: score, ...record };
    });
  }

  counts(group: string, limit: number): ReadonlyMap<string, number> {
    const counters = this.#counters.get(group);
    if (counters === undefined || counters.size <= limit) return new Map(counters);
    // More than were asked for: the next call goes on behind these, so that none is left out for ever.
    const from = (this.#turns.get(group) ?? 0) % counters.size;
    this.#turns.set(group, from + limit);
    const all = [...counters];
    return new Map([...all.slice(from), ...all.slice(0, from)].slice(0, limit));
  }

  recount({ group, name }: CounterName, table: string, lists: readonly string[]): number {
    const diskQueue = this.#shelf(table);
    const right = lists.reduce((sum, list) => sum + (diskQueue.lists.get(list)?.size ?? 0), 0);
    const off = this.count(group, name) - right;
    if (off !== 0) this.#addTo(group, name, -off);
    return off;
  }

  unsent(untilMs: number, limit: number): readonly Message[] {
    const old = [...this.#outbox.values()].filter(({ atMs }) => atMs <= untilMs);
    return old
      .sort((a, b) => a.atMs - b.atMs)
      .slice(0, limit)
      .map(({ message }) => message);
  }

  sent(messageIds: readonly string[]): void {
    for (const id of messageIds) this.#outbox.delete(id);
  }

  /** Whether anybody who asks at this time would get something from the queue. */
  hasVisible(table: string, queue: string, nowMs: number): boolean {
    for (const { hiddenUntilMs } of this.#shelf(table).queues.get(queue) ?? []) if (hiddenUntilMs <= nowMs) return true;
    return false;
  }

  count(group: string, name: string): number {
    return this.#counters.get(group)?.get(name) ?? 0;
  }

  /** The largest fence that was written with this record. */
  fenceOf(table: string, id: string): number {
    return this.#shelf(table).fences.get(id) ?? 0;
  }

  *rows<T>(table: Table<T>): Generator<Versioned<T>, void, undefined> {
    for (const { record } of this.#shelf(table.name).rows.values()) yield record as Versioned<T>;
  }

  *allCounts(): Generator<{ readonly group: string; readonly name: string; readonly count: number }, void, undefined> {
    for (const [group, counters] of this.#counters) {
      for (const [name, count] of counters) yield { group, name, count };
    }
  }

  /** The ids that a list or a queue of a table names. */
  *entries(table: string, kind: "lists" | "queues"): Generator<{ readonly name: string; readonly id: string }> {
    for (const [name, sorted] of this.#shelf(table)[kind]) {
      for (const { id } of sorted) yield { name, id };
    }
  }

  #passes(guard: Guard): boolean {
    if (guard.kind === "absent") return !this.#shelf(guard.table).rows.has(guard.id);
    if (guard.kind === "fence") return this.fenceOf(guard.table, guard.id) <= guard.fence;
    if (guard.kind === "free") return this.#isFree(guard.lock);
    return true;
  }

  #write(put: Put): Versioned<unknown> | null {
    const diskQueue = this.#shelf(put.table);
    const before = diskQueue.rows.get(put.id) ?? null;
    if (put.value === null) diskQueue.rows.delete(put.id);
    else {
      const value = this.#isFreezing ? asWritten(put, before?.record.value) : put.value;
      const record = { id: put.id, version: (before?.record.version ?? 0) + 1, value };
      diskQueue.rows.set(put.id, { record, dueMs: put.to.dueMs });
    }
    const { listsRemoved, listsAdded, queueRemoved, queueAdded } = movesOf(put);
    for (const entry of listsRemoved) removeFrom(diskQueue.lists, entry, put.id);
    for (const entry of listsAdded) addTo(diskQueue.lists, entry, put.id);
    if (queueRemoved !== null) removeFrom(diskQueue.queues, queueRemoved, put.id);
    if (queueAdded !== null) addTo(diskQueue.queues, queueAdded, put.id);
    const dueMs = put.value === null ? null : put.to.dueMs;
    const dueMsBefore = before?.dueMs ?? null;
    if (dueMs !== dueMsBefore) {
      const key = `${put.table}\n${put.id}`;
      if (dueMsBefore !== null) this.#due.remove(dueMsBefore, key);
      if (dueMs !== null) this.#due.add(dueMs, key);
    }
    return before?.record ?? null;
  }

  #addTo(group: string, name: string, delta: number): void {
    let counters = this.#counters.get(group);
    if (counters === undefined) {
      counters = new Map();
      this.#counters.set(group, counters);
    }
    const count = (counters.get(name) ?? 0) + delta;
    if (count === 0) counters.delete(name);
    else counters.set(name, count);
  }

  #shelf(table: string): TableData {
    let diskQueue = this.#shelves.get(table);
    if (diskQueue === undefined) {
      diskQueue = { rows: new Map(), fences: new Map(), lists: new Map(), queues: new Map() };
      this.#shelves.set(table, diskQueue);
    }
    return diskQueue;
  }
}

/** Called after each commit; `before` is what stood where each put wrote. */
export type CommitObserver = (change: Change, before: readonly (Versioned<unknown> | null)[]) => void;

interface Row {
  readonly record: Versioned<unknown>;
  readonly dueMs: number | null;
}

interface TableData {
  readonly rows: Map<string, Row>;
  readonly fences: Map<string, number>;
  readonly lists: Map<string, Sorted>;
  readonly queues: Map<string, Sorted>;
}

function recordOf<T>(diskQueue: TableData, id: string): Versioned<T> | undefined {
  return diskQueue.rows.get(id)?.record as Versioned<T> | undefined;
}

function addTo(sets: Map<string, Sorted>, entry: Entry, id: string): void {
  let sorted = sets.get(entry.name);
  if (sorted === undefined) {
    sorted = new Sorted();
    sets.set(entry.name, sorted);
  }
  sorted.add(entry.score, id);
}

function removeFrom(sets: Map<string, Sorted>, entry: Entry, id: string): void {
  const sorted = sets.get(entry.name);
  sorted?.remove(entry.score, id);
  if (sorted?.size === 0) sets.delete(entry.name);
}

function copied(sets: ReadonlyMap<string, Sorted>): Map<string, Sorted> {
  return new Map(
    Array.from(sets, ([name, from]): [string, Sorted] => {
      const sorted = new Sorted();
      for (const { score, id } of from) sorted.add(score, id);
      return [name, sorted];
    }),
  );
}

function readCursor(cursor: string | undefined): { score: number; id: string } | null {
  if (cursor === undefined) return null;
  const [, score, id] = /^(\d+)\/(.*)$/s.exec(cursor) ?? [];
  if (score === undefined || id === undefined)
    throw new Error(`\`${cursor}\` is no cursor of a list: begin without one`);
  return { score: Number(score), id };
}
