import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { BatchWriter, WriteBatch } from "./checkpoint.ts";
import { replay } from "./commit-executor.ts";
import {
  DATA_FILE,
  type Database,
  epochOf,
  JOURNAL_FILE,
  migrate,
  openFile,
  sqliteModule,
  userVersion,
} from "./database.ts";
import { readJournal, syncPath } from "./journal.ts";
import { MIGRATIONS } from "./schema.ts";
import { Tables } from "./storage.ts";

export type BackedUp =
  | { readonly kind: "done"; readonly file: string; readonly sizeBytes: number; readonly schema: number }
  /** The source has no database. */
  | { readonly kind: "no_data"; readonly file: string }
  /** The target exists. */
  | { readonly kind: "taken"; readonly file: string };

/**
 * Copies a data directory while its process runs.
 *
 * 1. The copy is a consistent snapshot of everything committed: one read transaction on the tables, plus the journal.
 * 2. The copy gets its final name after it is complete, checked and synced. An existing file is never overwritten.
 */
export async function backUpDirectory(dir: string, into: string): Promise<BackedUp> {
  const source = join(resolve(dir), DATA_FILE);
  const file = join(resolve(into), DATA_FILE);
  if (!existsSync(source)) return { kind: "no_data", file: source };
  if (existsSync(file)) return { kind: "taken", file };
  mkdirSync(resolve(into), { recursive: true, mode: 0o700 });
  const temporary = `${file}.${process.pid}.new`;
  try {
    const schema = await copy(resolve(dir), temporary);
    syncPath(temporary);
    // Another backup may have finished first: a rename would overwrite it.
    if (existsSync(file)) return { kind: "taken", file };
    renameSync(temporary, file);
    syncPath(resolve(into));
    return { kind: "done", file, sizeBytes: statSync(file).size, schema };
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Returns the schema version. */
async function copy(dir: string, file: string): Promise<number> {
  const sqlite = await sqliteModule();
  const [target, source] = [openFile(sqlite, file), openFile(sqlite, join(dir, DATA_FILE))];
  try {
    for (const db of [target, source]) db.exec("pragma busy_timeout = 5000");
    checkSchema(source, dir);
    migrate(target, MIGRATIONS, dir);
    target.prepare("attach ? as source").run(join(dir, DATA_FILE));
    const journalEntries = copyTables(target, dir, () => epochOf(source));
    checkpointEntries(target, journalEntries);
    const { quick_check } = target.prepare("pragma quick_check").get() as { quick_check: string };
    if (quick_check !== "ok") throw new Error(`the copy of \`${dir}\` is damaged: ${quick_check}`);
    return MIGRATIONS.length;
  } finally {
    source.close();
    target.close();
  }
}

function checkSchema(source: Database, dir: string): void {
  const schema = userVersion(source);
  if (schema === MIGRATIONS.length) return;
  if (schema === 0) throw new Error(`\`${join(dir, DATA_FILE)}\` is not a cordum database: use another directory`);
  throw new Error(
    `\`${dir}\` was written by another version of cordum (schema ${schema}, this version has ${MIGRATIONS.length}): ` +
      "back it up with that version",
  );
}

/**
 * Copies all rows of one snapshot and returns the journal entries that belong to it. The first read of the transaction pins
 * the snapshot. When a checkpoint ends before the journal is read, another snapshot is tried.
 */
function copyTables(target: Database, dir: string, currentEpoch: () => number): string[] {
  const tables = target.prepare("select name from main.sqlite_schema where type = 'table'").all() as { name: string }[];
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    target.exec("begin");
    const entries = readSnapshotJournal(target, dir, currentEpoch);
    if (entries !== null) {
      for (const { name } of tables) {
        target.exec(`delete from main.${name}; insert into main.${name} select * from source.${name}`);
      }
      target.exec("commit");
      return entries;
    }
    target.exec("rollback");
  }
  throw new Error("checkpoints are too frequent for a backup: try again");
}

const TRIES_MAX = 100;

/** Null when a checkpoint ended meanwhile. `currentEpoch` reads outside of the transaction. */
function readSnapshotJournal(target: Database, dir: string, currentEpoch: () => number): string[] | null {
  const { epoch } = target.prepare("select epoch from source.journal").get() as { epoch: number };
  const entries = readJournal(join(dir, JOURNAL_FILE), epoch);
  return currentEpoch() === epoch ? entries : null;
}

/** Recovery, as after a crash at the time of the snapshot. */
function checkpointEntries(target: Database, entries: readonly string[]): void {
  const { participants } = new Tables(target);
  replay(participants, entries);
  const batch = new WriteBatch();
  for (const participant of participants) participant.collect(batch);
  target.exec("begin");
  new BatchWriter(target).write(batch.statements());
  target.exec("commit");
}
