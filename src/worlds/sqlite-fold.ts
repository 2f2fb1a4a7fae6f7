import type { Database, Statement } from "./sqlite.ts";
import { BulkInsert } from "./sqlite-bulk.ts";
import type { FlatEntries } from "./sqlite-change.ts";

/** Writes what memory has into the tables. All of it says how things stand, not how they change: twice does no harm. */
export class FoldedRows {
  readonly #deleteRecord: Statement;
  readonly #deleteEntry: Statement;
  readonly #deleteMessage: Statement;
  readonly #upsertFence: Statement;
  readonly #records: BulkInsert;
  readonly #entries: BulkInsert;
  readonly #outbox: BulkInsert;

  constructor(db: Database) {
    this.#deleteRecord = db.prepare("delete from records where tbl = ? and id = ?");
    this.#deleteEntry = db.prepare("delete from lists where tbl = ? and name = ? and score = ? and id = ?");
    this.#deleteMessage = db.prepare("delete from outbox where id = ?");
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
  }

  write(
    rows: Iterable<Row>,
    fences: Iterable<FenceRow>,
    messages: Iterable<OutboxRow>,
    messagesGone: Iterable<string>,
  ): void {
    // What a write that failed had gathered may not be true any more.
    for (const gathered of [this.#records, this.#entries, this.#outbox]) gathered.clear();
    for (const { table, id, version, json, dueMs, queue, score, left, entered } of rows) {
      if (json === null) this.#deleteRecord.run(table, id);
      else this.#records.add(table, id, version, json, dueMs, queue, score);
      for (let i = 0; i < left.length; i += 2) this.#deleteEntry.run(table, left[i]!, left[i + 1]!, id);
      for (let i = 0; i < entered.length; i += 2) this.#entries.add(table, entered[i]!, entered[i + 1]!, id);
    }
    this.#records.flush();
    this.#entries.flush();
    for (const { table, id, fence, atMs } of fences) this.#upsertFence.run(table, id, fence, atMs);
    for (const id of messagesGone) this.#deleteMessage.run(id);
    for (const { id, atMs, seq, subject, json } of messages) this.#outbox.add(id, atMs, seq, subject, json);
    this.#outbox.flush();
  }
}

/** A record, and the entries of lists that it left and entered since the tables were told. */
export interface Row {
  readonly table: string;
  readonly id: string;
  /** 0 when it is gone. */
  readonly version: number;
  /** null removes it. */
  readonly json: string | null;
  readonly dueMs: number | null;
  readonly queue: string | null;
  readonly score: number | null;
  readonly left: FlatEntries;
  readonly entered: FlatEntries;
}

export interface FenceRow {
  readonly table: string;
  readonly id: string;
  readonly fence: number;
  readonly atMs: number;
}

/** A message that was committed and not yet confirmed as sent. */
export interface OutboxRow {
  readonly id: string;
  readonly atMs: number;
  readonly seq: number;
  readonly subject: string;
  readonly json: string;
}

export const keyOf = (table: string, id: string): string => `${table}\n${id}`;

/** Where a record moved by two changes. An entry that came and went leaves no trace. */
export function movesOfBoth(first: Row, then: Row): Pick<Row, "left" | "entered"> {
  return {
    left: [...first.left, ...without(then.left, first.entered)],
    entered: [...without(first.entered, then.left), ...then.entered],
  };
}

export function countOf(entries: FlatEntries, lists: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < entries.length; i += 2) if (lists.includes(entries[i] as string)) count += 1;
  return count;
}

function without(entries: FlatEntries, gone: FlatEntries): FlatEntries {
  if (entries.length === 0 || gone.length === 0) return entries;
  const kept: (string | number)[] = [];
  for (let i = 0; i < entries.length; i += 2) {
    let isGone = false;
    for (let j = 0; j < gone.length; j += 2) isGone ||= gone[j] === entries[i] && gone[j + 1] === entries[i + 1];
    if (!isGone) kept.push(entries[i]!, entries[i + 1]!);
  }
  return kept;
}
