/**
 * A copy of a data directory, made while its process goes on working.
 *
 * 1. The copy is the state at one moment, everything that was committed before it: SQLite reads it in one transaction,
 *    which hinders no writer.
 * 2. Under its final name it is whole, checked, and written to the disk. What was in the way is never overwritten.
 */
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { DATA_FILE, openFile, sqliteModule } from "./sqlite.ts";

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
    const schema = await copy(source, fresh);
    sync(fresh);
    // Somebody else may have been faster: a rename would overwrite what they made.
    if (existsSync(file)) return { kind: "taken", file };
    renameSync(fresh, file);
    sync(resolve(into));
    return { kind: "done", file, sizeBytes: statSync(file).size, schema };
  } finally {
    rmSync(fresh, { force: true });
  }
}

/** Returns the schema of what was copied. */
async function copy(source: string, fresh: string): Promise<number> {
  const sqlite = await sqliteModule();
  const from = openFile(sqlite, source);
  try {
    from.exec("pragma busy_timeout = 5000");
    from.prepare("vacuum into ?").run(fresh);
  } finally {
    from.close();
  }
  const made = openFile(sqlite, fresh);
  try {
    const { quick_check } = made.prepare("pragma quick_check").get() as { quick_check: string };
    if (quick_check !== "ok") throw new Error(`the copy of \`${source}\` is damaged: ${quick_check}`);
    const { user_version } = made.prepare("pragma user_version").get() as { user_version: number };
    if (user_version === 0) throw new Error(`\`${source}\` is not a cordum database: give another directory`);
    return user_version;
  } finally {
    made.close();
  }
}

function sync(path: string): void {
  const open = openSync(path, "r");
  try {
    fsyncSync(open);
  } finally {
    closeSync(open);
  }
}
