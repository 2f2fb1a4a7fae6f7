import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { syncPath } from "./files.ts";
import { checkSum, DamageError, rowSum } from "./integrity/checksum.ts";
import { APPLICATION_ID, applicationId, checkFormat, checkVersion, userVersion } from "./integrity/header.ts";
import { Journal } from "./journal.ts";
import { createJournalFile, type JournalDamage, readJournal, readJournal3, readJournalFile } from "./journal-file.ts";
import { Manifest } from "./manifest.ts";
import { MIGRATIONS } from "./schema.ts";

/**
 * Opens a data directory: locks it, migrates the schema, reads the journal.
 *
 * 1. One process at a time has the directory open. The lock is a file lock of the operating system, which ends with the
 *    process.
 * 2. SQLite commits survive a power cut: WAL mode with `synchronous = full`.
 * 3. A newer schema is refused before anything is read.
 * 4. Database, journal and manifest are complete, and at least as new as the manifest says. Anything else is damage.
 */
export async function openDataDirectory(dir: string): Promise<DataDirectory> {
  const path = resolve(dir);
  makeDirectory(path);
  const sqlite = await sqliteModule();
  const lock = lockDirectory(path, openFile(sqlite, join(path, LOCK_FILE)));
  let db: Database | null = null;
  try {
    checkFiles(sqlite, path);
    db = openFile(sqlite, join(path, DATA_FILE));
    db.exec(PRAGMAS);
    migrate(db, MIGRATIONS, path);
    return directoryOf(path, lock, db);
  } catch (error) {
    db?.close();
    lock.close();
    throw damageOf(error, join(path, DATA_FILE));
  }
}

/**
 * Compares database and manifest (4). The connection only reads: any other one would create a missing database, and would remove the
 * damaged WAL when it is closed.
 */
function checkFiles(sqlite: SqliteModule, path: string): void {
  const file = join(path, DATA_FILE);
  const others = [JOURNAL_FILE, MANIFEST_FILE].filter((name) => existsSync(join(path, name)));
  const hasData = existsSync(file) && statSync(file).size > 0;
  if (!hasData && others.length === 0) return;
  const db = hasData ? openFile(sqlite, file, { readOnly: true }) : null;
  try {
    // The database is the first file of a directory, so the others imply it.
    if (db === null || (userVersion(db) === 0 && isEmpty(db) && others.length > 0)) {
      throw new DamageError(`\`${file}\` is missing or empty, but ${others.join(" and ")} exists`);
    }
    checkVersion(db, file);
    // Another application or a newer version wrote it: `migrate` refuses it.
    if (userVersion(db) === 0 || userVersion(db) > MIGRATIONS.length) return;
    checkFormat(file);
    checkSchema(sqlite, db, file);
    if (userVersion(db) >= MANIFEST_SCHEMA) checkGeneration(path, generationOf(db));
    else if (others.includes(MANIFEST_FILE)) {
      throw new DamageError(`\`${file}\` or \`${DATA_FILE}-wal\` lost commits: ${MANIFEST_FILE} is newer`);
    }
  } finally {
    db?.close();
  }
}

/** The definitions of tables and indexes have no checksum: a flipped bit makes a table unreadable, or renames a column. */
function checkSchema(sqlite: SqliteModule, db: Database, file: string): void {
  const definitions = "select name, sql from sqlite_schema where sql is not null";
  const found = new Map((db.prepare(definitions).all() as Definition[]).map(({ name, sql }) => [name, compact(sql)]));
  const intact = openFile(sqlite, ":memory:");
  try {
    migrate(intact, MIGRATIONS.slice(0, userVersion(db)), file);
    for (const { name, sql } of intact.prepare(definitions).all() as Definition[]) {
      if (found.get(name) !== compact(sql))
        throw new DamageError(`\`${file}\`: the definition of \`${name}\` is damaged`);
    }
  } finally {
    intact.close();
  }
}

/** Without insignificant white space. */
const compact = (sql: string): string => sql.replace(/\s+/g, " ").replace(/ ?([(),]) ?/g, "$1");

interface Definition {
  readonly name: string;
  readonly sql: string;
}

/** What is wrong with the files of a directory, without the tables. */
export function checkDirectory(sqlite: SqliteModule, path: string): string[] {
  const file = join(path, DATA_FILE);
  try {
    checkFiles(sqlite, path);
    const db = openFile(sqlite, file, { readOnly: true });
    try {
      const { epoch, directory } = generationOf(db);
      if (userVersion(db) === MIGRATIONS.length && directory !== null) readEntries(path, epoch, directory);
    } finally {
      db.close();
    }
    return [];
  } catch (error) {
    return [(damageOf(error, file) as Error).message];
  }
}

function checkGeneration(path: string, { epoch, directory }: Generation): void {
  const file = join(path, MANIFEST_FILE);
  if (directory === null && !existsSync(file)) return;
  const manifest = Manifest.read(file);
  if (directory !== null && manifest.directory !== directory) {
    throw new DamageError(`\`${path}\`: ${DATA_FILE} and ${MANIFEST_FILE} belong to different data directories`);
  }
  if (epoch < manifest.tables || (directory === null && manifest.tables > 0)) {
    throw new DamageError(
      `\`${join(path, DATA_FILE)}\` or \`${DATA_FILE}-wal\` lost commits: the tables end at epoch ${epoch}, ` +
        `${MANIFEST_FILE} says ${manifest.tables}`,
    );
  }
}

/** An error of SQLite about damaged content does not name its file. */
export const damageOf = (error: unknown, file: string): unknown =>
  isDamage(error) ? new DamageError(`\`${file}\`: ${(error as Error).message}`, error) : error;

function directoryOf(path: string, lock: Database, db: Database): DataDirectory {
  const { epoch, directory } = generationOf(db);
  const journalEntries = directory === null ? createFiles(path, epoch) : openFiles(path, epoch, directory);
  const manifest = Manifest.open(join(path, MANIFEST_FILE));
  const journal = new Journal(join(path, JOURNAL_FILE), epoch + 1, manifest);
  let closed: Promise<void> | null = null;
  const close = async () => {
    await journal.close();
    manifest.close();
    flushWal(db);
    // The lock is released last: the next process finds the database closed.
    db.close();
    lock.close();
  };
  return {
    db,
    journal,
    manifest,
    journalEntries,
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

/** SQLite does it on close only if no prepared statement is left, and those end with the garbage collection. */
function flushWal(db: Database): void {
  try {
    db.exec("pragma wal_checkpoint(truncate)");
  } catch {
    // The next start reads the WAL.
  }
}

export interface DataDirectory {
  readonly db: Database;
  readonly journal: Journal;
  readonly manifest: Manifest;
  /** Entries that the tables do not have. */
  readonly journalEntries: readonly string[];
  close(): Promise<void>;
}

/**
 * The tables have no journal yet: a new directory, a backup, or schema 3. The first checkpoint stores the id of the directory in the
 * tables; until then this is repeated after a crash.
 */
function createFiles(path: string, epoch: number): readonly string[] {
  const [file, older] = [join(path, JOURNAL_FILE), join(path, JOURNAL3_FILE)];
  if (existsSync(file) && !existsSync(older)) renameSync(file, older);
  syncPath(path);
  const id = randomBytes(16).toString("hex");
  createJournalFile(file, id);
  Manifest.create(join(path, MANIFEST_FILE), id);
  return existsSync(older) ? readJournal3(older, epoch) : [];
}

function openFiles(path: string, epoch: number, id: string): readonly string[] {
  const entries = readEntries(path, epoch, id);
  rmSync(join(path, JOURNAL3_FILE), { force: true });
  return entries;
}

/** (4) */
function readEntries(path: string, epoch: number, id: string): readonly string[] {
  const file = join(path, JOURNAL_FILE);
  const { journal } = Manifest.read(join(path, MANIFEST_FILE));
  const { entries, damage } = readJournal(readJournalFile(file, id), epoch, journal);
  if (damage !== null) throw new DamageError(describeDamage(file, damage));
  return entries.map(({ text }) => text);
}

export function describeDamage(file: string, { what, offset, records }: JournalDamage): string {
  const more = records.length > RECORDS_SHOWN_MAX ? ` and ${records.length - RECORDS_SHOWN_MAX} more` : "";
  const affected = records.length === 0 ? "" : `; affected: ${records.slice(0, RECORDS_SHOWN_MAX).join(", ")}${more}`;
  return `\`${file}\` at offset ${offset}: ${what}${affected}`;
}

const RECORDS_SHOWN_MAX = 10;

export interface Generation {
  /** The oldest epoch of the journal that the tables do not have. */
  readonly epoch: number;
  /** Id of the directory. */
  readonly directory: string | null;
}

export function generationOf(db: Database): Generation {
  const { epoch, directory, sum } = db.prepare("select epoch, directory, sum from journal").get() as {
    epoch: number;
    directory: string | null;
    sum: number | null;
  };
  checkSum(sum, () => rowSum(epoch, directory), "journal", "epoch");
  return { epoch, directory };
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
      db.exec(`pragma user_version = ${found + at + 1}; pragma application_id = ${APPLICATION_ID + found + at + 1}`);
      db.exec("commit");
    } catch (error) {
      db.exec("rollback");
      throw error;
    }
  }
  const mark = APPLICATION_ID + migrations.length;
  if (applicationId(db) !== mark) db.exec(`pragma application_id = ${mark}`);
}

export const DATA_FILE = "cordum.db";
export const JOURNAL_FILE = "cordum.journal";
export const MANIFEST_FILE = "cordum.manifest";
/** The first schema with a manifest. */
const MANIFEST_SCHEMA = 4;
/** The journal of schema 3, until its entries are in the tables. */
export const JOURNAL3_FILE = "cordum.journal.3";
export const LOCK_FILE = "lock.db";
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
  pragma cell_size_check = on;
`;

export interface SqliteModule {
  readonly DatabaseSync: new (path: string, options?: { readonly readOnly?: boolean }) => Database;
}

export async function sqliteModule(): Promise<SqliteModule> {
  // Not an import: it would fail to load on runtimes without it, and bundlers would try to resolve it.
  const builtin = process.getBuiltinModule("node:sqlite") as SqliteModule | undefined;
  return builtin ?? ((await import("@photostructure/sqlite")) as unknown as SqliteModule);
}

export function openFile({ DatabaseSync }: SqliteModule, file: string, options: { readOnly?: boolean } = {}): Database {
  try {
    return new DatabaseSync(file, options);
  } catch (error) {
    throw new Error(`\`${file}\` cannot be opened: ${(error as Error).message}`, { cause: error });
  }
}

/** The lock is an exclusive transaction on a separate file, open for the lifetime of the process. */
export function lockDirectory(path: string, lock: Database): Database {
  const holderFile = join(path, HOLDER_FILE);
  try {
    lock.exec("pragma busy_timeout = 0");
    lock.exec("begin exclusive");
  } catch (error) {
    lock.close();
    if (isDamage(error)) throw new Error(`\`${join(path, LOCK_FILE)}\` is damaged: delete it, it holds no data`);
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

/** The primary result code of an SQLite error, 0 for other errors. */
export function sqliteCode(error: unknown): number {
  const { errcode, sqliteCode: code } = error as { errcode?: number; sqliteCode?: number };
  return (errcode ?? code ?? 0) & 0xff;
}

/** Corrupt, or not a database. */
export const isDamage = (error: unknown): boolean => [11, 26].includes(sqliteCode(error));

const isBusy = (error: unknown): boolean =>
  sqliteCode(error) === 5 || (error as Error).message.includes("database is locked");

function readHolder(file: string): string {
  try {
    return readFileSync(file, "utf8").trim() || "unknown";
  } catch {
    return "unknown";
  }
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
