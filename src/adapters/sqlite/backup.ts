/**
 * A copy of a data directory, made while its process goes on working.
 *
 * 1. The copy is the state at one moment, everything that was committed before it: the tables in one transaction, which
 *    hinders no writer, and what only the journal had.
 * 2. Under its final name it is whole, checked, and written to the disk. What was in the way is never overwritten.
 */
import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
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
import { readJournal } from "./journal.ts";
import { storeOperations } from "./operations.ts";
import { recoverAll } from "./participant.ts";
import { MIGRATIONS } from "./schema.ts";
import { syncPath } from "./sync-path.ts";
import { BatchWriter, WriteBatch } from "./write-batch.ts";

export type BackedUp =
  | { readonly kind: "done"; readonly file: string; readonly sizeBytes: number; readonly schema: number }
  /** There is no data there. */
  | { readonly kind: "no_data"; readonly file: string }
  /** Something is there already. */
  | { readonly kind: "taken"; readonly file: string };

export async function backUpDirectory(dir: string, into: string): Promise<BackedUp> {
  const source = join(resolve(dir), DATA_FILE);
  const file = join(resolve(into), DATA_FILE);
  if (!existsSync(source)) return { kind: "no_data", file: source };
  if (existsSync(file)) return { kind: "taken", file };
  mkdirSync(resolve(into), { recursive: true, mode: 0o700 });
  const fresh = `${file}.${process.pid}.new`;
  try {
    const schema = await copy(resolve(dir), fresh);
    syncPath(fresh);
    // Somebody else may have been faster: a rename would overwrite what they made.
    if (existsSync(file)) return { kind: "taken", file };
    renameSync(fresh, file);
    syncPath(resolve(into));
    return { kind: "done", file, sizeBytes: statSync(file).size, schema };
  } finally {
    rmSync(fresh, { force: true });
  }
}

/** Returns the schema of what was copied. */
async function copy(dir: string, fresh: string): Promise<number> {
  const sqlite = await sqliteModule();
  const [made, source] = [openFile(sqlite, fresh), openFile(sqlite, join(dir, DATA_FILE))];
  try {
    for (const db of [made, source]) db.exec("pragma busy_timeout = 5000");
    checkSchema(source, dir);
    migrate(made, MIGRATIONS, dir);
    made.prepare("attach ? as source").run(join(dir, DATA_FILE));
    takeIn(
      made,
      copyTables(made, dir, () => epochOf(source)),
    );
    const { quick_check } = made.prepare("pragma quick_check").get() as { quick_check: string };
    if (quick_check !== "ok") throw new Error(`the copy of \`${dir}\` is damaged: ${quick_check}`);
    return MIGRATIONS.length;
  } finally {
    source.close();
    made.close();
  }
}

function checkSchema(source: Database, dir: string): void {
  const schema = userVersion(source);
  if (schema === MIGRATIONS.length) return;
  if (schema === 0) throw new Error(`\`${join(dir, DATA_FILE)}\` is not a cordum database: give another directory`);
  throw new Error(
    `it is another cordum's (schema ${schema}, this one has ${MIGRATIONS.length}): copy it with that one`,
  );
}

/**
 * All rows as they were at one moment, and the entries of the journal that belong to them. The first read pins what the
 * transaction sees; if the journal started again before it was read, another moment is tried.
 */
function copyTables(made: Database, dir: string, epochNow: () => number): string[] {
  const tables = made.prepare("select name from main.sqlite_schema where type = 'table'").all() as { name: string }[];
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    made.exec("begin");
    const entries = entriesNow(made, dir, epochNow);
    if (entries !== null) {
      for (const { name } of tables) {
        made.exec(`delete from main.${name}; insert into main.${name} select * from source.${name}`);
      }
      made.exec("commit");
      return entries;
    }
    made.exec("rollback");
  }
  throw new Error("the journal starts again too often: try once more");
}

const TRIES_MAX = 100;

/** Null when nobody knows. `now` tells the epoch of the source at this moment, not that of the transaction. */
function entriesNow(made: Database, dir: string, now: () => number): string[] | null {
  const { epoch } = made.prepare("select epoch from source.journal").get() as { epoch: number };
  const entries = readJournal(join(dir, JOURNAL_FILE), epoch);
  return now() === epoch ? entries : null;
}

/** What the journal had, as if the process had been killed at that moment and started again. */
function takeIn(made: Database, entries: readonly string[]): void {
  const { participants } = storeOperations(made);
  recoverAll(participants, entries);
  const batch = new WriteBatch();
  for (const participant of participants) participant.handOver(batch);
  made.exec("begin");
  new BatchWriter(made).write(batch.statements());
  made.exec("commit");
}
