import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { backUpDirectory } from "../../../src/adapters/sqlite/backup.ts";
import { durableWriter, Journal, readJournal, type WriteDurably } from "../../../src/adapters/sqlite/journal.ts";
import { openHere } from "../../../src/adapters/sqlite/link.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { Writer } from "../../../src/adapters/sqlite/writer.ts";
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

const fileOf = () => join(directory.dir, "a.journal");

describe("who waits for the disk", () => {
  const LARGE = Buffer.alloc(8_192);

  /** Writes so often, each taking as long as `tookMs` says; "h" for each that was waited for here, "a" for one aside. */
  async function written(times: number, tookMs: (write: number) => number): Promise<string> {
    const fd = openSync(join(directory.dir, "disk"), "w+");
    let [nowMs, ways] = [0, ""];
    const write = durableWriter({
      nowMs: () => nowMs,
      sync: () => {
        nowMs += tookMs(ways.length);
        ways += "h";
      },
      syncAside: async () => {
        nowMs += 100; // This thread had other things to do: that says nothing about the disk.
        ways += "a";
      },
    });
    for (let at = 0; at < times; at++) await write(fd, LARGE, 0);
    closeSync(fd);
    return ways;
  }
  const aside = (times: number) => "a".repeat(times);

  it("this thread while it is quick, and again soon after it was slow for a while", async () => {
    expect(await written(40, () => 0.2)).toBe("h".repeat(40));
    expect(await written(40, (write) => (write % 5 < 3 ? 30 : 0.2))).toBe("h".repeat(40));
    expect(await written(40, (write) => (write >= 10 && write < 14 ? 30 : 0.2))).toBe(
      `${"h".repeat(14)}${aside(16)}${"h".repeat(10)}`,
    );
  });

  it("another one while it is slow, with a look now and then, ever more rarely", async () => {
    expect(await written(120, () => 10)).toBe(`hhhh${aside(16)}h${aside(32)}h${aside(64)}ha`);
    const looks = [...(await written(100_000, () => 10))].filter((way) => way === "h").length;
    expect(looks).toBeLessThan(40);
  });
});

describe("the journal", () => {
  const opened: Journal[] = [];
  afterEach(async () => {
    for (const journal of opened.splice(0)) await journal.close();
  });
  const open = (epoch: number, write?: WriteDurably) => {
    const journal = new Journal(fileOf(), epoch, write);
    journal.restart(epoch);
    opened.push(journal);
    return journal;
  };

  it("gives back what was safe, in order, and nothing of another epoch", async () => {
    const journal = open(1);
    for (const text of ["one", "two ☂", "three"]) journal.append([text]);
    await journal.safe();
    expect(readJournal(fileOf(), 1)).toEqual(["one", "two ☂", "three"]);
    expect(readJournal(fileOf(), 2)).toEqual([]);
    journal.restart(2);
    journal.append(["four"]);
    await journal.safe();
    expect(readJournal(fileOf(), 2)).toEqual(["four"]);
    expect(readJournal(fileOf(), 3)).toEqual([]);
  });

  it("the next epoch begins while the tables take in the last one, and reaches the disk behind it", async () => {
    const places: number[] = [];
    const busy = gate();
    const journal = open(1, async (fd, bytes, place) => {
      places.push(place);
      if (places.length === 1) await busy.passed;
      await writeDurably(fd, bytes, place);
    });
    journal.append(["one"]);
    const first = journal.safe();
    journal.append(["two"]);
    const second = journal.safe();
    journal.begin(2);
    journal.append(["three"]);
    const third = journal.safe();
    expect(readJournal(fileOf(), 1)).toEqual([]);
    busy.open();
    await Promise.all([first, second, third]);
    expect(places).toEqual([0, 14 + 3, 4 * 1_024 * 1_024]);
    expect(readJournal(fileOf(), 1)).toEqual(["one", "two", "three"]);
    expect(readJournal(fileOf(), 2)).toEqual(["three"]);
    journal.begin(3);
    journal.append(["four"]);
    await journal.safe();
    expect(readJournal(fileOf(), 2)).toEqual(["three", "four"]);
  });

  it("nothing of the next epoch is written where something of the last one is missing", async () => {
    const errors = [null, new Error("disk I/O error")];
    const journal = open(1, async (...write) => {
      const error = errors.shift();
      if (error) throw error;
      await writeDurably(...write);
    });
    journal.append(["one"]);
    const first = journal.safe();
    journal.append(["lost"]);
    const second = journal.safe();
    journal.begin(2);
    journal.append(["behind it"]);
    const third = journal.safe();
    await first;
    await expect(second).rejects.toThrow("disk");
    await expect(third).rejects.toThrow("disk");
    expect(journal.isBroken).toBe(true);
    expect(readJournal(fileOf(), 1)).toEqual(["one"]);
  });

  it("ends at an entry that is not whole, wherever it was cut", async () => {
    const journal = open(1);
    for (const text of ["one", "two", "three"]) journal.append([text]);
    await journal.safe();
    const whole = readFileSync(fileOf());
    const entry = 14 + 3;
    for (let cut = entry; cut < 2 * entry; cut++) {
      const file = openSync(fileOf(), "r+");
      writeSync(file, whole, 0, whole.length, 0);
      writeSync(file, Buffer.from([whole[cut]! ^ 0x5a]), 0, 1, cut);
      closeSync(file);
      expect(readJournal(fileOf(), 1), `byte ${cut}`).toEqual(["one"]);
    }
  });

  it("what comes while the disk is busy goes there in one write", async () => {
    const sizes: number[] = [];
    const busy = gate();
    const journal = open(1, async (fd, bytes, place) => {
      sizes.push(bytes.length);
      await busy.passed;
      await writeDurably(fd, bytes, place);
    });
    journal.append(["first"]);
    const first = journal.safe();
    const others = names("e", 50).map((text) => {
      journal.append([text]);
      return journal.safe();
    });
    busy.open();
    await Promise.all([first, ...others]);
    expect(sizes).toHaveLength(2);
    expect(readJournal(fileOf(), 1)).toEqual(["first", ...names("e", 50)]);
  });

  it("a write that failed makes all after it unsafe, until the journal starts again", async () => {
    const errors = [new Error("disk I/O error")];
    const journal = open(1, async (...write) => {
      const error = errors.shift();
      if (error) throw error;
      await writeDurably(...write);
    });
    journal.append(["lost"]);
    const first = journal.safe();
    journal.append(["behind it"]);
    const second = journal.safe();
    await expect(first).rejects.toThrow("disk");
    await expect(second).rejects.toThrow("journal");
    await expect(journal.safe()).rejects.toThrow("journal");
    journal.restart(2);
    journal.append(["again"]);
    await journal.safe();
    expect(readJournal(fileOf(), 2)).toEqual(["again"]);
  });

  it("says when something does not fit", async () => {
    const journal = open(1);
    expect(journal.append(["x".repeat(3_000_000)])).toBe(true);
    expect(journal.append(["x".repeat(3_000_000)])).toBe(false);
    journal.restart(2);
    expect(journal.append(["x".repeat(3_000_000)])).toBe(true);
    await journal.safe();
  });
});

const idsOf = async (kit: StoreKit, index: string) => (await kit.pages({ index, limit: 100, order: "oldest" })).flat();

describe("a store with a journal in front of its tables", () => {
  const openKit = async () => {
    const opened = await directory.open();
    const kit = new StoreKit({ store: opened.store, run: (promise) => promise, close: async () => {} });
    return { ...opened, kit };
  };
  const doc = (text: string, list: string): Doc => {
    return { text, lists: [at(list, 1)], queue: at("q", 1), dueMs: T0, counters: [counter(list)] };
  };

  it("writes a record that changed several times once, and a message that was sent not at all", async () => {
    const { kit, store, db, fold } = await openKit();
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
    fold();
    const written = db.prepare("select what from written order by what").all() as { what: string }[];
    expect(written.map(({ what }) => what)).toEqual(["l", "r"]);
    expect(await idsOf(kit, "done")).toEqual(["a"]);
    expect(await idsOf(kit, "busy")).toEqual([]);
  });

  it("a record that left a list and came back, and one that came and went, stand where they should", async () => {
    const { kit, fold } = await openKit();
    await kit.set("a", doc("", "here"));
    fold();
    await kit.set("a", doc("", "there"));
    await kit.set("a", doc("", "here"));
    await kit.set("b", doc("", "here"));
    await kit.set("b", null);
    expect([await idsOf(kit, "here"), await idsOf(kit, "there")]).toEqual([["a"], []]);
    await kit.set("a", null);
    expect([await idsOf(kit, "here"), await kit.counts()]).toEqual([[], {}]);
  });

  it("after a crash everything is there that only the journal had: records, places, counters, messages, fences", async () => {
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

  it("what an earlier boot left is not read again behind what this one writes", async () => {
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

  it("a journal that fails is replaced by the tables, and nobody notices", async () => {
    const { kit, db } = await openKit();
    directory.writeErrors = [new Error("disk I/O error")];
    expect(await kit.set("a", doc("1", "new"))).toMatchObject({ kind: "committed" });
    expect(numberOf(db, "select count(*) from records")).toBe(1);
    await kit.set("a", doc("2", "new"));
    await directory.crash();
    expect(await (await openKit()).kit.load("a")).toMatchObject({ version: 2 });
  });

  it("when the tables fail too, the call is rejected, and what it did comes to light later or not at all", async () => {
    const { kit } = await openKit();
    directory.writeErrors = [new Error("disk I/O error")];
    directory.commitErrors = [new Error("database or disk is full"), new Error("database or disk is full")];
    await expect(kit.set("a", doc("1", "new"))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await expect(kit.load("a")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await kit.load("a")).toMatchObject({ version: 1 });
    await directory.crash();
    expect(await (await openKit()).kit.load("a")).toMatchObject({ version: 1 });
  });

  it("what does not fit into the journal goes into the tables", async () => {
    const { kit, db } = await openKit();
    await kit.set("a", doc("x".repeat(3_000_000), "new"));
    await kit.set("b", doc("y".repeat(3_000_000), "new"));
    expect(numberOf(db, "select count(*) from records")).toBe(2);
    await directory.crash();
    const again = await openKit();
    expect(await idsOf(again.kit, "new")).toEqual(["a", "b"]);
  });

  it("a record is found after a restart, in whatever script its id is written", async () => {
    const ids = ["a", "z", "\u{fffd}", "\u{1f600}", "\u{e000}"];
    const first = await openKit();
    for (const id of ids) await first.kit.set(id, doc(id, "new"));
    await directory.crash();
    // The first boot takes the journal in and remembers what it wrote; the second has to ask the tables.
    await openKit();
    await directory.crash();
    const { kit } = await openKit();
    for (const id of ids) {
      expect(await kit.commit([put(DOCS, id, null, doc("again", "new"))]), id).toMatchObject({ kind: "stale" });
    }
  });

  it("a copy has what only the journal had, and the original goes on", async () => {
    const { kit } = await openKit();
    await kit.set("a", doc("1", "new"));
    const into = join(directory.dir, "copy");
    expect(await backUpDirectory(directory.dir, into)).toMatchObject({ kind: "done" });
    await kit.set("a", doc("2", "busy"));
    const link = await openHere(into);
    const store = new SqliteStore(new Writer(link, directory.clock, directory.log));
    const copied = new StoreKit({ store, run: (promise) => promise, close: async () => {} });
    expect([await idsOf(copied, "new"), await copied.counts()]).toEqual([["a"], { new: 1 }]);
    await link.close();
    expect(await idsOf(kit, "busy")).toEqual(["a"]);
  });

  it("memory is bounded: a long row of commits reaches the tables by itself", async () => {
    const { kit, db } = await openKit();
    for (const id of names("d", 40)) {
      await kit.commitTogether(names(id, 50).map((one) => changeOf([put(DOCS, one, null, { text: "" })])));
    }
    expect(numberOf(db, "select count(*) from records")).toBeGreaterThan(1_000);
  });
});
