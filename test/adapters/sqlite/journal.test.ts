import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { backUpDirectory } from "../../../src/adapters/sqlite/backup.ts";
import { durableWriter, Journal, type WriteDurably } from "../../../src/adapters/sqlite/journal.ts";
import {
  createJournalFile,
  HALF_BYTES,
  HALVES,
  type JournalContents,
  readJournal,
  readJournalFile,
} from "../../../src/adapters/sqlite/journal-file.ts";
import { Manifest } from "../../../src/adapters/sqlite/manifest.ts";
import { openStorage } from "../../../src/adapters/sqlite/storage.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { put } from "../../../src/ports/store.ts";
import { gate } from "../../contract/bus/bus.subject.ts";
import {
  at,
  changeOf,
  counter,
  DOCS,
  type Doc,
  message,
  names,
  StoreKit,
  T0,
} from "../../contract/store/store.subject.ts";
import { numberOf, TestDirectory } from "./directory.ts";

const writeDurably = durableWriter();

let directory: TestDirectory;
beforeEach(() => {
  directory = new TestDirectory();
});
afterEach(() => directory.close());

const DIRECTORY = "5a".repeat(16);
const fileOf = () => join(directory.dir, "a.journal");
const manifestOf = () => join(directory.dir, "a.manifest");

describe("durable writer", () => {
  const LARGE = Buffer.alloc(8_192);

  /** Writes `times` times with the given sync times. Returns "t" for each sync in this thread, "p" for one in the pool. */
  async function syncs(times: number, syncMs: (write: number) => number): Promise<string> {
    const fd = openSync(join(directory.dir, "disk"), "w+");
    let [nowMs, places] = [0, ""];
    const write = durableWriter({
      nowMs: () => nowMs,
      sync: () => {
        nowMs += syncMs(places.length);
        places += "t";
      },
      syncInPool: async () => {
        nowMs += 100; // A busy thread delays the callback: that says nothing about the disk.
        places += "p";
      },
    });
    for (let at = 0; at < times; at++) await write(fd, LARGE, 0);
    closeSync(fd);
    return places;
  }
  const pool = (times: number) => "p".repeat(times);

  it("syncs in this thread while the disk is fast, and again after a slow phase", async () => {
    expect(await syncs(40, () => 0.2)).toBe("t".repeat(40));
    expect(await syncs(40, (write) => (write % 5 < 3 ? 30 : 0.2))).toBe("t".repeat(40));
    expect(await syncs(40, (write) => (write >= 10 && write < 14 ? 30 : 0.2))).toBe(
      `${"t".repeat(14)}${pool(16)}${"t".repeat(10)}`,
    );
  });

  it("syncs in the pool while the disk is slow, with rarer and rarer trials", async () => {
    expect(await syncs(120, () => 10)).toBe(`tttt${pool(16)}t${pool(32)}t${pool(64)}tp`);
    const trials = [...(await syncs(100_000, () => 10))].filter((place) => place === "t").length;
    expect(trials).toBeLessThan(40);
  });
});

describe("the journal", () => {
  const opened: { close(): unknown }[] = [];
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.close();
  });
  const open = (epoch: number, write?: WriteDurably) => {
    createJournalFile(fileOf(), DIRECTORY);
    Manifest.create(manifestOf(), DIRECTORY);
    const manifest = Manifest.open(manifestOf());
    const journal = new Journal(fileOf(), epoch, manifest, write);
    journal.reset(epoch);
    opened.push(journal, manifest);
    return journal;
  };
  const contents = (epoch: number, mark = Manifest.read(manifestOf()).journal): JournalContents =>
    readJournal(readJournalFile(fileOf(), DIRECTORY), epoch, mark);
  const texts = (epoch: number): string[] => {
    const { entries, damage } = contents(epoch);
    expect(damage).toBeNull();
    return entries.map(({ text }) => text);
  };

  it("returns synced entries in order, and none of another epoch", async () => {
    const journal = open(1);
    for (const text of ["one", "two ☂", "three"]) journal.append([text]);
    await journal.sync();
    expect(texts(1)).toEqual(["one", "two ☂", "three"]);
    expect(texts(2)).toEqual([]);
    journal.reset(2);
    journal.append(["four"]);
    await journal.sync();
    expect(texts(2)).toEqual(["four"]);
    expect(texts(3)).toEqual([]);
  });

  it("writes the next epoch into the other half, after the previous epoch", async () => {
    const positions: number[] = [];
    const busy = gate();
    const journal = open(1, async (fd, bytes, position) => {
      positions.push(position);
      if (positions.length === 1) await busy.passed;
      await writeDurably(fd, bytes, position);
    });
    journal.append(["one"]);
    const first = journal.sync();
    journal.append(["two"]);
    const second = journal.sync();
    journal.switchHalf(2);
    journal.append(["three"]);
    const third = journal.sync();
    expect(texts(1)).toEqual([]);
    busy.open();
    await Promise.all([first, second, third]);
    expect(positions).toEqual([HALVES[0], HALVES[0] + 22 + 3, HALVES[0] + HALF_BYTES]);
    expect(texts(1)).toEqual(["one", "two", "three"]);
    expect(texts(2)).toEqual(["three"]);
    journal.switchHalf(3);
    journal.append(["four"]);
    await journal.sync();
    expect(texts(2)).toEqual(["three", "four"]);
  });

  it("keeps the bytes of a late write while its half is used again", async () => {
    const busy = gate();
    const written: string[] = [];
    const journal = open(1, async (_fd, bytes) => {
      if (written.length === 0) await busy.passed;
      written.push(bytes.toString("utf8", 22));
    });
    const syncs: Promise<void>[] = [];
    const append = (text: string) => {
      journal.append([text]);
      syncs.push(journal.sync());
    };
    append("1 first");
    append("1 late");
    journal.switchHalf(2);
    append("2 late");
    journal.switchHalf(3);
    append("3 in the half of 1, and longer");
    busy.open();
    await Promise.all(syncs);
    expect(written).toEqual(["1 first", "1 late", "2 late", "3 in the half of 1, and longer"]);
  });

  it("keeps the bytes of a late write after a reset", async () => {
    const busy = gate();
    const written: string[] = [];
    const journal = open(1, async (_fd, bytes) => {
      if (written.length === 0) await busy.passed;
      written.push(bytes.toString("utf8", 22));
    });
    journal.append(["late"]);
    const first = journal.sync();
    journal.reset(2);
    journal.append(["next"]);
    const second = journal.sync();
    busy.open();
    await Promise.all([first, second]);
    expect(written).toEqual(["late", "next"]);
  });

  it("accepts an entry that fits only in UTF-8, and none that does not", () => {
    const journal = open(1);
    const room = HALF_BYTES - 22;
    expect(journal.append(["a".repeat(room + 1)])).toBe(false);
    expect(journal.append(["☂".repeat(room / 2)])).toBe(false);
    expect(journal.append(["a".repeat(room)])).toBe(true);
    expect(journal.append(["a"])).toBe(false);
  });

  it("does not write the next epoch after a failed write of the previous one", async () => {
    const errors = [null, new Error("disk I/O error")];
    const journal = open(1, async (...write) => {
      const error = errors.shift();
      if (error) throw error;
      await writeDurably(...write);
    });
    journal.append(["one"]);
    const first = journal.sync();
    journal.append(["lost"]);
    const second = journal.sync();
    journal.switchHalf(2);
    journal.append(["behind it"]);
    const third = journal.sync();
    await first;
    await expect(second).rejects.toThrow("disk");
    await expect(third).rejects.toThrow("disk");
    expect(journal.isBroken).toBe(true);
    expect(texts(1)).toEqual(["one"]);
  });

  describe("that is damaged", () => {
    const entryBytes = 22 + 3;

    /** Three entries in three writes, then the file with one byte changed. */
    async function flip(at: number): Promise<void> {
      const bytes = readFileSync(fileOf());
      bytes[at]! ^= 0x5a;
      writeFileSync(fileOf(), bytes);
    }
    async function three(): Promise<void> {
      const journal = open(1);
      for (const text of ["one", "two", "six"]) {
        journal.append([text]);
        await journal.sync();
      }
    }

    it("names the offset of every damaged entry, whichever byte is damaged", async () => {
      await three();
      const whole = readFileSync(fileOf());
      for (const entry of [0, 1, 2]) {
        for (let byte = 0; byte < entryBytes; byte++) {
          writeFileSync(fileOf(), whole);
          await flip(HALVES[0] + entry * entryBytes + byte);
          const { entries, damage, valid } = contents(1);
          expect(damage?.offset, `entry ${entry}, byte ${byte}`).toBe(HALVES[0] + entry * entryBytes);
          expect([entries.length, valid.length]).toEqual([entry, 2]);
        }
      }
    });

    it("is told from a torn tail without a manifest, unless the last write is damaged", async () => {
      await three();
      const nothing = { epoch: 0, end: 0, previousEnd: 0 };
      await flip(HALVES[0] + entryBytes + 10);
      expect(contents(1, nothing).damage).toMatchObject({ offset: HALVES[0] + entryBytes });
      await three();
      await flip(HALVES[0] + 2 * entryBytes + 10);
      expect(contents(1, nothing)).toMatchObject({ damage: null, entries: [{ text: "one" }, { text: "two" }] });
    });

    it("is told from a write that reached the disk in part: its entries were never synced", async () => {
      const journal = open(1);
      journal.append(["one"]);
      await journal.sync();
      const mark = Manifest.read(manifestOf()).journal;
      for (const text of ["two", "six"]) journal.append([text]);
      await journal.sync();
      await flip(HALVES[0] + entryBytes + 10);
      expect(contents(1, mark)).toMatchObject({ damage: null, entries: [{ text: "one" }] });
    });

    it("has lost the end of an epoch when the next epoch has entries", async () => {
      const journal = open(1);
      journal.append(["one"]);
      journal.append(["two"]);
      await journal.sync();
      journal.switchHalf(2);
      journal.append(["six"]);
      await journal.sync();
      await flip(HALVES[0] + entryBytes);
      const nothing = { epoch: 0, end: 0, previousEnd: 0 };
      for (const mark of [nothing, Manifest.read(manifestOf()).journal]) {
        expect(contents(1, mark).damage).toMatchObject({ offset: HALVES[0] + entryBytes });
        expect(contents(2, mark).damage).toBeNull();
      }
    });

    it("has entries of an epoch that the tables have not reached", async () => {
      const journal = open(5);
      journal.append(['[["row","job","j-1",']);
      await journal.sync();
      expect(contents(4).damage).toBeNull();
      expect(contents(3).damage).toMatchObject({
        what: expect.stringContaining("lost commits"),
        records: ["job `j-1`"],
      });
    });

    it("is truncated, zeroed, of another directory, or missing", async () => {
      await three();
      const whole = readFileSync(fileOf());
      writeFileSync(fileOf(), whole.subarray(0, whole.length - 1));
      expect(() => contents(1)).toThrow("bytes instead of");
      writeFileSync(fileOf(), Buffer.alloc(whole.length));
      expect(() => contents(1)).toThrow("first page");
      writeFileSync(fileOf(), whole);
      expect(() => readJournalFile(fileOf(), "ff".repeat(16))).toThrow("belongs to another data directory");
      rmSync(fileOf());
      expect(() => contents(1)).toThrow("cannot be read");
    });
  });

  it("writes entries that were appended during a write together", async () => {
    const sizes: number[] = [];
    const busy = gate();
    const journal = open(1, async (fd, bytes, position) => {
      sizes.push(bytes.length);
      await busy.passed;
      await writeDurably(fd, bytes, position);
    });
    journal.append(["first"]);
    const first = journal.sync();
    const others = names("e", 50).map((text) => {
      journal.append([text]);
      return journal.sync();
    });
    busy.open();
    await Promise.all([first, ...others]);
    expect(sizes).toHaveLength(2);
    expect(texts(1)).toEqual(["first", ...names("e", 50)]);
  });

  it("rejects every sync after a failed write until a reset", async () => {
    const errors = [new Error("disk I/O error")];
    const journal = open(1, async (...write) => {
      const error = errors.shift();
      if (error) throw error;
      await writeDurably(...write);
    });
    journal.append(["lost"]);
    const first = journal.sync();
    journal.append(["behind it"]);
    const second = journal.sync();
    await expect(first).rejects.toThrow("disk");
    await expect(second).rejects.toThrow("journal");
    await expect(journal.sync()).rejects.toThrow("journal");
    journal.reset(2);
    journal.append(["again"]);
    await journal.sync();
    expect(texts(2)).toEqual(["again"]);
  });

  it("append returns false when there is no room", async () => {
    const journal = open(1);
    expect(journal.append(["x".repeat(3_000_000)])).toBe(true);
    expect(journal.append(["x".repeat(3_000_000)])).toBe(false);
    journal.reset(2);
    expect(journal.append(["x".repeat(3_000_000)])).toBe(true);
    await journal.sync();
  });
});

const idsOf = async (kit: StoreKit, index: string) => (await kit.pages({ index, limit: 100, order: "oldest" })).flat();

describe("a store with a journal", () => {
  const openKit = async () => {
    const opened = await directory.open();
    const kit = new StoreKit({ store: opened.store, run: (promise) => promise, close: async () => {} });
    return { ...opened, kit };
  };
  const doc = (text: string, list: string): Doc => {
    return { text, lists: [at(list, 1)], queue: at("q", 1), dueMs: T0, counters: [counter(list)] };
  };

  it("checkpoints a record once for several changes, and a sent message never", async () => {
    const { kit, store, db, checkpoint } = await openKit();
    db.exec(
      "create table written (what); create trigger r after insert on records begin insert into written values ('r'); end",
    );
    db.exec("create trigger l after insert on lists begin insert into written values ('l'); end");
    db.exec("create trigger o after insert on outbox begin insert into written values ('o'); end");
    await kit.commit([put(DOCS, "a", null, doc("1", "new"))], { sends: [message("m")] });
    await kit.set("a", doc("2", "busy"));
    await store.sent(["m"]);
    await kit.set("a", doc("3", "done"));
    expect(await kit.load("a")).toMatchObject({ version: 3, value: { text: "3" } });
    expect(directory.commits).toBe(0);
    checkpoint();
    const written = db.prepare("select what from written order by what").all() as { what: string }[];
    expect(written.map(({ what }) => what)).toEqual(["l", "r"]);
    expect(await idsOf(kit, "done")).toEqual(["a"]);
    expect(await idsOf(kit, "busy")).toEqual([]);
  });

  it("merges list moves of a record between checkpoints", async () => {
    const { kit, checkpoint } = await openKit();
    await kit.set("a", doc("", "here"));
    checkpoint();
    await kit.set("a", doc("", "there"));
    await kit.set("a", doc("", "here"));
    await kit.set("b", doc("", "here"));
    await kit.set("b", null);
    expect([await idsOf(kit, "here"), await idsOf(kit, "there")]).toEqual([["a"], []]);
    await kit.set("a", null);
    expect([await idsOf(kit, "here"), await kit.counts()]).toEqual([[], {}]);
  });

  it("recovers records, places, counters, messages and fences from the journal", async () => {
    const { kit, store } = await openKit();
    await kit.set("a", doc("1", "new"));
    await kit.set("a", doc("2", "busy"));
    await kit.set("gone", doc("", "new"));
    await kit.set("gone", null);
    const fence = { kind: "fence", table: "doc", id: "a", fence: 7 } as const;
    await kit.commit([], { guards: [fence], sends: [message("kept"), message("sent")] });
    await store.sent(["sent"]);
    await kit.commit([]);
    expect(directory.commits).toBe(0);
    for (let boot = 0; boot < 3; boot++) {
      await directory.crash();
      const again = await openKit();
      expect(await again.kit.load("a")).toMatchObject({ version: 2, value: { text: "2" } });
      expect(await again.kit.load("gone")).toBeNull();
      expect([await idsOf(again.kit, "new"), await idsOf(again.kit, "busy")]).toEqual([[], ["a"]]);
      expect(await again.kit.counts()).toEqual({ busy: 1 });
      expect((await again.store.unsent(T0 + 1, 10)).map(({ id }) => id)).toEqual(["kept"]);
      const older = { ...fence, fence: 6 };
      expect(await again.kit.commit([], { guards: [older] })).toMatchObject({ kind: "refused" });
    }
  });

  it("does not replay entries of an earlier process after newer ones", async () => {
    const first = await openKit();
    await first.kit.set("a", doc("1", "new"));
    await first.kit.set("b", doc("1", "new"));
    await directory.crash();
    const second = await openKit();
    await second.kit.set("a", null);
    await directory.crash();
    const third = await openKit();
    expect(await idsOf(third.kit, "new")).toEqual(["b"]);
  });

  it("writes to the tables when the journal fails", async () => {
    const { kit, db } = await openKit();
    directory.writeErrors = [new Error("disk I/O error")];
    expect(await kit.set("a", doc("1", "new"))).toMatchObject({ kind: "committed" });
    expect(numberOf(db, "select count(*) from records")).toBe(1);
    await kit.set("a", doc("2", "new"));
    await directory.crash();
    expect(await (await openKit()).kit.load("a")).toMatchObject({ version: 2 });
  });

  it("rejects when journal and tables fail; the outcome is unknown", async () => {
    const { kit } = await openKit();
    directory.writeErrors = [new Error("disk I/O error")];
    directory.commitErrors = [new Error("database or disk is full"), new Error("database or disk is full")];
    await expect(kit.set("a", doc("1", "new"))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await expect(kit.load("a")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await kit.load("a")).toMatchObject({ version: 1 });
    await directory.crash();
    expect(await (await openKit()).kit.load("a")).toMatchObject({ version: 1 });
  });

  it("writes to the tables when the journal is full", async () => {
    const { kit, db } = await openKit();
    await kit.set("a", doc("x".repeat(3_000_000), "new"));
    await kit.set("b", doc("y".repeat(3_000_000), "new"));
    expect(numberOf(db, "select count(*) from records")).toBe(2);
    await directory.crash();
    const again = await openKit();
    expect(await idsOf(again.kit, "new")).toEqual(["a", "b"]);
  });

  it("finds records with non-ASCII ids after a restart", async () => {
    const ids = ["a", "z", "\u{fffd}", "\u{1f600}", "\u{e000}"];
    const first = await openKit();
    for (const id of ids) await first.kit.set(id, doc(id, "new"));
    await directory.crash();
    // The first boot caches the versions that it replays; the second reads the tables.
    await openKit();
    await directory.crash();
    const { kit } = await openKit();
    for (const id of ids) {
      expect(await kit.commit([put(DOCS, id, null, doc("again", "new"))]), id).toMatchObject({ kind: "stale" });
    }
  });

  it("a backup includes the journal, and the original continues", async () => {
    const { kit } = await openKit();
    await kit.set("a", doc("1", "new"));
    const into = join(directory.dir, "copy");
    expect(await backUpDirectory(directory.dir, into)).toMatchObject({ kind: "done" });
    await kit.set("a", doc("2", "busy"));
    const { writer, tables } = await openStorage(into, directory);
    const store = new SqliteStore(writer, tables);
    const copied = new StoreKit({ store, run: (promise) => promise, close: async () => {} });
    expect([await idsOf(copied, "new"), await copied.counts()]).toEqual([["a"], { new: 1 }]);
    await writer.close();
    expect(await idsOf(kit, "busy")).toEqual(["a"]);
  });

  it("checkpoints by itself after many commits", async () => {
    const { kit, db } = await openKit();
    for (const id of names("d", 40)) {
      await kit.commitTogether(names(id, 50).map((one) => changeOf([put(DOCS, one, null, { text: "" })])));
    }
    expect(numberOf(db, "select count(*) from records")).toBeGreaterThan(1_000);
  });
});
