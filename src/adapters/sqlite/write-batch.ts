import type { Database, SqlValue, Statement } from "./database.ts";

/**
 * What is to be written into the tables, as plain data: this thread can write it, or another one that is handed the sheet.
 *
 * 1. All of it says how things stand, not how they change: written twice it does no harm, written out of turn it does.
 * 2. Rows of one kind go together: a statement of sixteen rows costs a third of sixteen statements, because most of a small
 *    insert is the way into SQLite and back.
 */
export class WriteBatch {
  readonly #rows = new Map<RowKind, SqlValue[]>();

  add(line: RowKind, ...row: SqlValue[]): void {
    let values = this.#rows.get(line);
    if (values === undefined) {
      values = [];
      this.#rows.set(line, values);
    }
    for (const value of row) values.push(value);
  }

  /** In the order of `LINES`. */
  statements(): BatchStatement[] {
    const passages: BatchStatement[] = [];
    for (const line of LINES) {
      const values = this.#rows.get(line);
      if (values !== undefined) passages.push(...statementsOf(line, values));
    }
    return passages;
  }
}

/** One statement, and the values of as many runs of it as there are, one behind the other. */
export interface BatchStatement {
  readonly sql: string;
  /** How many values a run takes. */
  readonly width: number;
  readonly values: readonly SqlValue[];
}

/** A kind of row: the statement up to its values (those are written by dozens), or the whole of it. */
export interface RowKind {
  readonly sql: string;
  readonly width: number;
  /** What comes after the values; undefined where a run is of one row. */
  readonly tail?: string;
}

export const DELETE_RECORD: RowKind = { sql: "delete from records where tbl = ? and id = ?", width: 2 };
export const DELETE_ENTRY: RowKind = {
  sql: "delete from lists where tbl = ? and name = ? and score = ? and id = ?",
  width: 4,
};
export const RECORD: RowKind = {
  sql: "insert into records (tbl, id, version, value, due_ms, queue, score)",
  width: 7,
  // What begins with a line break goes behind what is there (see `record-text.ts`), and once only.
  tail:
    "on conflict (tbl, id) do update set value = case when substr(excluded.value, 1, 1) <> char(10) then excluded.value " +
    "when excluded.version > records.version then records.value || excluded.value else records.value end, " +
    "version = excluded.version, due_ms = excluded.due_ms, queue = excluded.queue, score = excluded.score",
};
export const ENTRY: RowKind = { sql: "insert or ignore into lists (tbl, name, score, id)", width: 4, tail: "" };
export const FENCE: RowKind = {
  sql: "insert into fences (tbl, id, fence, at_ms)",
  width: 4,
  tail: "on conflict (tbl, id) do update set fence = excluded.fence, at_ms = excluded.at_ms",
};
export const DELETE_MESSAGE: RowKind = { sql: "delete from outbox where id = ?", width: 1 };
export const MESSAGE: RowKind = {
  sql: "insert or replace into outbox (id, at_ms, seq, subject, packet)",
  width: 5,
  tail: "",
};
export const COUNTER: RowKind = {
  sql: "insert into counters (grp, name, value)",
  width: 3,
  tail: "on conflict (grp, name) do update set value = excluded.value",
};
export const DELETE_COUNTER: RowKind = { sql: "delete from counters where grp = ? and name = ?", width: 2 };
export const EPOCH: RowKind = { sql: "update journal set epoch = ?", width: 1 };

/** What goes comes first: an entry may leave a place that another record enters. */
const LINES: readonly RowKind[] = [
  DELETE_RECORD,
  DELETE_ENTRY,
  RECORD,
  ENTRY,
  FENCE,
  DELETE_MESSAGE,
  MESSAGE,
  DELETE_COUNTER,
  COUNTER,
  EPOCH,
];

/** Writes sheets in this thread. */
export class BatchWriter {
  readonly #db: Database;
  readonly #statements = new Map<string, Statement>();

  constructor(db: Database) {
    this.#db = db;
  }

  write(passages: readonly BatchStatement[]): void {
    for (const { sql, width, values } of passages) {
      let statement = this.#statements.get(sql);
      if (statement === undefined) {
        statement = this.#db.prepare(sql);
        this.#statements.set(sql, statement);
      }
      for (let at = 0; at < values.length; at += width) statement.run(...values.slice(at, at + width));
    }
  }
}

function statementsOf(line: RowKind, values: SqlValue[]): BatchStatement[] {
  const { sql, width, tail } = line;
  if (tail === undefined) return [{ sql, width, values }];
  const passages: BatchStatement[] = [];
  let at = 0;
  for (const rows of ROWS_PER_RUN) {
    const end = values.length - ((values.length - at) % (rows * width));
    if (end === at) continue;
    passages.push({ sql: bulkOf(line, rows), width: rows * width, values: values.slice(at, end) });
    at = end;
  }
  return passages;
}

const bulks = new Map<RowKind, Map<number, string>>();

/** Made once: it is what the prepared statement is found by. */
function bulkOf(line: RowKind, rows: number): string {
  let byRows = bulks.get(line);
  if (byRows === undefined) {
    byRows = new Map();
    bulks.set(line, byRows);
  }
  let sql = byRows.get(rows);
  if (sql === undefined) {
    const row = `(${Array(line.width).fill("?").join(",")})`;
    sql = `${line.sql} values ${Array(rows).fill(row).join(",")} ${line.tail}`;
    byRows.set(rows, sql);
  }
  return sql;
}

const ROWS_PER_RUN = [16, 4, 1];
