import { closeSync, openSync, readSync } from "node:fs";
import type { Database } from "../database.ts";
import { DamageError } from "./checksum.ts";

/** The schema version is in the header twice, so a flipped bit is not taken for a newer version. Older databases have no mark. */
export function checkVersion(db: Database, file: string): void {
  const marked = applicationId(db) - APPLICATION_ID;
  const version = userVersion(db);
  if (marked > 0 && marked <= SCHEMA_MAX && marked !== version) {
    throw new DamageError(`\`${file}\`: the header is damaged (schema ${version} and ${marked})`);
  }
}

/** SQLite opens a database of an unknown write format for reading only. */
export function checkFormat(file: string): void {
  const fd = openSync(file, "r");
  try {
    const header = Buffer.alloc(20);
    readSync(fd, header);
    const [write, read] = [header[18], header[19]];
    if (write !== read) throw new DamageError(`\`${file}\`: the header is damaged (formats ${write} and ${read})`);
  } finally {
    closeSync(fd);
  }
}

export function userVersion(db: Database): number {
  return (db.prepare("pragma user_version").get() as { user_version: number }).user_version;
}

export const applicationId = (db: Database): number =>
  (db.prepare("pragma application_id").get() as { application_id: number }).application_id;

/** "cord" in ASCII. The schema version is added to it. */
export const APPLICATION_ID = 0x636f7264;
const SCHEMA_MAX = 10_000;
