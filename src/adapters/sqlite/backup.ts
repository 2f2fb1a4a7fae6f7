import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { BatchWriter, WriteBatch } from "./checkpoint.ts";
import { replay } from "./commit-executor.ts";
import {
  DATA_FILE,
  type Database,
  describeDamage,
  generationOf,
  JOURNAL_FILE,
  MANIFEST_FILE,
  migrate,
  openFile,
  sqliteModule,
} from "./database.ts";
import { syncPath } from "./files.ts";
import { DamageError } from "./integrity/checksum.ts";
import { userVersion } from "./integrity/header.ts";
import { verifyTables } from "./integrity/verify.ts";
import { readJournal, readJournalFile } from "./journal-file.ts";
import { Manifest } from "./manifest.ts";
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
    const journalEntries = copyTables(target, dir, () => generationOf(source).epoch);
    checkpointEntries(target, journalEntries);
    const [problem] = verifyTables(target);
    if (problem !== undefined) throw new DamageError(`copy of \`${dir}\`: ${problem}`);
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
      // The copy gets a journal and a manifest of its own when it is opened.
      target.exec("update main.journal set directory = null, sum = null");
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
  const { epoch, directory } = target.prepare("select epoch, directory from source.journal").get() as {
    epoch: number;
    directory: string | null;
  };
  if (directory === null) return []; // A backup, or a repaired directory, that was never opened.
  const file = join(dir, JOURNAL_FILE);
  const { journal } = Manifest.read(join(dir, MANIFEST_FILE));
  const read = () => readJournal(readJournalFile(file, directory), epoch, journal);
  let contents = read();
  // The read is not atomic: it may have missed entries of one half and seen later ones of the other.
  if (contents.damage !== null) contents = read();
  if (currentEpoch() !== epoch) return null;
  if (contents.damage !== null) throw new DamageError(describeDamage(file, contents.damage));
  return contents.entries.map(({ text }) => text);
}

/** Recovery, as after a crash at the time of the snapshot. */
export function checkpointEntries(target: Database, entries: readonly string[]): void {
  const { participants } = new Tables(target);
  replay(participants, entries);
  const batch = new WriteBatch();
  for (const participant of participants) participant.collect(batch);
  target.exec("begin");
  new BatchWriter(target).write(batch.statements());
  target.exec("commit");
}
