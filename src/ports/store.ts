import type { CounterName, Placement, Table } from "../core/model/table.ts";
import type { Message } from "./bus.ts";

/**
 * Versioned records with one atomic write.
 *
 * The rules exist once, in the core, as pure functions that end in a `Change`. A store checks versions, guards and
 * fences, and writes: so every backend is small, and none can disagree with another about the rules.
 *
 * 1. `commit` is all or nothing, and durable when it resolves. A rejection means "not known": the change may have been
 *    written; versions make trying again harmless.
 * 2. Versions are checked first, then fences, then guards: a replay is recognised before a limit refuses it.
 * 3. Index entries, queue places, counters and deadlines follow from the record by its table's `placement`; they change
 *    in the same commit as the record and cannot leak.
 * 4. `sends` go into the outbox in the same commit. What is committed is sent: at once by the committer, else by the
 *    sweeper.
 * 5. Filters are answered by an index of their own, never by leaving items out of a page. Cursors stand on immutable
 *    (score, id): a page neither repeats nor skips while items are added.
 * 6. Calls of one tick travel together: one round trip, one transaction. Callers start many calls and await them
 *    together; each gets its own answer.
 */
export interface Store {
  load<T>(table: Table<T>, id: string): Promise<Versioned<T> | null>;

  commit(change: Change): Promise<Committed>;

  /** One page of an index, newest first unless asked otherwise. */
  list<T>(table: Table<T>, query: ListQuery): Promise<Page<T>>;

  /**
   * The heads of a queue, in order, hidden from everybody else's `take` until `nowMs + leaseMs` or until a commit moves
   * them. Their place in the queue is kept.
   */
  take<T>(table: Table<T>, query: TakeQuery): Promise<readonly Versioned<T>[]>;

  /** Shows heads that were taken, and could not be used, to everybody again. */
  untake<T>(table: Table<T>, queue: string, ids: readonly string[]): Promise<void>;

  /**
   * Records whose time is at or before `untilMs`, earliest first, hidden from everybody else's `due` until
   * `nowMs + leaseMs` or until a commit gives them a new time.
   */
  due(query: DueQuery): Promise<readonly Due[]>;

  /** The non-zero counters of a group. */
  counts(group: string, limit: number): Promise<ReadonlyMap<string, number>>;

  /**
   * Sets a counter to the number of entries that these lists of a table have together, in one atomic step, and tells by
   * how much it had been too high (negative: too low). 0 unless something went wrong: counters follow from the records.
   */
  recount(counter: CounterName, table: string, lists: readonly string[]): Promise<number>;

  /** Messages committed at or before `untilMs` and not yet confirmed as sent, oldest first. */
  unsent(untilMs: number, limit: number): Promise<readonly Message[]>;
  sent(messageIds: readonly string[]): Promise<void>;

  /** A total that was added up by commits; 0 when nothing was added. */
  total(name: string): Promise<number>;
}

export interface Versioned<T> {
  readonly id: string;
  /** 1 after the first write. */
  readonly version: number;
  readonly value: T;
}

export interface Change {
  /** The keys of one change belong to one org. */
  readonly org: string;
  readonly atMs: number;
  readonly puts: readonly Put[];
  readonly guards: readonly Guard[];
  readonly sends: readonly Message[];
  /** Counters whose value after the commit the caller wants to know, answered in this order as `seen`. */
  readonly watch: readonly CounterName[];
  /** Added up in the same commit: figures that follow from no record and outlive all of them. */
  readonly totals?: readonly Total[];
}

export interface Total {
  /** Such as `scheduler:input_fail_open_total`. */
  readonly name: string;
  readonly delta: number;
}

export interface Put {
  readonly table: string;
  readonly id: string;
  /** null removes the record. */
  readonly value: unknown;
  /** What stands there at the version `expect`, where that is known. */
  readonly before?: unknown;
  /** The version the decision was based on; 0 when it must not exist; `null` when only the fence guards it. */
  readonly expect: number | null;
  readonly from: Placement;
  readonly to: Placement;
}

export type Guard =
  /** The counter's value after this change's own moves is at most `max`. */
  | { readonly kind: "counter"; readonly counter: CounterName; readonly max: number }
  /** No such record exists. */
  | { readonly kind: "absent"; readonly table: string; readonly id: string }
  /** The largest fence seen on this record is at most `fence`, which becomes the largest. */
  | { readonly kind: "fence"; readonly table: string; readonly id: string; readonly fence: number }
  /** Nobody holds this lock, and nobody waits for it (see `Locks.moment`). */
  | { readonly kind: "free"; readonly lock: string };

export type Committed =
  | { readonly kind: "committed"; readonly seen: readonly number[] }
  /** A version was not the expected one: load and decide again. */
  | { readonly kind: "stale"; readonly table: string; readonly id: string }
  /** `value`: what a counter guard found, without this change's own moves; 0 for the other guards. */
  | { readonly kind: "refused"; readonly guard: Guard; readonly value: number };

export interface ListQuery {
  readonly index: string;
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

/** Builds a put from what was loaded (or null for a new record) and what should be true now (or null to remove it). */
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

/** What a put does to indexes, queues and counters: computed here once, applied by every store. */
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

/** The sum of what all puts do to each counter; counters that do not change are left out. */
export function deltasOf(puts: readonly Put[]): readonly { readonly counter: CounterName; readonly delta: number }[] {
  // Many puts of one change share a few counters: looking through these costs less than a key for each.
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
    for (const counter of change.from.counters) add(counter, -1);
    for (const counter of change.to.counters) add(counter, 1);
  }
  return deltas.filter((entry) => entry.delta !== 0);
}

/** Those of `entries` that are not in `others`. */
function notIn(others: Placement["lists"], entries: Placement["lists"]): Placement["lists"] {
  if (others.length === 0 || entries.length === 0) return entries;
  return entries.filter((entry) => !others.some((other) => sameEntry(entry, other)));
}

function sameEntry(a: { name: string; score: number } | null, b: { name: string; score: number } | null): boolean {
  return a === b || (a !== null && b !== null && a.name === b.name && a.score === b.score);
}
