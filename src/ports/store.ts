import type { CounterName, Placement, Table } from "../core/model/table.ts";
import type { Message } from "./bus.ts";

/**
 * Versioned records with one atomic write operation. The engine decides with pure functions that return a `Change`; a
 * store only checks versions, fences and guards, and writes.
 *
 * 1. `commit` is atomic, and durable when it resolves. After a rejection the outcome is unknown; a retry is safe because
 *    versions are checked.
 * 2. `commit` checks versions first, then fences, then the other guards: a replay is detected before a limit rejects it.
 * 3. Lists, queues, counters and due times are derived from the record by its table's `placement`. They change in the
 *    same commit as the record.
 * 4. `commit` writes `sends` to the outbox. The committer sends them after the commit, the sweeper sends the rest.
 * 5. Each filter has indexes of its own: `list` never filters a page. Cursors are positions in the immutable order
 *    (score, id): a page neither repeats nor skips entries while entries are added. Several indexes are read as one, if
 *    each record is in at most one of them with the same score; the cursor is valid for any of them.
 * 6. Adapters send the calls of one tick in one round trip: callers start many calls and await them together.
 */
export interface Store {
  load<T>(table: Table<T>, id: string): Promise<Versioned<T> | null>;

  commit(change: Change): Promise<Committed>;

  /** One page of an index, newest first by default. */
  list<T>(table: Table<T>, query: ListQuery): Promise<Page<T>>;

  /** The number of entries of an index within a range of scores. */
  count<T>(table: Table<T>, query: CountQuery): Promise<number>;

  /**
   * Claims the first entries of a queue, in order. They are hidden from every other `take` until `nowMs + leaseMs` or until
   * a commit moves them. They keep their position in the queue.
   */
  take<T>(table: Table<T>, query: TakeQuery): Promise<readonly Versioned<T>[]>;

  /** Releases the claims of entries that were taken and not used. */
  untake<T>(table: Table<T>, queue: string, ids: readonly string[]): Promise<void>;

  /**
   * Claims records that are due at or before `untilMs`, and not before `fromMs` if it is given, earliest first. They are
   * hidden from every other `due` until `nowMs + leaseMs` or until a commit changes their due time.
   */
  due(query: DueQuery): Promise<readonly Due[]>;

  /** The non-zero counters of a group. */
  counts(group: string, limit: number): Promise<ReadonlyMap<string, number>>;

  /**
   * Sets a counter to the total number of entries in `lists` of a table, atomically. Returns the old value minus the new
   * one. This is a consistency check: the result is 0 unless the counter had drifted.
   */
  recount(counter: CounterName, table: string, lists: readonly string[]): Promise<number>;

  /** Outbox messages committed at or before `untilMs` and not yet confirmed as sent, oldest first. */
  unsent(untilMs: number, limit: number): Promise<readonly Message[]>;
  sent(messageIds: readonly string[]): Promise<void>;

  /** The sum of a total's deltas over all commits. */
  total(name: string): Promise<number>;
}

export interface Versioned<T> {
  readonly id: string;
  /** 1 after the first write. */
  readonly version: number;
  readonly value: T;
}

export interface Change {
  /** All keys of a change belong to this org. */
  readonly org: string;
  readonly atMs: number;
  readonly puts: readonly Put[];
  readonly guards: readonly Guard[];
  readonly sends: readonly Message[];
  /** Counters whose values after the commit are returned as `seen`, in this order. */
  readonly watch: readonly CounterName[];
  /** Sums that are not derived from records, updated in the same commit. */
  readonly totals?: readonly Total[];
}

export interface Total {
  /** For example `scheduler:input_fail_open_total`. */
  readonly name: string;
  readonly delta: number;
}

export interface Put {
  readonly table: string;
  readonly id: string;
  /** `null` deletes the record. */
  readonly value: unknown;
  /** The value at version `expect`, if known. */
  readonly before?: unknown;
  /** The version that was loaded; 0: the record must not exist; `null`: only the fence is checked. */
  readonly expect: number | null;
  readonly from: Placement;
  readonly to: Placement;
}

export type Guard =
  /** The counter's value including this change is at most `max`. */
  | { readonly kind: "counter"; readonly counter: CounterName; readonly max: number }
  /** The record does not exist. */
  | { readonly kind: "absent"; readonly table: string; readonly id: string }
  /** The highest fence stored for the record is at most `fence`, which becomes the highest. */
  | { readonly kind: "fence"; readonly table: string; readonly id: string; readonly fence: number }
  /** The lock is not held and has no waiters (see `Locks.reserveFence`). */
  | { readonly kind: "free"; readonly lock: string };

export type Committed =
  | { readonly kind: "committed"; readonly seen: readonly number[] }
  /** A version did not match: load the record and decide again. */
  | { readonly kind: "stale"; readonly table: string; readonly id: string }
  /** `value`: the counter's value before this change; 0 for other guards. */
  | { readonly kind: "refused"; readonly guard: Guard; readonly value: number };

/** Both bounds are inclusive. The score of most lists is the creation time, so a range of it is an age. */
export interface ScoreRange {
  readonly scoreMin?: number | undefined;
  readonly scoreMax?: number | undefined;
}

export interface CountQuery extends ScoreRange {
  readonly index: Index;
  /** A store that counts entry by entry stops above it: the result is exact unless it is larger. */
  readonly max?: number;
}

/** A list, or the union of disjoint lists, at most `INDEXES_MAX`. */
export type Index = string | readonly string[];
export const INDEXES_MAX = 32;

export interface ListQuery extends ScoreRange {
  readonly index: Index;
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly order?: "newest" | "oldest";
}

export interface Page<T> {
  readonly items: readonly Versioned<T>[];
  readonly cursor: string | null;
}

export interface TakeQuery {
  readonly queue: string;
  readonly limit: number;
  readonly nowMs: number;
  readonly leaseMs: number;
}

export interface DueQuery {
  readonly nowMs: number;
  readonly fromMs?: number;
  readonly untilMs: number;
  readonly leaseMs: number;
  readonly limit: number;
}

export interface Due {
  readonly table: string;
  readonly id: string;
  readonly version: number;
  readonly dueMs: number;
  readonly value: unknown;
}

/** `before` is null for a new record, `after` is null for a deletion. */
export function put<T>(table: Table<T>, id: string, before: Versioned<T> | null, after: T | null): Put {
  return {
    table: table.name,
    id,
    value: after,
    before: before?.value ?? null,
    expect: before?.version ?? 0,
    from: before ? table.placement(before.value) : NOWHERE,
    to: after === null ? NOWHERE : table.placement(after),
  };
}

export const NOWHERE: Placement = { lists: [], queue: null, counters: [], dueMs: null };

/** The list and queue entries that a put removes and adds. */
export interface Moves {
  readonly listsRemoved: Placement["lists"];
  readonly listsAdded: Placement["lists"];
  readonly queueRemoved: Placement["queue"];
  readonly queueAdded: Placement["queue"];
}

export function movesOf(change: Put): Moves {
  const { from, to } = change;
  const stays = sameEntry(from.queue, to.queue);
  return {
    listsRemoved: notIn(to.lists, from.lists),
    listsAdded: notIn(from.lists, to.lists),
    queueRemoved: stays ? null : from.queue,
    queueAdded: stays ? null : to.queue,
  };
}

/** The net change of each counter over all puts, without zeros. */
export function deltasOf(puts: readonly Put[]): readonly { readonly counter: CounterName; readonly delta: number }[] {
  // Changes touch few counters: a linear scan is cheaper than a map with string keys.
  const deltas: { counter: CounterName; delta: number }[] = [];
  const add = (counter: CounterName, delta: number) => {
    for (const known of deltas) {
      if (known.counter.name !== counter.name || known.counter.group !== counter.group) continue;
      known.delta += delta;
      return;
    }
    deltas.push({ counter, delta });
  };
  for (const change of puts) {
    for (const counter of change.from.counters) add(counter, -(counter.by ?? 1));
    for (const counter of change.to.counters) add(counter, counter.by ?? 1);
  }
  return deltas.filter((entry) => entry.delta !== 0);
}

/** `entries` without those in `others`. */
function notIn(others: Placement["lists"], entries: Placement["lists"]): Placement["lists"] {
  if (others.length === 0 || entries.length === 0) return entries;
  if (others.length > SCANNED_MAX) {
    const known = new Set(others.map(({ name, score }) => `${score} ${name}`));
    return entries.filter(({ name, score }) => !known.has(`${score} ${name}`));
  }
  return entries.filter((entry) => !others.some((other) => sameEntry(entry, other)));
}

const SCANNED_MAX = 32;

function sameEntry(a: { name: string; score: number } | null, b: { name: string; score: number } | null): boolean {
  return a === b || (a !== null && b !== null && a.name === b.name && a.score === b.score);
}

export function indexesOf(index: Index): readonly string[] {
  if (typeof index === "string") return [index];
  if (index.length > INDEXES_MAX) throw new Error(`a query of ${index.length} lists; the limit is ${INDEXES_MAX}`);
  return index;
}

/** For a cursor that `list` did not return. */
export function invalidCursor(cursor: string): Error {
  const message = `invalid cursor \`${cursor.slice(0, 100)}\`: pass the cursor of the previous page, or omit it`;
  return Object.assign(new RangeError(message), { code: INVALID_CURSOR });
}
export const INVALID_CURSOR = "INVALID_CURSOR";
