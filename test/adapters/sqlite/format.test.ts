import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { backUpDirectory } from "../../../src/adapters/sqlite/backup.ts";
import { SqliteBlobs } from "../../../src/adapters/sqlite/blobs.ts";
import { SqliteBus } from "../../../src/adapters/sqlite/bus/bus.ts";
import { openDataDirectory, openFile, sqliteModule } from "../../../src/adapters/sqlite/database.ts";
import { MIGRATIONS } from "../../../src/adapters/sqlite/schema.ts";
import { Sequence } from "../../../src/adapters/sqlite/sequence.ts";
import { openStorage } from "../../../src/adapters/sqlite/storage.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import type { Delivery } from "../../../src/ports/bus.ts";
import { RESULT, SUBMIT } from "../../../src/protocol/subjects.ts";
import { Recorder, request, result } from "../../contract/bus/bus.subject.ts";
import { ManualClock } from "../../contract/manual-clock.ts";
import { DOCS, message, NOTES, StoreKit, T0 } from "../../contract/store/store.subject.ts";
import * as v3 from "./format-v3.ts";
import * as v4 from "./format-v4.ts";

const HALF_BYTES = 4 * 1_024 * 1_024;
const log = { write: () => {} };

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cordum-format-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function writeTables(sql: string): Promise<void> {
  const db = openFile(await sqliteModule(), join(dir, "cordum.db"));
  db.exec(sql);
  db.close();
}

/** The data directory of each released schema. */
const WRITE: Readonly<Record<number, () => Promise<void>>> = {
  3: async () => {
    await writeTables(v3.TABLES);
    const journal = Buffer.alloc(2 * HALF_BYTES);
    journal.write(v3.FIRST_HALF, 0, "hex");
    journal.write(v3.SECOND_HALF, HALF_BYTES, "hex");
    writeFileSync(join(dir, "cordum.journal"), journal);
  },
  4: async () => {
    await writeTables(v4.TABLES);
    const page = 4_096;
    const journal = Buffer.alloc(page + 2 * HALF_BYTES);
    journal.write(v4.PAGE.start, 0, "hex");
    journal.write(v4.PAGE.end, page - 4, "hex");
    journal.write(v4.FIRST_HALF, page, "hex");
    journal.write(v4.SECOND_HALF, page + HALF_BYTES, "hex");
    writeFileSync(join(dir, "cordum.journal"), journal);
    writeFileSync(join(dir, "cordum.manifest"), Buffer.from(v4.MANIFEST, "hex"));
  },
};
const SCHEMAS = Object.keys(WRITE).map(Number);

async function open(path: string) {
  const clock = new ManualClock();
  const storage = await openStorage(path, { clock, log });
  const store = new SqliteStore(storage.writer, storage.tables);
  const kit = new StoreKit({ store, run: (promise) => promise, close: async () => {} });
  return { ...storage, clock, store, kit };
}

/** Everything that the store of the fixture has. */
async function checkStore({ store, kit }: Awaited<ReturnType<typeof open>>): Promise<void> {
  const long = "a text that is long enough for a change to be written as a line of its own, behind the document".repeat(
    2,
  );
  const lists = await Promise.all(["new", "busy", "done"].map((index) => kit.pages({ index, limit: 10 })));
  expect(lists.map((pages) => pages.flat())).toEqual([[], [], ["a"]]);
  expect(await kit.load("a")).toEqual({
    id: "a",
    version: 3,
    value: {
      text: `${long}!!`,
      lists: [{ name: "done", score: 5 }],
      queue: { name: "q", score: 5 },
      dueMs: T0 + 5,
      counters: [{ group: "slots", name: "done" }],
    },
  });
  expect(await kit.load('b"\\ü\n', NOTES)).toMatchObject({ version: 1, value: { text: "odd names" } });
  expect(await kit.load("gone")).toBeNull();
  const others = await Promise.all(["x1", "x2", "x3", "x4"].map((id) => kit.load(id)));
  expect(others.map((found) => found?.value.text ?? null)).toEqual([null, "2, changed", "3", "4"]);
  expect(await kit.counts()).toEqual({ done: 1, 'c"ount': 1 });
  expect(await store.total("started")).toBe(3);
  expect(await store.unsent(T0, 10)).toEqual([message("m-kept")]);
  expect(await kit.take("q", 10)).toEqual(["a"]);
  expect(await kit.take("q", 10, T0, 1_000, NOTES)).toEqual(['b"\\ü\n']);
  expect(await kit.due(T0 + 5)).toEqual(["a"]);
  const guards = [{ kind: "fence", table: DOCS.name, id: "a", fence: 6 }] as const;
  expect(await kit.commit([], { guards })).toMatchObject({ kind: "refused" });
}

it("covers the current schema", () => {
  expect(SCHEMAS.at(-1)).toBe(MIGRATIONS.length);
});

it.each(SCHEMAS)("opens a data directory of schema %i with entries of two epochs in its journal", async (schema) => {
  await WRITE[schema]!();
  for (let boot = 0; boot < 2; boot++) {
    const opened = await open(dir);
    await checkStore(opened);
    await opened.writer.close();
  }
});

it.each(SCHEMAS)("reads the messages, blobs and sequences of schema %i", async (schema) => {
  await WRITE[schema]!();
  const { writer, tables, clock } = await open(dir);
  expect(await new SqliteBlobs(writer, tables.blobs, clock).get("ctx:1")).toEqual(new Uint8Array([0, 1, 254, 255]));
  expect((await Sequence.open(writer, tables.sequences, log, "fence")).next()).toBe(100_001);
  const options = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 64 };
  const bus = await SqliteBus.open(writer, tables.messages, clock, log, options);
  const received = new Recorder<Delivery>();
  const handler = async (delivery: Delivery) => {
    received.add(delivery);
    return { kind: "ack" } as const;
  };
  await bus.consume(RESULT, "scheduler", handler);
  await bus.consume(SUBMIT, "scheduler", handler);
  await clock.pass(60_000);
  await received.count(2);
  expect(received.seen).toEqual([
    { id: "orphan", subject: RESULT, attempt: 1, content: { kind: "packet", packet: result("orphan") } },
    { id: "delayed", subject: SUBMIT, attempt: 2, content: { kind: "packet", packet: request("delayed") } },
  ]);
  await writer.close();
});

it("keeps the entries of an older journal after a crash at any point of the migration", async () => {
  await WRITE[3]!();
  // The files of the new schema exist, the tables do not refer to them yet.
  const directory = await openDataDirectory(dir);
  await directory.close();
  const opened = await open(dir);
  await checkStore(opened);
  await opened.writer.close();
  await (await openDataDirectory(dir)).close();
  expect(readdirSync(dir)).not.toContain("cordum.journal.3");
});

it("backs up a data directory of the current schema, and refuses an older one", async () => {
  const into = join(dir, "copy");
  await WRITE[3]!();
  await expect(backUpDirectory(dir, into)).rejects.toThrow(
    "schema 3, this version has 4): back it up with that version",
  );
  rmSync(join(dir, "cordum.db"));
  await WRITE[4]!();
  expect(await backUpDirectory(dir, into)).toMatchObject({ kind: "done", schema: 4 });
  const opened = await open(into);
  await checkStore(opened);
  await opened.writer.close();
});
