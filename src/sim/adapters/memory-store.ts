import type { CounterName, Entry, Table } from "../../core/model/table.ts";
import type { Message } from "../../ports/bus.ts";
import { applyPatch, diff, type Patch } from "../../ports/record-patch.ts";
import type {
  Change,
  Committed,
  CountQuery,
  Due,
  DueQuery,
  Guard,
  ListQuery,
  Page,
  Put,
  TakeQuery,
  Versioned,
} from "../../ports/store.ts";
import { deltasOf, indexesOf, invalidCursor, movesOf } from "../../ports/store.ts";
import { merged, Sorted } from "./sorted.ts";

/**
 * The server of the simulated store: the semantics of the Store port, synchronous and in memory.
 *
 * Values are stored without a copy, because the core treats them as readonly; `verifiesWrites` enforces it. Observers see
 * every commit in write order with the previous records; the checkers are built on them.
 */
export class MemoryStore {
  readonly #tables = new Map<string, TableData>();
  readonly #due = new Sorted();
  readonly #counters = new Map<string, Map<string, number>>();
  readonly #turns = new Map<string, number>();
  readonly #outbox = new Map<string, { readonly atMs: number; readonly message: Message }>();
  readonly #totals = new Map<string, number>();
  readonly #observers: CommitObserver[] = [];
  readonly #verifiesWrites: boolean;
  readonly #isFree: (lock: string) => boolean;

  constructor(options: { readonly verifiesWrites?: boolean; readonly isFree?: (lock: string) => boolean } = {}) {
    this.#verifiesWrites = options.verifiesWrites ?? false;
    this.#isFree = options.isFree ?? (() => false);
  }

  observe(observer: CommitObserver): void {
    this.#observers.push(observer);
  }

  observeTable<T>(table: Table<T>, onWrite: (write: TableWrite<T>) => void): void {
    this.observe((change, before) => {
      for (const [index, { table: name, id, value }] of change.puts.entries()) {
        if (name !== table.name) continue;
        onWrite({ change, id, before: (before[index]?.value ?? null) as T | null, after: value as T | null });
      }
    });
  }

  /** Copies all records of another store without its claims. Later writes to either store do not affect the other. */
  copyFrom(other: MemoryStore): void {
    for (const [name, { rows, fences, lists, queues }] of other.#tables) {
      const data = { rows: new Map(rows), fences: new Map(fences), lists: copied(lists), queues: copied(queues) };
      this.#tables.set(name, data);
    }
    for (const { score, id } of other.#due) this.#due.add(score, id);
    for (const [group, counters] of other.#counters) this.#counters.set(group, new Map(counters));
    for (const [id, sending] of other.#outbox) this.#outbox.set(id, sending);
    for (const [name, total] of other.#totals) this.#totals.set(name, total);
  }

  load<T>(table: Table<T>, id: string): Versioned<T> | null {
    return recordOf<T>(this.#table(table.name), id) ?? null;
  }

  commit(change: Change): Committed {
    for (const { table, id, expect } of change.puts) {
      if (expect !== null && (this.#table(table).rows.get(id)?.record.version ?? 0) !== expect)
        return { kind: "stale", table, id };
    }
    for (const guard of change.guards) {
      if (guard.kind === "fence" && !this.#passes(guard)) return { kind: "refused", guard, value: 0 };
    }
    const deltas = deltasOf(change.puts);
    for (const guard of change.guards) {
      if (guard.kind === "counter") {
        const { group, name } = guard.counter;
        const delta = deltas.find(({ counter }) => counter.group === group && counter.name === name)?.delta ?? 0;
        const value = this.count(group, name);
        if (value + delta > guard.max) return { kind: "refused", guard, value };
      } else if (guard.kind !== "fence" && !this.#passes(guard)) {
        return { kind: "refused", guard, value: 0 };
      }
    }
    for (const guard of change.guards) {
      if (guard.kind === "fence") this.#table(guard.table).fences.set(guard.id, guard.fence);
    }
    const before = change.puts.map((put) => this.#write(put));
    for (const { counter, delta } of deltas) this.#addTo(counter.group, counter.name, delta);
    for (const message of change.sends) this.#outbox.set(message.id, { atMs: change.atMs, message });
    for (const { name, delta } of change.totals ?? []) this.#totals.set(name, this.total(name) + delta);
    for (const observer of this.#observers) observer(change, before);
    return { kind: "committed", seen: change.watch.map(({ group, name }) => this.count(group, name)) };
  }

  total(name: string): number {
    return this.#totals.get(name) ?? 0;
  }

  list<T>(table: Table<T>, query: ListQuery): Page<T> {
    const data = this.#table(table.name);
    const { order = "newest", limit } = query;
    const pages = indexesOf(query.index).map(
      (index) => data.lists.get(index)?.page(order, readCursor(query.cursor), limit + 1, query) ?? [],
    );
    const [only, ...others] = pages;
    const places = others.length === 0 ? (only ?? []) : merged(pages.flat(), order);
    const shown = places.slice(0, query.limit);
    const last = shown.at(-1);
    return {
      items: shown.flatMap(({ id }) => recordOf<T>(data, id) ?? []),
      cursor: last !== undefined && places.length > query.limit ? `${last.score}/${last.id}` : null,
    };
  }

  countIn<T>(table: Table<T>, query: CountQuery): number {
    const { lists } = this.#table(table.name);
    const sizes = indexesOf(query.index).map(
      (index) => lists.get(index)?.page("oldest", null, Number.MAX_SAFE_INTEGER, query).length ?? 0,
    );
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  take<T>(table: Table<T>, { queue, limit, nowMs, leaseMs }: TakeQuery): readonly Versioned<T>[] {
    const data = this.#table(table.name);
    const entries = data.queues.get(queue)?.claim(Number.POSITIVE_INFINITY, limit, nowMs, nowMs + leaseMs) ?? [];
    return entries.flatMap(({ id }) => recordOf<T>(data, id) ?? []);
  }

  untake<T>(table: Table<T>, queue: string, ids: readonly string[]): void {
    this.#table(table.name).queues.get(queue)?.show(ids);
  }

  due({ nowMs, fromMs, untilMs, leaseMs, limit }: DueQuery): readonly Due[] {
    return this.#due.claim(untilMs, limit, nowMs, nowMs + leaseMs, fromMs).flatMap(({ score, id: key }) => {
      const cut = key.indexOf("\n");
      const table = key.slice(0, cut);
      const record = recordOf(this.#table(table), key.slice(cut + 1));
      return record === undefined ? [] : { table, dueMs: score, ...record };
    });
  }

  /** The earliest due time of a record; null if none is due at any time. */
  get nextDueMs(): number | null {
    for (const { score } of this.#due) return score;
    return null;
  }

  counts(group: string, limit: number): ReadonlyMap<string, number> {
    const counters = this.#counters.get(group);
    if (counters === undefined || counters.size <= limit) return new Map(counters);
    // Rotates through the counters, so that repeated calls with a small limit see all of them.
    const from = (this.#turns.get(group) ?? 0) % counters.size;
    this.#turns.set(group, from + limit);
    const all = [...counters];
    return new Map([...all.slice(from), ...all.slice(0, from)].slice(0, limit));
  }

  recount({ group, name }: CounterName, table: string, lists: readonly string[]): number {
    const data = this.#table(table);
    const actual = lists.reduce((sum, list) => sum + (data.lists.get(list)?.size ?? 0), 0);
    const off = this.count(group, name) - actual;
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

  /** Whether the queue has an entry without a claim. */
  hasVisible(table: string, queue: string, nowMs: number): boolean {
    for (const { hiddenUntilMs } of this.#table(table).queues.get(queue) ?? []) if (hiddenUntilMs <= nowMs) return true;
    return false;
  }

  count(group: string, name: string): number {
    return this.#counters.get(group)?.get(name) ?? 0;
  }

  fenceOf(table: string, id: string): number {
    return this.#table(table).fences.get(id) ?? 0;
  }

  *rows<T>(table: Table<T>): Generator<Versioned<T>, void, undefined> {
    for (const { record } of this.#table(table.name).rows.values()) yield record as Versioned<T>;
  }

  *allCounts(): Generator<{ readonly group: string; readonly name: string; readonly count: number }, void, undefined> {
    for (const [group, counters] of this.#counters) {
      for (const [name, count] of counters) yield { group, name, count };
    }
  }

  /** The entries of the lists or queues of a table. */
  *entries(table: string, kind: "lists" | "queues"): Generator<{ readonly name: string; readonly id: string }> {
    for (const [name, sorted] of this.#table(table)[kind]) {
      for (const { id } of sorted) yield { name, id };
    }
  }

  #passes(guard: Guard): boolean {
    if (guard.kind === "absent") return !this.#table(guard.table).rows.has(guard.id);
    if (guard.kind === "fence") return this.fenceOf(guard.table, guard.id) <= guard.fence;
    if (guard.kind === "free") return this.#isFree(guard.lock);
    return true;
  }

  #write(put: Put): Versioned<unknown> | null {
    const data = this.#table(put.table);
    const before = data.rows.get(put.id) ?? null;
    if (put.value === null) data.rows.delete(put.id);
    else {
      const value = this.#verifiesWrites ? verifiedValue(put, before?.record.value) : put.value;
      const record = { id: put.id, version: (before?.record.version ?? 0) + 1, value };
      data.rows.set(put.id, { record, dueMs: put.to.dueMs });
    }
    const { listsRemoved, listsAdded, queueRemoved, queueAdded } = movesOf(put);
    for (const entry of listsRemoved) removeFrom(data.lists, entry, put.id);
    for (const entry of listsAdded) addTo(data.lists, entry, put.id);
    if (queueRemoved !== null) removeFrom(data.queues, queueRemoved, put.id);
    if (queueAdded !== null) addTo(data.queues, queueAdded, put.id);
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

  #table(table: string): TableData {
    let data = this.#tables.get(table);
    if (data === undefined) {
      data = { rows: new Map(), fences: new Map(), lists: new Map(), queues: new Map() };
      this.#tables.set(table, data);
    }
    return data;
  }
}

/** Called after each commit; `before` has the previous record of each put. */
export type CommitObserver = (change: Change, before: readonly (Versioned<unknown> | null)[]) => void;

export interface TableWrite<T> {
  readonly change: Change;
  readonly id: string;
  readonly before: T | null;
  /** Null when the record is deleted. */
  readonly after: T | null;
}

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

function recordOf<T>(data: TableData, id: string): Versioned<T> | undefined {
  return data.rows.get(id)?.record as Versioned<T> | undefined;
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

/**
 * Checks a written value and returns it deeply frozen. The value must be JSON, and the patch from the put's `before` must
 * produce it from the stored value: a store that writes patches ends up with the same record.
 */
function verifiedValue({ table, id, value, before, expect }: Put, stored: unknown): unknown {
  const json = JSON.stringify(value);
  const patch = expect === null ? null : diff(before, value);
  if (patch !== null) {
    const result = applyPatch(JSON.parse(JSON.stringify(stored)), JSON.parse(JSON.stringify(patch)) as Patch);
    if (JSON.stringify(result) !== json && sortedJson(result) !== sortedJson(JSON.parse(json))) {
      throw new Error(`${table} \`${id}\`: the put is not based on version ${expect}`);
    }
  }
  return deepFreeze(value);
}

/** JSON with sorted keys. */
function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

function deepFreeze(value: unknown): unknown {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value) && !ArrayBuffer.isView(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

function readCursor(cursor: string | undefined): { score: number; id: string } | null {
  if (cursor === undefined) return null;
  const [, score, id] = /^(\d+)\/(.*)$/s.exec(cursor) ?? [];
  if (score === undefined || id === undefined) throw invalidCursor(cursor);
  return { score: Number(score), id };
}
