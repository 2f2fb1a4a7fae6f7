import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Journal, readJournal, syncPath } from "./journal.ts";
import { MIGRATIONS } from "./schema.ts";

/**
 * Opens a data directory: locks it, migrates the schema, reads the journal.
 *
 * 1. One process at a time has the directory open. The lock is a file lock of the operating system, which ends with the
 *    process.
 * 2. SQLite commits survive a power cut: WAL mode with `synchronous = full`.
 * 3. A newer schema is refused before anything is read.
 */
export async function openDataDirectory(dir: string): Promise<DataDirectory> {
  const path = resolve(dir);
  makeDirectory(path);
  const sqlite = await sqliteModule();
  const lock = lockDirectory(path, openFile(sqlite, join(path, LOCK_FILE)));
  let db: Database | null = null;
  try {
    db = openFile(sqlite, join(path, DATA_FILE));
    db.exec(PRAGMAS);
    migrate(db, MIGRATIONS, path);
    return directoryOf(path, lock, db);
  } catch (error) {
    db?.close();
    lock.close();
    throw error;
  }
}

function directoryOf(path: string, lock: Database, db: Database): DataDirectory {
  const file = join(path, JOURNAL_FILE);
  const epoch = epochOf(db);
  const journalEntries = readJournal(file, epoch);
  const journal = new Journal(file, epoch + 1);
  let closed: Promise<void> | null = null;
  const close = async () => {
    await journal.close();
    // The lock is released last: the next process finds the database closed.
    db.close();
    lock.close();
  };
  return {
    db,
    journal,
    journalEntries,
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

export interface DataDirectory {
  readonly db: Database;
  readonly journal: Journal;
  /** Entries that the tables do not have. */
  readonly journalEntries: readonly string[];
  close(): Promise<void>;
}

/** The oldest epoch of the journal that the tables do not have. */
export function epochOf(db: Database): number {
  return (db.prepare("select epoch from journal").get() as { epoch: number }).epoch;
}

/** The common subset of `node:sqlite` and `@photostructure/sqlite`. */
export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

export interface Statement {
  run(...values: SqlValue[]): { readonly changes: number | bigint };
  get(...values: SqlValue[]): unknown;
  all(...values: SqlValue[]): unknown[];
}

export type SqlValue = null | number | string | Uint8Array;

/** Migrates to the latest schema. Each step is one transaction with its version number. */
export function migrate(db: Database, migrations: readonly string[], path: string): void {
  const found = userVersion(db);
  if (found > migrations.length) {
    throw new Error(
      `data directory \`${path}\` was written by a newer cordum (schema ${found}, this version supports ${migrations.length}): ` +
        "upgrade cordum, or use another directory",
    );
  }
  if (found === 0 && !isEmpty(db)) {
    throw new Error(`\`${join(path, DATA_FILE)}\` is not a cordum database: use another directory`);
  }
  for (const [at, sql] of migrations.slice(found).entries()) {
    db.exec("begin immediate");
    try {
      db.exec(sql);
      db.exec(`pragma user_version = ${found + at + 1}`);
      db.exec("commit");
    } catch (error) {
      db.exec("rollback");
      throw error;
    }
  }
}

export const DATA_FILE = "cordum.db";
export const JOURNAL_FILE = "cordum.journal";
const LOCK_FILE = "lock.db";
const HOLDER_FILE = "lock.pid";

/**
 * SQLite's own WAL checkpoint runs inside a commit. 2,000 pages (8 MB) keep that stall in the low tens of milliseconds, and
 * a hot page is still copied once for many commits. The WAL file keeps its size, so an fsync has no file growth to write.
 */
export const PRAGMAS = `
  pragma busy_timeout = 5000;
  pragma journal_mode = wal;
  pragma synchronous = full;
  pragma wal_autocheckpoint = 2000;
  pragma journal_size_limit = 67108864;
  pragma cache_size = -65536;
  pragma temp_store = memory;
`;

interface SqliteModule {
  readonly DatabaseSync: new (path: string) => Database;
}

export async function sqliteModule(): Promise<SqliteModule> {
  // Not an import: it would fail to load on runtimes without it, and bundlers would try to resolve it.
  const builtin = process.getBuiltinModule("node:sqlite") as SqliteModule | undefined;
  return builtin ?? ((await import("@photostructure/sqlite")) as unknown as SqliteModule);
}

export function openFile({ DatabaseSync }: SqliteModule, file: string): Database {
  try {
    return new DatabaseSync(file);
  } catch (error) {
    throw new Error(`\`${file}\` cannot be opened: ${(error as Error).message}`, { cause: error });
  }
}

/** The lock is an exclusive transaction on a separate file, open for the lifetime of the process. */
function lockDirectory(path: string, lock: Database): Database {
  const holderFile = join(path, HOLDER_FILE);
  try {
    lock.exec("pragma busy_timeout = 0");
    lock.exec("begin exclusive");
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw error;
    throw new Error(
      `data directory \`${path}\` is in use by process ${readHolder(holderFile)}: ` +
        "stop that process, or use another directory",
      { cause: error },
    );
  }
  // The process id is only shown in errors. A crash before this line is harmless.
  writeFileSync(holderFile, `${process.pid}\n`);
  return lock;
}

function isBusy(error: unknown): boolean {
  const busy = 5;
  if (!(error instanceof Error)) return false;
  const { errcode, sqliteCode } = error as { errcode?: number; sqliteCode?: number };
  return (errcode ?? sqliteCode) === busy || error.message.includes("database is locked");
}

function readHolder(file: string): string {
  try {
    return readFileSync(file, "utf8").trim() || "unknown";
  } catch {
    return "unknown";
  }
}

export function userVersion(db: Database): number {
  return (db.prepare("pragma user_version").get() as { user_version: number }).user_version;
}

function isEmpty(db: Database): boolean {
  return (db.prepare("select count(*) as n from sqlite_schema").get() as { n: number }).n === 0;
}

/** A new directory is durable once its parent directory is synced. */
function makeDirectory(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let at = path; ; at = dirname(at)) {
    syncPath(dirname(at));
    if (at === first || at === dirname(at)) return;
  }
}
