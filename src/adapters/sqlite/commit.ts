import type { Guard } from "../../ports/store.ts";
import { isMore } from "../record-text.ts";
import { ByRecord } from "./by-record.ts";
import type { PreparedChange, PreparedCommitted, PreparedPut } from "./change.ts";
import {
  addFence,
  addMessage,
  addMessageGone,
  addRow,
  afterBoth,
  countOf,
  type FenceRow,
  type OutboxRow,
  type Row,
} from "./checkpoint-rows.ts";
import type { Claims } from "./claims.ts";
import type { Counters } from "./counters.ts";
import type { Database, Statement } from "./database.ts";
import { type Done, encodeEntry, readStep } from "./journal-entry.ts";
import type { JournalStep, Participant } from "./participant.ts";
import type { RecordRow } from "./records.ts";
import { VersionCache } from "./version-cache.ts";
import type { WriteBatch } from "./write-batch.ts";

/**
 * Changes: checked one by one, kept in memory and in the journal, written into the tables together.
 *
 * 1. A change is checked against the tables and all changes before it; what fails its checks has changed nothing, not even
 *    in memory. So each change is all or nothing without a savepoint.
 * 2. Memory has what the tables do not have yet. A record that was changed several times before it is written is written
 *    once, with its places moved from where it stood before the first to where it stands after the last; a message that
 *    was sent meanwhile is not written at all.
 * 3. What was handed over is set aside until the tables have it: it is looked up, and changed no more.
 */
export class Commits implements Participant {
  readonly #counters: Counters;
  readonly #claims: Claims;
  readonly #unfoldedMax: number;
  #rows = new ByRecord<Row>();
  #fences = new ByRecord<FenceRow>();
  readonly #outbox = new Map<string, OutboxRow>();
  /** Messages that the tables still have, or are about to have. */
  readonly #sent = new Set<string>();
  #rowsAside = new ByRecord<Row>();
  #fencesAside = new ByRecord<FenceRow>();
  /** What the tables have. */
  readonly #knownVersions: VersionCache;
  readonly #knownFences: VersionCache;
  readonly #countEntries: Statement;
  /** What this batch has done so far. */
  #steps: Done[] = [];
  /** Tells messages of one millisecond apart. */
  #outboxSeq: number;

  constructor(db: Database, counters: Counters, claims: Claims, unfoldedMax: number) {
    this.#counters = counters;
    this.#claims = claims;
    this.#unfoldedMax = unfoldedMax;
    this.#knownVersions = new VersionCache(
      db.prepare("select max(id) as id from records where tbl = ?"),
      db.prepare("select version as number from records where tbl = ? and id = ?"),
    );
    this.#knownFences = new VersionCache(
      db.prepare("select max(id) as id from fences where tbl = ?"),
      db.prepare("select fence as number from fences where tbl = ? and id = ?"),
    );
    this.#countEntries = db.prepare("select count(*) as size from lists where tbl = ? and name = ?");
    const last = db.prepare("select max(seq) as seq from outbox").get() as { seq: number | null };
    this.#outboxSeq = (last.seq ?? 0) + 1;
  }

  get fill(): number {
    return (this.#rows.size + this.#outbox.size + this.#sent.size) / this.#unfoldedMax;
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

  /** As memory has it; where that is only what came since, behind what `older` finds in the tables. */
  load(table: string, id: string, older: () => RecordRow | null): RecordRow | null {
    const layers = [this.#rows.get(table, id), this.#rowsAside.get(table, id)].filter((row) => row !== undefined);
    const version = layers[0]?.version;
    if (version === undefined) return older();
    const inTables = layers.every(({ text }) => text !== null && isMore(text)) ? older() : null;
    let more = "";
    for (const row of layers) {
      if (row.text === null) return null;
      if (!isMore(row.text)) return { id, version, value: row.text + more };
      // The tables may have been told already, and memory not yet that they were.
      if (inTables?.version === row.version) break;
      more = row.text + more;
    }
    return { id, version, value: `${inTables?.value}${more}` };
  }

  sent(messageIds: readonly string[]): void {
    for (const id of messageIds) {
      this.#steps.push({ kind: "sent", id, before: this.#outbox.get(id) });
      if (!this.#outbox.delete(id)) this.#sent.add(id);
    }
  }

  /** Whether the fence was raised since the tables were told. */
  hasFence(table: string, id: string): boolean {
    return this.#fences.get(table, id) !== undefined;
  }

  /** How many entries the lists have: in the tables, and by what memory alone knows. */
  sizeOf(table: string, lists: readonly string[]): number {
    let size = 0;
    for (const list of lists) size += (this.#countEntries.get(table, list) as { size: number }).size;
    for (const row of this.#rows.values()) {
      if (row.table === table) size += countOf(row.entered, lists) - countOf(row.left, lists);
    }
    return size;
  }

  tell(pieces: string[]): void {
    for (const step of this.#steps) encodeEntry(step, pieces);
  }

  recover(told: JournalStep): void {
    const step = readStep(told);
    switch (step?.kind) {
      case "row":
        this.#keep(step.row);
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

  handOver(batch: WriteBatch): void {
    for (const row of this.#rows.values()) addRow(batch, row);
    for (const fence of this.#fences.values()) addFence(batch, fence);
    for (const id of this.#sent) addMessageGone(batch, id);
    for (const message of this.#outbox.values()) addMessage(batch, message);
  }

  kept(): void {
    if (this.#steps.length > 0) this.#steps = [];
  }

  setAside(): void {
    this.#rowsAside = this.#rows;
    this.#rows = new ByRecord();
    this.#fencesAside = this.#fences;
    this.#fences = new ByRecord();
    this.#outbox.clear();
    this.#sent.clear();
  }

  folded(): void {
    for (const { table, id, version } of this.#rowsAside.values()) this.#knownVersions.put(table, id, version);
    for (const { table, id, fence } of this.#fencesAside.values()) this.#knownFences.put(table, id, fence);
    this.#rowsAside = new ByRecord();
    this.#fencesAside = new ByRecord();
  }

  undone(): void {
    for (const step of this.#steps.splice(0).reverse()) {
      switch (step.kind) {
        case "row":
          this.#rows.put(step.row.table, step.row.id, step.before);
          break;
        case "fence":
          this.#fences.put(step.fence.table, step.fence.id, step.before);
          break;
        case "send":
          setOrDelete(this.#outbox, step.message.id, step.before);
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
    this.#keep({ table, id, version, text, dueMs, queue, score, left, entered });
    this.#claims.follow(put);
  }

  /** `row` has the moves of this one change. */
  #keep(row: Row): void {
    const { table, id } = row;
    const before = this.#rows.get(table, id);
    this.#steps.push({ kind: "row", row, before });
    this.#rows.set(table, id, before === undefined ? row : afterBoth(before, row));
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
        case "free":
          // Locks are in the memory of whoever asks, and give no moments: what is not known to be free is not.
          return refusedAt(at, 0);
        default:
          guard satisfies never;
      }
    }
    return null;
  }

  /** 0 when there is no such record. */
  #versionOf(table: string, id: string): number {
    const row = this.#rows.get(table, id) ?? this.#rowsAside.get(table, id);
    return row === undefined ? this.#knownVersions.of(table, id) : row.version;
  }

  #fenceOf(table: string, id: string): number {
    const row = this.#fences.get(table, id) ?? this.#fencesAside.get(table, id);
    return row === undefined ? this.#knownFences.of(table, id) : row.fence;
  }
}

type Refused = Extract<PreparedCommitted, { kind: "refused" }>;

/** One object for all of them. */
const COMMITTED: PreparedCommitted = { kind: "committed", seen: [] };

const refusedAt = (at: number, value: number): Refused => ({ kind: "refused", at, value });

function setOrDelete<T>(map: Map<string, T>, key: string, value: T | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}
