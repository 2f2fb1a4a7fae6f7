import type { CounterName } from "../../core/model/table.ts";
import type { Committed, Guard } from "../../ports/store.ts";
import { isDelta } from "../record-text.ts";
import type { WriteBatch } from "./checkpoint.ts";
import type { Claims } from "./claims.ts";
import type { Participant } from "./commit-executor.ts";
import type { Counters } from "./counters.ts";
import type { Database, SqlValue, Statement } from "./database.ts";
import { checkSum, rowSum } from "./integrity/checksum.ts";
import { checkedRecord, RECORD_COLUMNS, type StoredRecord } from "./record-rows.ts";
import {
  type AppliedStep,
  addFence,
  addMessage,
  addRow,
  addSentMessage,
  countEntries,
  decodeStep,
  encodeStep,
  type FenceRow,
  type JournalStep,
  mergeRows,
  type OutboxRow,
  type Row,
} from "./rows.ts";
import type { PreparedChange, PreparedPut } from "./store.ts";
import { RecordMap, VersionCache } from "./version-cache.ts";

/**
 * Overlay of records, fences and outbox messages over the SQLite tables: everything committed since the last checkpoint.
 *
 * 1. A commit is checked against the overlay and the tables before it changes anything. So it is all or nothing without
 *    a savepoint.
 * 2. The overlay has one row per record, however often the record changes, with its list entries relative to the tables.
 *    A message that is sent before the checkpoint never reaches the tables.
 * 3. Rows of a running checkpoint are frozen: reads see them, commits add rows on top of them.
 */
export class Memtable implements Participant {
  readonly #counters: Counters;
  readonly #claims: Claims;
  readonly #rowsMax: number;
  #rows = new RecordMap<Row>();
  #fences = new RecordMap<FenceRow>();
  readonly #outbox = new Map<string, OutboxRow>();
  /** Sent messages that are in the tables or in the running checkpoint. */
  readonly #sent = new Set<string>();
  #frozenRows = new RecordMap<Row>();
  #frozenFences = new RecordMap<FenceRow>();
  readonly #tableVersions: VersionCache;
  readonly #tableFences: VersionCache;
  readonly #selectRecord: Statement;
  readonly #countEntries: Statement;
  /** Steps of the current batch. */
  #steps: AppliedStep[] = [];
  /** Orders the messages of one millisecond. */
  #outboxSeq: number;

  /** `fill` reaches 1 at `rowsMax` rows. */
  constructor(db: Database, counters: Counters, claims: Claims, rowsMax: number) {
    this.#counters = counters;
    this.#claims = claims;
    this.#rowsMax = rowsMax;
    this.#tableVersions = new VersionCache(
      db.prepare("select max(id) as id from records where tbl = ?"),
      checkedNumbers(
        db.prepare("select version as number, due_ms, queue, score, sum from records where tbl = ? and id = ?"),
        ({ number, due_ms, queue, score }, table, id) => rowSum(table, id, number, due_ms, queue, score),
      ),
    );
    this.#tableFences = new VersionCache(
      db.prepare("select max(id) as id from fences where tbl = ?"),
      checkedNumbers(
        db.prepare("select fence as number, at_ms, sum from fences where tbl = ? and id = ?"),
        ({ number, at_ms }, table, id) => rowSum(table, id, number, at_ms),
      ),
    );
    this.#selectRecord = db.prepare(`select ${RECORD_COLUMNS} from records r where tbl = ? and id = ?`);
    this.#countEntries = db.prepare("select count(*) as size from lists where tbl = ? and name = ?");
    const last = db.prepare("select max(seq) as seq from outbox").get() as { seq: number | null };
    this.#outboxSeq = (last.seq ?? 0) + 1;
  }

  get fill(): number {
    return (this.#rows.size + this.#outbox.size + this.#sent.size) / this.#rowsMax;
  }

  commit(change: PreparedChange): Committed {
    const { atMs, puts, guards, deltas } = change;
    const versions: number[] = [];
    for (const { table, id, expect } of puts) {
      const version = this.#versionOf(table, id);
      if (expect !== null && expect !== version) return { kind: "stale", table, id };
      versions.push(version);
    }
    const refusal = this.#checkGuards(guards, deltas);
    if (refusal !== null) return refusal;

    for (const [index, put] of puts.entries()) this.#put(put, put.text === null ? 0 : versions[index]! + 1);
    for (const { counter, delta } of deltas) this.#counters.add(counter, delta);
    for (const { name, delta } of change.totals) this.#counters.addTotal(name, delta);
    for (const guard of guards) {
      if (guard.kind === "fence") this.#setFence({ table: guard.table, id: guard.id, fence: guard.fence, atMs });
    }
    for (const { id, subject, json } of change.sends) {
      this.#send({ id, atMs, seq: this.#outboxSeq++, subject, json });
    }
    if (change.watch.length === 0) return COMMITTED;
    return { kind: "committed", seen: change.watch.map((counter) => this.#counters.value(counter)) };
  }

  /** Reads the layers from the newest to the oldest, until one has the whole document. */
  load(table: string, id: string): RecordRow | null {
    const layers = [this.#rows.get(table, id), this.#frozenRows.get(table, id)].filter((row) => row !== undefined);
    const version = layers[0]?.version;
    if (version === undefined) return this.#loadFromTables(table, id);
    const isOnlyDeltas = layers.every(({ text }) => text !== null && isDelta(text));
    const stored = isOnlyDeltas ? this.#loadFromTables(table, id) : null;
    let deltas = "";
    for (const row of layers) {
      if (row.text === null) return null;
      if (!isDelta(row.text)) return { id, version, value: row.text + deltas };
      // The checkpoint may have written the row before its end is known here.
      if (stored?.version === row.version) break;
      deltas = row.text + deltas;
    }
    return { id, version, value: `${stored?.value}${deltas}` };
  }

  sent(messageIds: readonly string[]): void {
    for (const id of messageIds) {
      this.#steps.push({ kind: "sent", id, before: this.#outbox.get(id) });
      if (!this.#outbox.delete(id)) this.#sent.add(id);
    }
  }

  /** Whether the fence was raised since the last checkpoint. */
  hasFence(table: string, id: string): boolean {
    return this.#fences.get(table, id) !== undefined;
  }

  /** Sets a counter to the number of entries in the lists. Returns by how much it was too high. */
  recount(counter: CounterName, table: string, lists: readonly string[]): number {
    const excess = this.#counters.value(counter) - this.#sizeOf(table, lists);
    if (excess !== 0) this.#counters.add(counter, -excess);
    return excess;
  }

  encodeChanges(pieces: string[]): void {
    for (const step of this.#steps) encodeStep(step, pieces);
  }

  replay(encoded: JournalStep): void {
    const step = decodeStep(encoded);
    switch (step?.kind) {
      case "row":
        this.#applyRow(step.row);
        return;
      case "fence":
        this.#setFence(step.fence);
        return;
      case "send":
        this.#send(step.message);
        this.#outboxSeq = Math.max(this.#outboxSeq, step.message.seq + 1);
        return;
      case "sent":
        this.sent([step.id]);
    }
  }

  collect(batch: WriteBatch): void {
    for (const row of this.#rows.values()) addRow(batch, row);
    for (const fence of this.#fences.values()) addFence(batch, fence);
    for (const id of this.#sent) addSentMessage(batch, id);
    for (const message of this.#outbox.values()) addMessage(batch, message);
  }

  freeze(): void {
    this.#frozenRows = this.#rows;
    this.#rows = new RecordMap();
    this.#frozenFences = this.#fences;
    this.#fences = new RecordMap();
    this.#outbox.clear();
    this.#sent.clear();
  }

  dropFrozen(): void {
    for (const { table, id, version } of this.#frozenRows.values()) this.#tableVersions.put(table, id, version);
    for (const { table, id, fence } of this.#frozenFences.values()) this.#tableFences.put(table, id, fence);
    this.#frozenRows = new RecordMap();
    this.#frozenFences = new RecordMap();
  }

  onCommit(): void {
    if (this.#steps.length > 0) this.#steps = [];
  }

  onRollback(): void {
    for (const step of this.#steps.splice(0).reverse()) {
      switch (step.kind) {
        case "row":
          this.#rows.setOrDelete(step.row.table, step.row.id, step.before);
          break;
        case "fence":
          this.#fences.setOrDelete(step.fence.table, step.fence.id, step.before);
          break;
        case "send":
          if (step.before === undefined) this.#outbox.delete(step.message.id);
          else this.#outbox.set(step.message.id, step.before);
          break;
        case "sent":
          if (step.before === undefined) this.#sent.delete(step.id);
          else this.#outbox.set(step.id, step.before);
          break;
        default:
          step satisfies never;
      }
    }
  }

  #put(put: PreparedPut, version: number): void {
    const { table, id, text, dueMs, queue, score, listsLeft: left, listsEntered: entered } = put;
    this.#applyRow({ table, id, version, text, dueMs, queue, score, left, entered });
    this.#claims.follow(put);
  }

  /** `row` has the list entries of this one change. */
  #applyRow(row: Row): void {
    const { table, id } = row;
    const before = this.#rows.get(table, id);
    this.#steps.push({ kind: "row", row, before });
    this.#rows.set(table, id, before === undefined ? row : mergeRows(before, row));
  }

  #setFence(fence: FenceRow): void {
    const { table, id } = fence;
    this.#steps.push({ kind: "fence", fence, before: this.#fences.get(table, id) });
    this.#fences.set(table, id, fence);
  }

  #send(message: OutboxRow): void {
    this.#steps.push({ kind: "send", message, before: this.#outbox.get(message.id) });
    this.#outbox.set(message.id, message);
  }

  /** Checks fences before all other guards. */
  #checkGuards(guards: readonly Guard[], deltas: PreparedChange["deltas"]): Committed | null {
    for (const guard of guards) {
      if (guard.kind === "fence" && this.#fenceOf(guard.table, guard.id) > guard.fence) return refused(guard, 0);
    }
    for (const guard of guards) {
      switch (guard.kind) {
        case "fence":
          break;
        case "absent":
          if (this.#versionOf(guard.table, guard.id) > 0) return refused(guard, 0);
          break;
        case "counter": {
          const { group, name } = guard.counter;
          const own = deltas.find(({ counter }) => counter.group === group && counter.name === name)?.delta ?? 0;
          const value = this.#counters.value(guard.counter);
          if (value + own > guard.max) return refused(guard, value);
          break;
        }
        case "free":
          // The store does not know the locks of this process, so it cannot confirm that one is free.
          return refused(guard, 0);
        default:
          guard satisfies never;
      }
    }
    return null;
  }

  /** 0 for a missing record. */
  #versionOf(table: string, id: string): number {
    const row = this.#rows.get(table, id) ?? this.#frozenRows.get(table, id);
    return row === undefined ? this.#tableVersions.get(table, id) : row.version;
  }

  #fenceOf(table: string, id: string): number {
    const row = this.#fences.get(table, id) ?? this.#frozenFences.get(table, id);
    return row === undefined ? this.#tableFences.get(table, id) : row.fence;
  }

  #loadFromTables(table: string, id: string): RecordRow | null {
    const row = this.#selectRecord.get(table, id) as StoredRecord | undefined;
    return row === undefined ? null : checkedRecord(row);
  }

  /** The tables must have the frozen rows. */
  #sizeOf(table: string, lists: readonly string[]): number {
    let size = 0;
    for (const list of lists) size += (this.#countEntries.get(table, list) as { size: number }).size;
    for (const row of this.#rows.values()) {
      if (row.table === table) size += countEntries(row.entered, lists) - countEntries(row.left, lists);
    }
    return size;
  }
}

export interface RecordRow {
  readonly id: string;
  readonly version: number;
  /** See `record-text.ts`. */
  readonly value: string;
}

/** A lookup of one number that checks the sum of its row. */
function checkedNumbers(select: Statement, sumOf: (row: NumberRow, table: string, id: string) => number) {
  return {
    get: (table: SqlValue, id: SqlValue) => {
      const row = select.get(table, id) as NumberRow | undefined;
      if (row !== undefined) checkSum(row.sum, () => sumOf(row, String(table), String(id)), String(table), String(id));
      return row;
    },
  };
}

interface NumberRow {
  readonly number: number;
  readonly sum: number | null;
  readonly due_ms: number | null;
  readonly queue: string | null;
  readonly score: number | null;
  readonly at_ms: number;
}

/** Shared by all commits without watched counters, so it is frozen. */
const COMMITTED: Committed = Object.freeze({ kind: "committed", seen: Object.freeze([]) });

const refused = (guard: Guard, value: number): Committed => ({ kind: "refused", guard, value });
