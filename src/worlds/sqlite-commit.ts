import type { Guard } from "../ports/store.ts";
import type { Database, Statement } from "./sqlite.ts";
import { BulkInsert } from "./sqlite-bulk.ts";
import type { FlatEntries, PreparedChange, PreparedCommitted, PreparedPut } from "./sqlite-change.ts";
import type { Claims } from "./sqlite-claims.ts";
import type { Counters } from "./sqlite-counters.ts";
import type { Participant } from "./sqlite-scribe.ts";

/**
 * Changes: checked one by one, written together.
 *
 * 1. A change is checked against the database and the changes before it in the same batch; what fails its checks has
 *    changed nothing, not even in memory. So each change is all or nothing without a savepoint.
 * 2. What passed is gathered and written in `flush`. A record that several changes of a batch touched is written once,
 *    with its places moved from where it stood before the first to where it stands after the last.
 */
export class Commits implements Participant {
  readonly #counters: Counters;
  readonly #claims: Claims;
  readonly #rows = new Map<string, Row>();
  readonly #fences = new Map<string, Fence>();
  /** Versions on disk of records that were written not long ago: most are written again soon, and nobody else writes. */
  readonly #versions = new Map<string, number>();
  readonly #selectVersion: Statement;
  readonly #selectFence: Statement;
  readonly #deleteRecord: Statement;
  readonly #deleteEntry: Statement;
  readonly #countEntries: Statement;
  readonly #upsertFence: Statement;
  readonly #records: BulkInsert;
  readonly #entries: BulkInsert;
  readonly #outbox: BulkInsert;
  /** Tells messages of one millisecond apart. */
  #outboxSeq: number;
  /** Something passed its checks and is not with SQLite yet. */
  #isGathered = false;

  constructor(db: Database, counters: Counters, claims: Claims) {
    this.#counters = counters;
    this.#claims = claims;
    this.#selectVersion = db.prepare("select version from records where tbl = ? and id = ?");
    this.#selectFence = db.prepare("select fence from fences where tbl = ? and id = ?");
    this.#deleteRecord = db.prepare("delete from records where tbl = ? and id = ?");
    this.#deleteEntry = db.prepare("delete from lists where tbl = ? and name = ? and score = ? and id = ?");
    this.#countEntries = db.prepare("select count(*) as size from lists where tbl = ? and name = ?");
    this.#upsertFence = db.prepare(
      "insert into fences (tbl, id, fence, at_ms) values (?, ?, ?, ?) " +
        "on conflict do update set fence = excluded.fence, at_ms = excluded.at_ms",
    );
    this.#records = new BulkInsert(
      db,
      "insert into records (tbl, id, version, value, due_ms, queue, score)",
      7,
      "on conflict (tbl, id) do update set version = excluded.version, value = excluded.value, " +
        "due_ms = excluded.due_ms, queue = excluded.queue, score = excluded.score",
    );
    this.#entries = new BulkInsert(db, "insert or ignore into lists (tbl, name, score, id)", 4);
    this.#outbox = new BulkInsert(db, "insert or replace into outbox (id, at_ms, seq, subject, packet)", 5);
    const last = db.prepare("select max(seq) as seq from outbox").get() as { seq: number | null };
    this.#outboxSeq = (last.seq ?? 0) + 1;
  }

  commit(change: PreparedChange): PreparedCommitted {
    const { atMs, puts, guards, deltas } = change;
    const versions: number[] = [];
    for (const { table, id, expect } of puts) {
      const version = this.#versionOf(table, id);
      if (expect !== null && expect !== version) return { kind: "stale", table, id };
      versions.push(version);
    }
    const refusal = this.#refusalOf(guards, deltas);
    if (refusal !== null) return refusal;

    this.#isGathered = true;
    for (const [index, put] of puts.entries()) this.#put(put, versions[index]!);
    for (const { counter, delta } of deltas) this.#counters.add(counter, delta);
    for (const { name, delta } of change.totals) this.#counters.addTotal(name, delta);
    for (const guard of guards) {
      if (guard.kind === "fence") this.#fences.set(keyOf(guard.table, guard.id), { ...guard, atMs });
    }
    for (const { id, subject, json } of change.sends) this.#outbox.add(id, atMs, this.#outboxSeq++, subject, json);
    if (change.watch.length === 0) return COMMITTED;
    return { kind: "committed", seen: change.watch.map((counter) => this.#counters.value(counter)) };
  }

  /**
   * How many entries the lists have, those that changes of this batch have moved included: they are handed over to
   * SQLite now. Handing the same over once more, with what comes after, does no harm.
   */
  sizeOf(table: string, lists: readonly string[]): number {
    this.flush();
    return lists.reduce((sum, list) => sum + (this.#countEntries.get(table, list) as { size: number }).size, 0);
  }

  flush(): void {
    if (!this.#isGathered) return;
    this.#isGathered = false;
    for (const row of this.#rows.values()) {
      const { table, id, json, dueMs, queue, score } = row.put;
      if (json === null) this.#deleteRecord.run(table, id);
      else this.#records.add(table, id, row.version, json, dueMs, queue, score);
      const { left, entered } = row;
      for (let i = 0; i < left.length; i += 2) this.#deleteEntry.run(table, left[i]!, left[i + 1]!, id);
      for (let i = 0; i < entered.length; i += 2) this.#entries.add(table, entered[i]!, entered[i + 1]!, id);
    }
    this.#records.flush();
    this.#entries.flush();
    for (const { table, id, fence, atMs } of this.#fences.values()) this.#upsertFence.run(table, id, fence, atMs);
    this.#outbox.flush();
  }

  committed(): void {
    if (this.#versions.size > VERSIONS_MAX) this.#versions.clear();
    for (const [key, { version }] of this.#rows) this.#versions.set(key, version);
    this.#rows.clear();
    this.#fences.clear();
  }

  rolledBack(): void {
    this.#isGathered = false;
    this.#rows.clear();
    this.#fences.clear();
    this.#records.clear();
    this.#entries.clear();
    this.#outbox.clear();
  }

  #put(put: PreparedPut, versionBefore: number): void {
    const key = keyOf(put.table, put.id);
    const before = this.#rows.get(key);
    this.#rows.set(key, {
      put,
      version: put.json === null ? 0 : versionBefore + 1,
      left: before ? [...before.left, ...put.listsLeft] : put.listsLeft,
      entered: before ? [...without(before.entered, put.listsLeft), ...put.listsEntered] : put.listsEntered,
    });
    this.#claims.follow(put);
  }

  /** By the first guard that does not hold: fences before all others. */
  #refusalOf(guards: readonly Guard[], deltas: PreparedChange["deltas"]): Refused | null {
    for (const [at, guard] of guards.entries()) {
      if (guard.kind === "fence" && this.#fenceOf(guard.table, guard.id) > guard.fence) return refusedAt(at, 0);
    }
    for (const [at, guard] of guards.entries()) {
      switch (guard.kind) {
        case "fence":
          break;
        case "absent":
          if (this.#versionOf(guard.table, guard.id) > 0) return refusedAt(at, 0);
          break;
        case "counter": {
          const { group, name } = guard.counter;
          const own = deltas.find(({ counter }) => counter.group === group && counter.name === name)?.delta ?? 0;
          const value = this.#counters.value(guard.counter);
          if (value + own > guard.max) return refusedAt(at, value);
          break;
        }
        default:
          guard satisfies never;
      }
    }
    return null;
  }

  /** 0 when there is no such record. */
  #versionOf(table: string, id: string): number {
    const key = keyOf(table, id);
    const known = this.#rows.get(key)?.version ?? this.#versions.get(key);
    if (known !== undefined) return known;
    return (this.#selectVersion.get(table, id) as { version: number } | undefined)?.version ?? 0;
  }

  #fenceOf(table: string, id: string): number {
    const fence = this.#fences.get(keyOf(table, id));
    if (fence) return fence.fence;
    return (this.#selectFence.get(table, id) as { fence: number } | undefined)?.fence ?? 0;
  }
}

type Refused = Extract<PreparedCommitted, { kind: "refused" }>;

interface Row {
  /** The last put of the batch; the moves are those of all of them. */
  readonly put: PreparedPut;
  readonly version: number;
  readonly left: FlatEntries;
  readonly entered: FlatEntries;
}

interface Fence {
  readonly table: string;
  readonly id: string;
  readonly fence: number;
  readonly atMs: number;
}

const VERSIONS_MAX = 20_000;

/** One object for all of them: within one message it travels once. */
const COMMITTED: PreparedCommitted = { kind: "committed", seen: [] };

const refusedAt = (at: number, value: number): Refused => ({ kind: "refused", at, value });

const keyOf = (table: string, id: string): string => `${table}\n${id}`;

function without(entries: FlatEntries, gone: FlatEntries): FlatEntries {
  const kept: (string | number)[] = [];
  for (let i = 0; i < entries.length; i += 2) {
    let isGone = false;
    for (let j = 0; j < gone.length; j += 2) isGone ||= gone[j] === entries[i] && gone[j + 1] === entries[i + 1];
    if (!isGone) kept.push(entries[i]!, entries[i + 1]!);
  }
  return kept;
}
