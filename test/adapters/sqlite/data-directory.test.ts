import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Database, migrate, openDataDirectory } from "../../../src/adapters/sqlite/database.ts";
import { APPLICATION_ID } from "../../../src/adapters/sqlite/integrity/header.ts";
import { MIGRATIONS } from "../../../src/adapters/sqlite/schema.ts";
import { numberOf } from "./directory.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cordum-dir-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("the data directory", () => {
  it("is created if missing, accessible to its owner only, with full sync", async () => {
    const path = join(dir, "a", "b");
    const directory = await openDataDirectory(path);
    expect(statSync(path).mode & 0o777).toBe(0o700);
    const pragma = (name: string) => Object.values(directory.db.prepare(`pragma ${name}`).get() as object)[0];
    expect([pragma("journal_mode"), pragma("synchronous"), pragma("user_version")]).toEqual([
      "wal",
      2,
      MIGRATIONS.length,
    ]);
    await directory.close();
    await directory.close();
  });

  it("names the file that cannot be opened", async () => {
    mkdirSync(join(dir, "cordum.db"));
    await expect(openDataDirectory(dir)).rejects.toThrow(`\`${join(dir, "cordum.db")}\` cannot be opened`);
    rmSync(join(dir, "cordum.db"), { recursive: true });
    await (await openDataDirectory(dir)).close();
  });

  it("is locked to one process, which the error names, until it is closed", async () => {
    const first = await openDataDirectory(dir);
    await expect(openDataDirectory(dir)).rejects.toThrow(`\`${dir}\` is in use by process ${process.pid}`);
    await first.close();
    const second = await openDataDirectory(dir);
    await expect(openDataDirectory(dir)).rejects.toThrow("in use");
    await second.close();
    expect(readFileSync(join(dir, "lock.pid"), "utf8")).toBe(`${process.pid}\n`);
  });
});

const NEWER = `pragma user_version = 1000; pragma application_id = ${APPLICATION_ID + 1000}`;

describe("the schema version", () => {
  const withDb = async (body: (db: Database) => void) => {
    const directory = await openDataDirectory(dir);
    try {
      body(directory.db);
    } finally {
      await directory.close();
    }
  };

  it("rejects a newer schema and releases the directory", async () => {
    await withDb((db) => db.exec(NEWER));
    for (let tries = 0; tries < 2; tries++)
      await expect(openDataDirectory(dir)).rejects.toThrow("newer cordum (schema 1000");
  });

  it("refuses a newer schema that changed a table, not as damage", async () => {
    await withDb((db) => db.exec(`alter table records rename column value to body; ${NEWER}`));
    await expect(openDataDirectory(dir)).rejects.toThrow("newer cordum (schema 1000");
  });

  it("runs each missing migration once", async () => {
    await withDb((db) => {
      const steps = [
        ...MIGRATIONS,
        "create table extra (n); insert into extra values (1)",
        "insert into extra values (2)",
      ];
      migrate(db, steps, dir);
      migrate(db, steps, dir);
      expect(numberOf(db, "select sum(n) from extra")).toBe(3);
      expect(numberOf(db, "pragma user_version")).toBe(steps.length);
    });
  });

  it("keeps the last version when a migration fails", async () => {
    await withDb((db) => {
      const steps = [...MIGRATIONS, "create table extra (n)", "create table half (n); insert into nowhere values (1)"];
      expect(() => migrate(db, steps, dir)).toThrow("nowhere");
      expect(numberOf(db, "pragma user_version")).toBe(MIGRATIONS.length + 1);
      expect(numberOf(db, "select count(*) from sqlite_schema where name = 'half'")).toBe(0);
    });
  });

  it("rejects a database of another application", async () => {
    await withDb((db) => db.exec("create table theirs (n); pragma user_version = 0; pragma application_id = 0"));
    await expect(openDataDirectory(dir)).rejects.toThrow("is not a cordum database");
  });
});
