import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SqliteBlobs } from "../../../src/adapters/sqlite/blobs.ts";
import { openFile, sqliteModule } from "../../../src/adapters/sqlite/database.ts";
import { rowSum } from "../../../src/adapters/sqlite/integrity/checksum.ts";
import { type RepairReport, repairDirectory } from "../../../src/adapters/sqlite/integrity/repair.ts";
import { HALVES } from "../../../src/adapters/sqlite/journal-file.ts";
import { MIGRATIONS } from "../../../src/adapters/sqlite/schema.ts";
import { Sequence } from "../../../src/adapters/sqlite/sequence.ts";
import { openStorage, type StorageOptions } from "../../../src/adapters/sqlite/storage.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { at, counter, DOCS, type Doc, message, NOTES, StoreKit, T0 } from "../../contract/store/store.subject.ts";
import { type Opened, TestDirectory } from "./directory.ts";

const PLACEMENTS = new Map(
  [DOCS, NOTES].map(({ name, placement }) => [name, (_id: string, value: never) => placement(value)] as const),
);
const DAMAGED = { name: "DamageError", code: "STORE_DAMAGED" };

let directory: TestDirectory;
beforeEach(() => {
  directory = new TestDirectory();
});
afterEach(() => directory.close());

const kitOf = ({ store }: Pick<Opened, "store">) =>
  new StoreKit({ store, run: (promise) => promise, close: async () => {} });

const doc = (text: string, list: string): Doc => {
  return { text, lists: [at(list, 1)], queue: at("q", 1), dueMs: T0, counters: [counter(list)] };
};

/** Long enough for a change to be stored as a delta. */
const long = (end: string): string => `${"text ".repeat(100)}${end}`;

async function open(): Promise<Opened & { readonly kit: StoreKit }> {
  const opened = await directory.open();
  return { ...opened, kit: kitOf(opened) };
}

/** Opens the directory as a process does. */
async function start(options: Partial<StorageOptions> = {}) {
  const { writer, tables } = await openStorage(directory.dir, {
    clock: directory.clock,
    log: directory.log,
    ...options,
  });
  const store = new SqliteStore(writer, tables);
  return { writer, store, kit: kitOf({ store }) };
}

describe("a row that does not match its checksum", () => {
  const CASES: Readonly<Record<string, readonly [sql: string, read: (opened: Opened) => Promise<unknown>]>> = {
    "a record, loaded": [
      "update records set value = replace(value, 'one', 'two')",
      (opened) => kitOf(opened).load("a"),
    ],
    "a record with a delta": [
      "update records set value = replace(value, 'end', 'bad')",
      (opened) => kitOf(opened).load("d"),
    ],
    "a version": ["update records set version = 7 where id = 'a'", (opened) => kitOf(opened).set("a", doc("2", "new"))],
    "a list": ["update records set value = value || ' '", (opened) => kitOf(opened).pages({ index: "new", limit: 9 })],
    "a list entry": ["update lists set score = 2", (opened) => kitOf(opened).pages({ index: "new", limit: 9 })],
    "a missing record of a list": [
      "delete from records where id = 'a'",
      (opened) => kitOf(opened).pages({ index: "new", limit: 9 }),
    ],
    "a due time": ["update records set due_ms = 5", (opened) => kitOf(opened).due(T0)],
    "a queue": ["update records set score = 0", (opened) => kitOf(opened).take("q", 9)],
    "a message of the outbox": ["update outbox set packet = '{}'", (opened) => opened.store.unsent(T0, 9)],
    "a fence": [
      "update fences set fence = 1",
      (opened) => kitOf(opened).commit([], { guards: [{ kind: "fence", table: "doc", id: "a", fence: 6 }] }),
    ],
    "a blob": [
      "update blobs set bytes = x'02'",
      (opened) => new SqliteBlobs(opened.writer, opened.tables.blobs, directory.clock).get("ctx:1"),
    ],
    "a sequence": [
      "update sequences set next = 5",
      (opened) => Sequence.open(opened.writer, opened.tables.sequences, directory.log, "fence"),
    ],
  };

  it.each(Object.keys(CASES))("is an error: %s", async (name) => {
    const [sql, read] = CASES[name]!;
    const first = await open();
    const fence = { kind: "fence", table: "doc", id: "a", fence: 7 } as const;
    await first.kit.set("a", doc("one", "new"));
    await first.kit.set("d", { text: long("start") });
    first.checkpoint();
    await first.kit.set("d", { text: long("end") });
    await first.kit.commit([], { guards: [fence], sends: [message("m")] });
    await new SqliteBlobs(first.writer, first.tables.blobs, directory.clock).put("ctx:1", new Uint8Array([1]), 2 * T0);
    await Sequence.open(first.writer, first.tables.sequences, directory.log, "fence");
    first.checkpoint();
    await directory.crash();
    const opened = await open();
    opened.db.exec(sql);
    await expect(read(opened)).rejects.toMatchObject(DAMAGED);
    await directory.crash();
    if (!name.includes("missing")) await expect(start()).rejects.toMatchObject(DAMAGED);
  });

  it("is an error at the start: a counter, and the epoch", async () => {
    for (const sql of ["update counters set value = 9", "update journal set epoch = epoch + 1"]) {
      const first = await open();
      await first.kit.set(`a${sql}`, doc("one", "new"));
      first.checkpoint();
      first.db.exec(sql);
      await directory.crash();
      await expect(start({ startCheckBytesMax: 0 })).rejects.toMatchObject(DAMAGED);
      const db = openFile(await sqliteModule(), join(directory.dir, "cordum.db"));
      db.exec("update counters set value = 1, sum = null; update journal set sum = null");
      db.close();
    }
  });

  it("covers every column, also null and other scripts", () => {
    const sums = [
      rowSum("a", "b"),
      rowSum("ab", ""),
      rowSum("a", null),
      rowSum("a", ""),
      rowSum("a", 1),
      rowSum("ä", "b"),
      rowSum("雨", "b"),
      rowSum("零", "b"),
    ];
    expect(new Set(sums).size).toBe(sums.length);
  });
});

describe("repair", () => {
  const repair = (write = false): Promise<RepairReport> =>
    repairDirectory(directory.dir, { write, placements: PLACEMENTS });

  const contents = () =>
    readdirSync(directory.dir)
      .filter((name) => name.startsWith("cordum."))
      .map((name) => [name, readFileSync(join(directory.dir, name)).toString("base64")]);

  it("finds nothing in an intact directory, after a crash too, and changes nothing", async () => {
    const { kit } = await open();
    await kit.set("a", doc("one", "new"));
    await directory.crash();
    expect(await repair(true)).toMatchObject({ problems: [], lost: [], copy: null, kept: { records: 1, lists: 1 } });
    const { kit: again, writer } = await start();
    expect(await again.load("a")).toMatchObject({ version: 1 });
    await expect(repair()).rejects.toThrow("in use");
    await writer.close();
  });

  it("shows what is lost without a change, then saves the rest and keeps the damaged files", async () => {
    const { kit, db, checkpoint } = await open();
    for (const id of ["a", "b", "c"]) await kit.set(id, doc(id, "new"));
    checkpoint();
    db.exec("update records set value = replace(value, '\"b\"', '\"x\"') where id = 'b'");
    await directory.crash();
    const before = contents();
    const shown = await repair();
    expect(shown).toMatchObject({ lost: ["doc `b`"], kept: { records: 2, lists: 2 }, copy: null });
    expect(shown.problems).toEqual(["cordum.db: doc `b` does not match its checksum"]);
    expect(contents()).toEqual(before);

    const written = await repair(true);
    expect(written).toMatchObject({ problems: shown.problems, lost: shown.lost });
    const kept = readdirSync(written.copy!).map((name) => [
      name,
      readFileSync(join(written.copy!, name)).toString("base64"),
    ]);
    expect(kept).toEqual(before.filter(([name]) => !name!.endsWith("-shm")));
    const { kit: again, writer } = await start();
    expect((await again.pages({ index: "new", limit: 9 })).flat().sort()).toEqual(["a", "c"]);
    expect(await again.counts()).toEqual({ new: 2 });
    expect((await again.take("q", 9)).sort()).toEqual(["a", "c"]);
    await writer.close();
  });

  it("saves the journal entries behind a damaged one, and names the changes that depend on it", async () => {
    const { kit } = await open();
    await kit.set("whole", doc("one", "new"));
    await kit.set("part", { text: long("one") });
    const at = journalEnd();
    await kit.set("whole", doc("two", "busy"));
    await kit.set("part", { text: long("two") });
    const damaged = journalEnd();
    await kit.set("part", { text: long("three") });
    for (let version = 0; version < 6; version++) await kit.set("whole", doc(`later ${version}`, "done"));
    await kit.set("after", doc("one", "new"));
    await directory.crash();
    const file = join(directory.dir, "cordum.journal");
    const bytes = readFileSync(file);
    bytes.fill(0, at, damaged);
    writeFileSync(file, bytes);
    await expect(start()).rejects.toThrow(`cordum.journal\` at offset ${at}:`);
    const { lost } = await repair(true);
    expect(lost).toContain("doc `part`: changes after version 1");
    const { kit: again, writer } = await start();
    expect(await again.load("part")).toMatchObject({ version: 1 });
    expect(await again.load("after")).toMatchObject({ version: 1 });
    expect(await again.load("whole")).toMatchObject({ version: 8, value: { text: "later 5" } });
    const lists = ["new", "busy", "done"].map((index) => again.pages({ index, limit: 9 }));
    expect((await Promise.all(lists)).map((pages) => pages.flat())).toEqual([["after"], [], ["whole"]]);
    expect(await again.counts()).toEqual({ new: 1, done: 1 });
    await writer.close();
  });

  it("saves the journal of a directory whose database is gone", async () => {
    const { kit } = await open();
    await kit.set("a", doc("one", "new"));
    await directory.crash();
    writeFileSync(join(directory.dir, "cordum.db"), "");
    await expect(start()).rejects.toThrow("missing or empty");
    const { problems, kept } = await repair(true);
    expect([problems.length, kept.records]).toEqual([1, 1]);
    const { kit: again, writer } = await start();
    expect(await again.load("a")).toMatchObject({ value: { text: "one" } });
    await writer.close();
  });

  it("takes a flipped bit of the schema version for damage, not for another version or application", async () => {
    const { kit } = await open();
    await kit.set("a", doc("one", "new"));
    await directory.crash();
    const sqlite = await sqliteModule();
    for (const bit of [0, 1, 2, 3, 30]) {
      const db = openFile(sqlite, join(directory.dir, "cordum.db"));
      db.exec(`pragma user_version = ${MIGRATIONS.length ^ (1 << bit)}`);
      db.close();
      await expect(start()).rejects.toMatchObject(DAMAGED);
      const { problems, lost, kept } = await repair(true);
      expect([problems, lost, kept.records]).toEqual([[expect.stringContaining("the header is damaged")], [], 1]);
      const { kit: again, writer } = await start();
      expect(await again.load("a")).toMatchObject({ value: { text: "one" } });
      await writer.close();
    }
  });

  it("refuses a directory without data", async () => {
    await expect(repair()).rejects.toThrow("no data found");
  });

  /** The end of the used part of the first half. */
  function journalEnd(): number {
    const bytes = readFileSync(join(directory.dir, "cordum.journal"));
    let end = HALVES[1] as number;
    while (end > HALVES[0] && bytes[end - 1] === 0) end -= 1;
    return end;
  }
});
