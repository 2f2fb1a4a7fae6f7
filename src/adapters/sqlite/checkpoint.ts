import type { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import type { Database, SqlValue, Statement } from "./database.ts";

/**
 * Rows to write into the tables, as plain data: either thread can write them.
 *
 * 1. Rows state values, not differences. Writing a batch twice is harmless, writing batches out of order is not.
 * 2. Rows of one kind share a statement. A statement with sixteen rows costs a third of sixteen statements.
 */
export class WriteBatch {
  readonly #rows = new Map<RowKind, SqlValue[]>();

  add(kind: RowKind, ...row: SqlValue[]): void {
    this.valuesOf(kind).push(...row);
  }

  /** The rows of a kind, concatenated, to push more of them. */
  valuesOf(kind: RowKind): SqlValue[] {
    let values = this.#rows.get(kind);
    if (values === undefined) {
      values = [];
      this.#rows.set(kind, values);
    }
    return values;
  }

  /** In the order of `ROW_KINDS`. */
  statements(): BatchStatement[] {
    const statements: BatchStatement[] = [];
    for (const kind of ROW_KINDS) {
      const values = this.#rows.get(kind);
      if (values !== undefined) statements.push(...statementsOf(kind, values));
    }
    return statements;
  }
}

/** A statement and the values of all its runs, concatenated. */
export interface BatchStatement {
  readonly sql: string;
  /** Number of values per run. */
  readonly width: number;
  readonly values: readonly SqlValue[];
}

/** A statement for one row. With a `tail`, `sql` ends before `values` and one run takes several rows. */
export interface RowKind {
  readonly sql: string;
  readonly width: number;
  readonly tail?: string;
}

export const DELETE_RECORD: RowKind = { sql: "delete from records where tbl = ? and id = ?", width: 2 };
export const DELETE_ENTRY: RowKind = {
  sql: "delete from lists where tbl = ? and name = ? and score = ? and id = ?",
  width: 4,
};
export const RECORD: RowKind = {
  sql: "insert into records (tbl, id, version, value, due_ms, queue, score, value_sum, sum)",
  width: 9,
  // A delta (`record-text.ts`) is appended, once: only if the stored version is older.
  tail:
    "on conflict (tbl, id) do update set value = case when substr(excluded.value, 1, 1) <> char(10) then excluded.value " +
    "when excluded.version > records.version then records.value || excluded.value else records.value end, " +
    "value_sum = case when substr(excluded.value, 1, 1) <> char(10) then excluded.value_sum " +
    "when excluded.version > records.version then records.value_sum + excluded.value_sum else records.value_sum end, " +
    "version = excluded.version, due_ms = excluded.due_ms, queue = excluded.queue, score = excluded.score, sum = excluded.sum",
};
export const ENTRY: RowKind = { sql: "insert or ignore into lists (tbl, name, score, id, sum)", width: 5, tail: "" };
export const FENCE: RowKind = {
  sql: "insert into fences (tbl, id, fence, at_ms, sum)",
  width: 5,
  tail: "on conflict (tbl, id) do update set fence = excluded.fence, at_ms = excluded.at_ms, sum = excluded.sum",
};
export const DELETE_MESSAGE: RowKind = { sql: "delete from outbox where id = ?", width: 1 };
export const MESSAGE: RowKind = {
  sql: "insert or replace into outbox (id, at_ms, seq, subject, packet, sum)",
  width: 6,
  tail: "",
};
export const COUNTER: RowKind = {
  sql: "insert into counters (grp, name, value, sum)",
  width: 4,
  tail: "on conflict (grp, name) do update set value = excluded.value, sum = excluded.sum",
};
export const DELETE_COUNTER: RowKind = { sql: "delete from counters where grp = ? and name = ?", width: 2 };
export const EPOCH: RowKind = { sql: "update journal set epoch = ?, directory = ?, sum = ?", width: 3 };

/** Deletions come first: a record may enter a list at a place that another record leaves. */
const ROW_KINDS: readonly RowKind[] = [
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

function statementsOf(kind: RowKind, values: SqlValue[]): BatchStatement[] {
  const { sql, width, tail } = kind;
  if (tail === undefined) return [{ sql, width, values }];
  const statements: BatchStatement[] = [];
  let at = 0;
  for (const rows of ROWS_PER_RUN) {
    const end = values.length - ((values.length - at) % (rows * width));
    if (end === at) continue;
    statements.push({ sql: bulkSql(kind, rows), width: rows * width, values: values.slice(at, end) });
    at = end;
  }
  return statements;
}

const ROWS_PER_RUN = [16, 4, 1];

const bulkSqls = new Map<RowKind, Map<number, string>>();

/** Cached: the text is the key of the prepared statement. */
function bulkSql(kind: RowKind, rows: number): string {
  let byRows = bulkSqls.get(kind);
  if (byRows === undefined) {
    byRows = new Map();
    bulkSqls.set(kind, byRows);
  }
  let sql = byRows.get(rows);
  if (sql === undefined) {
    const row = `(${Array(kind.width).fill("?").join(",")})`;
    sql = `${kind.sql} values ${Array(rows).fill(row).join(",")} ${kind.tail}`;
    byRows.set(rows, sql);
  }
  return sql;
}

/** Runs the statements of a batch in this thread, inside the caller's transaction. */
export class BatchWriter {
  readonly #db: Database;
  readonly #prepared = new Map<string, Statement>();

  constructor(db: Database) {
    this.#db = db;
  }

  write(statements: readonly BatchStatement[]): void {
    for (const { sql, width, values } of statements) {
      let prepared = this.#prepared.get(sql);
      if (prepared === undefined) {
        prepared = this.#db.prepare(sql);
        this.#prepared.set(sql, prepared);
      }
      for (let at = 0; at < values.length; at += width) prepared.run(...values.slice(at, at + width));
    }
  }
}

/** Writes a batch in one durable transaction, without blocking the caller's thread. Rejects when nothing was written. */
export interface Checkpointer {
  checkpoint(statements: readonly BatchStatement[]): Promise<void>;
  close(): Promise<void>;
}

/**
 * Worker thread with its own SQLite connection.
 *
 * 1. The thread starts on first use, and again after it died. It keeps the process alive only during a checkpoint.
 * 2. The thread runs the source text of `checkpointProgram`: no separate file is needed, bundled or not. So that function
 *    must not refer to anything outside itself.
 */
export class CheckpointThread implements Checkpointer {
  readonly #options: ThreadOptions;
  #thread: Worker | null = null;

  constructor(file: string, pragmas: string) {
    this.#options = { file, pragmas, resolveFrom: import.meta.url };
  }

  async checkpoint(statements: readonly BatchStatement[]): Promise<void> {
    this.#thread ??= this.#start();
    const thread = this.#thread;
    const [failure] = await new Promise<[string | null]>((resolve) => {
      const onMessage = (failure: string | null) => {
        thread.off("exit", onExit);
        resolve([failure]);
      };
      const onExit = () => {
        thread.off("message", onMessage);
        resolve(["the checkpoint thread exited"]);
      };
      thread.once("message", onMessage);
      thread.once("exit", onExit);
      thread.ref();
      thread.postMessage(statements);
    });
    thread.unref();
    if (failure !== null) throw new Error(failure);
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
    this.#thread = null;
    await new Promise<void>((resolve) => {
      thread.once("exit", () => resolve());
      thread.ref();
      thread.postMessage(null);
    });
  }

  #start(): Worker {
    const thread = new Worker(`(${checkpointProgram})(require)`, {
      eval: true,
      execArgv: [],
      workerData: this.#options,
    });
    thread.unref();
    const forget = () => {
      if (this.#thread === thread) this.#thread = null;
    };
    thread.once("exit", forget);
    thread.on("error", forget); // The exit event rejects the pending checkpoint.
    return thread;
  }
}

interface ThreadOptions {
  readonly file: string;
  readonly pragmas: string;
  /** Base URL for the resolution of packages. */
  readonly resolveFrom: string;
}

/** Runs in the thread. Answers a batch with null or with an error message. A null message ends the thread. */
function checkpointProgram(require: ReturnType<typeof createRequire>): void {
  const { parentPort, workerData } = require("node:worker_threads") as typeof import("node:worker_threads");
  const modules = require("node:module") as typeof import("node:module");
  const { file, pragmas, resolveFrom } = workerData as ThreadOptions;
  const sqlite =
    process.getBuiltinModule("node:sqlite") ?? modules.createRequire(resolveFrom)("@photostructure/sqlite");
  const db: Database = new (sqlite as unknown as { DatabaseSync: new (file: string) => Database }).DatabaseSync(file);
  db.exec(pragmas);
  const prepared = new Map<string, Statement>();
  const write = ({ sql, width, values }: BatchStatement) => {
    const statement = prepared.get(sql) ?? db.prepare(sql);
    prepared.set(sql, statement);
    for (let at = 0; at < values.length; at += width) statement.run(...values.slice(at, at + width));
  };
  const writeAll = (statements: readonly BatchStatement[]): string | null => {
    try {
      db.exec("begin immediate");
      for (const statement of statements) write(statement);
      db.exec("commit");
      return null;
    } catch (error) {
      try {
        db.exec("rollback");
      } catch {
        // Some errors roll back by themselves.
      }
      return error instanceof Error ? error.message : String(error);
    }
  };
  parentPort?.on("message", (statements: readonly BatchStatement[] | null) => {
    if (statements !== null) return parentPort.postMessage(writeAll(statements));
    db.close();
    parentPort.close();
  });
}
