import { copyFileSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { checkpointEntries } from "../backup.ts";
import {
  checkDirectory,
  DATA_FILE,
  type Database,
  generationOf,
  JOURNAL_FILE,
  JOURNAL3_FILE,
  LOCK_FILE,
  lockDirectory,
  MANIFEST_FILE,
  migrate,
  openFile,
  type SqliteModule,
  sqliteModule,
} from "../database.ts";
import { syncPath } from "../files.ts";
import { type Entry, paddedJournal, readJournal, readJournal3 } from "../journal-file.ts";
import { Manifest, type ManifestState } from "../manifest.ts";
import { MIGRATIONS } from "../schema.ts";
import { applicableSteps, derivePlacements, Lost, type Placements, salvageRows } from "./salvage.ts";
import { ROW_TABLES, verifyTables } from "./verify.ts";

export interface RepairReport {
  /** What is wrong with the files; empty for an intact directory. */
  readonly problems: readonly string[];
  /** Rows that are saved, by table. */
  readonly kept: Readonly<Record<string, number>>;
  /** Rows and changes that are lost, as far as they can be named. */
  readonly lost: readonly string[];
  /** Where the damaged files are; null if nothing was written. */
  readonly copy: string | null;
}

export interface RepairOptions {
  /** False: reports only. */
  readonly write: boolean;
  readonly placements: Placements;
}

/**
 * Finds what can be saved of a data directory that no process has open, and writes it on request.
 *
 * 1. Everything happens on a copy of the files. They change only with `write`, after the result is complete and synced.
 * 2. The copy of the damaged files stays.
 * 3. The journal and the manifest are created again when the directory is opened.
 */
export async function repairDirectory(dir: string, { write, placements }: RepairOptions): Promise<RepairReport> {
  const path = resolve(dir);
  if (!FILES.some((name) => existsSync(join(path, name)))) throw new Error(`no data found in \`${path}\``);
  const sqlite = await sqliteModule();
  const lock = lockDirectory(path, openFile(sqlite, join(path, LOCK_FILE)));
  const work = write ? mkdtempSync(join(path, "damaged-")) : mkdtempSync(join(tmpdir(), "cordum-repair-"));
  let isWritten = false;
  try {
    for (const name of FILES) if (existsSync(join(path, name))) copyFileSync(join(path, name), join(work, name));
    const result = join(work, RESULT_FILE);
    const report = salvage(sqlite, work, result, placements);
    if (!write || report.problems.length === 0) return { ...report, copy: null };
    removeCreated(path, work);
    replaceFiles(path, work, result);
    isWritten = true;
    return { ...report, copy: work };
  } finally {
    if (!isWritten) rmSync(work, { recursive: true, force: true });
    lock.close();
  }
}

function salvage(
  sqlite: SqliteModule,
  work: string,
  result: string,
  placements: Placements,
): Omit<RepairReport, "copy"> {
  const problems = [...checkDirectory(sqlite, work)];
  let lost = new Lost();
  const target = openFile(sqlite, result);
  try {
    migrate(target, MIGRATIONS, work);
    target.exec("begin");
    const source = openSource(sqlite, work);
    try {
      if (source === null) lost.add(`unnamed rows of ${DATA_FILE}`);
      else {
        problems.push(...verifyTables(source));
        lost = salvageRows(source, target);
      }
      const entries = journalEntries(work, source, lost);
      const steps = applicableSteps(target, entries, lost);
      target.exec("commit");
      checkpointEntries(target, [JSON.stringify(steps)]);
    } finally {
      source?.close();
    }
    target.exec("begin");
    if (problems.length > 0) derivePlacements(target, placements, lost);
    target.exec("commit");
    const [problem] = verifyTables(target);
    if (problem !== undefined) throw new Error(`the repaired database is not intact: ${problem}`);
    return { problems: [...new Set(problems)], kept: rowCounts(target), lost: lost.list(target) };
  } finally {
    target.close();
  }
}

/** Null when the file is not a readable database of this application. */
function openSource(sqlite: SqliteModule, work: string): Database | null {
  const file = join(work, DATA_FILE);
  if (!existsSync(file)) return null;
  const db = openFile(sqlite, file, { readOnly: true });
  try {
    db.prepare("select epoch from journal").get();
    return db;
  } catch {
    db.close();
    return null;
  }
}

/** Every valid entry that the tables may not have. */
function journalEntries(work: string, source: Database | null, lost: Lost): readonly Entry[] {
  const [file, older] = [join(work, JOURNAL_FILE), join(work, JOURNAL3_FILE)];
  const generation = source === null ? null : readable(() => generationOf(source));
  if (existsSync(older) && generation !== null) return readJournal3(older, generation.epoch).map(asEntry);
  const manifest = readable((): ManifestState => Manifest.read(join(work, MANIFEST_FILE)));
  if (source !== null && generation === null) lost.add(`unnamed commits in ${DATA_FILE}`);
  if (generation !== null && manifest !== null && generation.epoch < manifest.tables) {
    lost.add(`unnamed commits of epochs ${generation.epoch} to ${manifest.tables - 1} in ${DATA_FILE}`);
  }
  if (!existsSync(file)) {
    if (generation?.directory !== null) lost.add(`unnamed changes in ${JOURNAL_FILE}`);
    return [];
  }
  const epoch = generation?.epoch ?? Math.max(1, (manifest?.journal.epoch ?? 0) - 1);
  const mark = manifest?.journal ?? { epoch: 0, end: 0, previousEnd: 0 };
  const { valid, damage } = readJournal(paddedJournal(readFileSync(file)), epoch, mark);
  for (const record of damage?.records ?? []) lost.add(`${record}: changes in the damaged journal entry`);
  if (damage !== null) lost.add(`unnamed changes in ${JOURNAL_FILE} at offset ${damage.offset}`);
  return valid;
}

const asEntry = (text: string): Entry => ({ epoch: 0, start: 0, end: 0, writeStart: 0, previousEnd: 0, text });

function readable<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

function rowCounts(db: Database): Record<string, number> {
  return Object.fromEntries(
    ROW_TABLES.map(({ name }) => [name, (db.prepare(`select count(*) as n from ${name}`).get() as { n: number }).n]),
  );
}

/** SQLite creates these files when it reads the copy. */
function removeCreated(path: string, work: string): void {
  rmSync(join(work, `${DATA_FILE}-shm`), { force: true });
  if (!existsSync(join(path, `${DATA_FILE}-wal`))) rmSync(join(work, `${DATA_FILE}-wal`), { force: true });
}

/** The WAL goes first: it must not be applied to another database. A crash on the way leaves a directory that does not start. */
function replaceFiles(path: string, work: string, result: string): void {
  for (const name of FILES) if (existsSync(join(work, name))) syncPath(join(work, name));
  syncPath(result);
  syncPath(work);
  for (const name of FILES) if (name !== DATA_FILE) rmSync(join(path, name), { force: true });
  rmSync(join(path, `${DATA_FILE}-shm`), { force: true });
  renameSync(result, join(path, DATA_FILE));
  syncPath(path);
}

const FILES = [`${DATA_FILE}-wal`, MANIFEST_FILE, JOURNAL_FILE, JOURNAL3_FILE, DATA_FILE];
const RESULT_FILE = "repaired.db";
