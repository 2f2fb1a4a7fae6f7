import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Journal, readJournal } from "./journal.ts";
import { MIGRATIONS } from "./schema.ts";
import { syncPath } from "./sync-path.ts";

/**
 * The data directory: which SQLite, who may use it, and how durable it is.
 *
 * 1. The directory belongs to one process. The lock is a file lock of the operating system, so it dies with its holder
 *    however the holder dies; a second process is told who has it.
 * 2. A commit that returned survives a power cut: WAL with `synchronous=FULL`, and the same for the journal in front of it.
 * 3. The schema version is checked before anything is read: a newer one is refused, an older one is migrated.
 */
export async function openDataDirectory(dir: string): Promise<DataDirectory> {
  const path = resolve(dir);
  makeDurably(path);
  const sqlite = await sqliteModule();
  const lock = lockDirectory(path, openFile(sqlite, join(path, LOCK_FILE)));
  let db: Database | null = null;
  try {
    db = openFile(sqlite, join(path, DATA_FILE));
    db.exec(PRAGMAS);
    migrate(db, MIGRATIONS, path);
    return opened(path, lock, db);
  } catch (error) {
    db?.close();
    lock.close();
    throw error;
  }
}

function opened(path: string, lock: Database, db: Database): DataDirectory {
  const file = join(path, JOURNAL_FILE);
  const epoch = epochOf(db);
  const left = readJournal(file, epoch);
  const journal = new Journal(file, epoch + 1);
  let closed: Promise<void> | null = null;
  const close = async () => {
    await journal.close();
    // The lock goes last: whoever gets it next finds the database closed.
    db.close();
    lock.close();
  };
  return {
    db,
    journal,
    left,
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

export interface DataDirectory {
  readonly db: Database;
  readonly journal: Journal;
  /** What the journal has and the tables have not. */
  readonly left: readonly string[];
  close(): Promise<void>;
}

/** Which entries of the journal the tables have not taken in yet. */
export function epochOf(db: Database): number {
  return (db.prepare("select epoch from journal").get() as { epoch: number }).epoch;
}

/** The part of `node:sqlite` that we use; `@photostructure/sqlite` has the same. */
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

/** Brings a database to the newest schema; each step and its version number are one transaction. */
export function migrate(db: Database, migrations: readonly string[], path: string): void {
  const found = userVersion(db);
  if (found > migrations.length) {
    throw new Error(
      `data directory \`${path}\` was written by a newer cordum (schema ${found}, this one knows ${migrations.length}): ` +
        "upgrade cordum, or give it another directory",
    );
  }
  if (found === 0 && !isEmpty(db)) {
    throw new Error(`\`${join(path, DATA_FILE)}\` is not a cordum database: give it another directory`);
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
 * A checkpoint copies the WAL into the database inside somebody's commit: 2,000 pages (8 MB) keep that stall in the low
 * tens of milliseconds, and are long enough that a hot page is copied once for many commits.
 * The WAL keeps its size, so that a commit's fsync has no file growth to write down.
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
  // Not an import: runtimes without it would fail to load this file, and bundlers would try to resolve it.
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

/** Holds an exclusive transaction on a file of its own for as long as the process lives. */
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
        "stop that process, or give this one another directory",
      { cause: error },
    );
  }
  // The id is for people; the lock is what counts, so a crash between the two lines is harmless.
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

/** A new directory is itself only durable once its parent is. */
function makeDurably(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let at = path; ; at = dirname(at)) {
    syncPath(dirname(at));
    if (at === first || at === dirname(at)) return;
  }
}
