import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { backUpDirectory } from "../../../src/adapters/sqlite/backup.ts";
import { FoldingThread } from "../../../src/adapters/sqlite/checkpointer.ts";
import type { Checkpointer } from "../../../src/adapters/sqlite/commit-executor.ts";
import { DATA_FILE, openFile, PRAGMAS, sqliteModule } from "../../../src/adapters/sqlite/database.ts";
import { type BatchStatement, BatchWriter } from "../../../src/adapters/sqlite/write-batch.ts";
import { put } from "../../../src/ports/store.ts";
import { gate } from "../../contract/bus/bus.subject.ts";
import { at, changeOf, counter, DOCS, type Doc, message, StoreKit, T0 } from "../../contract/store/store.subject.ts";
import { numberOf, TestDirectory } from "./directory.ts";

let directory: TestDirectory;
let folder: HeldFolder;
beforeEach(() => {
  directory = new TestDirectory();
  folder = new HeldFolder(join(directory.dir, DATA_FILE));
});
afterEach(() => directory.close());

/** Writes when it is let, and then fails if it is told to. */
class HeldFolder implements Checkpointer {
  readonly #file: string;
  readonly sheets: (readonly BatchStatement[])[] = [];
  held = gate();
  failure: Error | null = null;
  /** Written, but nobody hears of it. */
  isMute = false;
  readonly written = gate();

  constructor(file: string) {
    this.#file = file;
  }

  async checkpoint(passages: readonly BatchStatement[]): Promise<void> {
    this.sheets.push(structuredClone(passages));
    await this.held.passed;
    if (this.failure) throw this.failure;
    const db = openFile(await sqliteModule(), this.#file);
    db.exec(`${PRAGMAS} begin immediate`);
    new BatchWriter(db).write(passages);
    db.exec("commit");
    db.close();
    this.written.open();
    if (this.isMute) await new Promise(() => {});
  }

  async close(): Promise<void> {}
}

/** Enough for whatever waits for nothing. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

const doc = (text: string, list: string): Doc => {
  return { text, lists: [at(list, 1)], queue: at("q", 1), dueMs: T0, counters: [counter(list)] };
};
const idsOf = async (kit: StoreKit, index: string) => (await kit.pages({ index, limit: 100, order: "oldest" })).flat();

async function openKit(unfoldedMax = 2) {
  const opened = await directory.open({}, { folder, unfoldedMax });
  const kit = new StoreKit({ store: opened.store, run: (promise) => promise, close: async () => {} });
  return { ...opened, kit };
}

describe("while the tables are being written beside", () => {
  it("what was changed since is read once, also when it is in the tables and nobody has said so yet", async () => {
    const { kit } = await openKit(1);
    folder.held.open();
    const change = async (text: string) => {
      const before = await kit.load("a");
      const { lists = [], ...rest } = before?.value ?? doc("", "new");
      await kit.commit([put(DOCS, "a", before, { ...rest, text, lists: [...lists, at(text, 1)] })]);
    };
    const seen = async () => (await kit.load("a"))?.value.lists?.map(({ name }) => name);
    await change("1");
    await folder.written.passed;
    await turns();
    folder.isMute = true;
    await change("2");
    await turns();
    expect(folder.sheets).toHaveLength(2);
    expect(await seen()).toEqual(["new", "1", "2"]);
    await change("3");
    await change("4");
    expect(await seen()).toEqual(["new", "1", "2", "3", "4"]);
  });

  it("commits go on, and what is on its way is seen: records, versions, counters, fences", async () => {
    const { kit, store, db } = await openKit();
    const fence = { kind: "fence", table: "doc", id: "a", fence: 7 } as const;
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))], {
      guards: [fence],
      sends: [message("m")],
    });
    expect(folder.sheets).toHaveLength(1);
    expect(numberOf(db, "select count(*) from records")).toBe(0);
    expect(await kit.load("a")).toMatchObject({ version: 1, value: { text: "1" } });
    expect(await kit.commit([put(DOCS, "a", null, doc("again", "new"))])).toMatchObject({ kind: "stale" });
    expect(await kit.commit([], { guards: [{ ...fence, fence: 6 }] })).toMatchObject({ kind: "refused" });
    expect(await kit.counts()).toEqual({ new: 2 });
    await kit.set("a", doc("2", "busy"));
    await kit.set("b", null);
    await store.sent(["m"]);
    expect(await kit.load("b")).toBeNull();
    expect(await kit.counts()).toEqual({ busy: 1 });
    folder.held.open();
    expect([await idsOf(kit, "new"), await idsOf(kit, "busy")]).toEqual([[], ["a"]]);
    expect(await store.unsent(T0 + 1, 10)).toEqual([]);
    expect(numberOf(db, "select count(*) from fences")).toBe(1);
  });

  it("a counter that was gone and came back is counted on", async () => {
    const { kit } = await openKit();
    await kit.set("a", doc("1", "new"));
    await kit.set("b", doc("1", "other"));
    expect(folder.sheets).toHaveLength(1);
    await kit.set("a", null);
    folder.held.open();
    await turns();
    folder.held = gate();
    await kit.set("c", doc("1", "new"));
    await kit.set("d", doc("1", "other"));
    expect(folder.sheets).toHaveLength(2);
    folder.held.open();
    expect(await idsOf(kit, "new")).toEqual(["c"]);
    expect(await kit.counts()).toEqual({ new: 1, other: 2 });
  });

  it("who takes waits for the tables, those behind with him, and nobody overtakes", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    const order: string[] = [];
    const taken = kit.take("q", 10).then((ids) => order.push(`taken ${ids}`));
    await turns();
    const changed = kit.set("c", doc("1", "new")).then(() => order.push("changed"));
    await turns();
    expect(order).toEqual([]);
    folder.held.open();
    await Promise.all([taken, changed]);
    expect(order).toEqual(["taken a,b", "changed"]);
  });

  it("who asks for a list waits for the tables, nobody waits with him, and he sees all that was there", async () => {
    const { kit, db } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    await kit.set("c", doc("1", "new"));
    const listed = idsOf(kit, "new");
    await turns();
    await kit.set("a", doc("2", "busy"));
    expect(await kit.load("a")).toMatchObject({ version: 2 });
    folder.held.open();
    expect(await listed).toEqual(["b", "c"]);
    expect(folder.sheets).toHaveLength(2);
    expect(numberOf(db, "select count(*) from records")).toBe(3);
  });

  it("what is due is asked for beside, too, and is given as it stands when it is given", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    const later = { ...doc("2", "busy"), dueMs: T0 + 60_000 };
    const due = kit.due(T0);
    await turns();
    await kit.set("a", later);
    await kit.set("c", doc("1", "new"));
    const first = folder.held;
    folder.held = gate();
    first.open();
    await folder.written.passed;
    await turns();
    // Its own turn has begun: what comes now is in no sheet, and counts all the same.
    expect(folder.sheets).toHaveLength(2);
    await kit.set("b", later);
    folder.held.open();
    expect(await due).toEqual(["c"]);
    expect(await kit.due(T0 + 60_000, 10, T0)).toEqual(["a", "b"]);
  });

  it("what could not be written there is written here, before what came after it", async () => {
    const { kit, db } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    await kit.set("a", doc("2", "busy"));
    folder.failure = new Error("database or disk is full");
    folder.held.open();
    expect([await idsOf(kit, "new"), await idsOf(kit, "busy")]).toEqual([["b"], ["a"]]);
    expect(await kit.counts()).toEqual({ new: 1, busy: 1 });
    expect(numberOf(db, "select version from records where id = 'a'")).toBe(2);
    await directory.crash();
    expect(await (await openKit()).kit.load("a")).toMatchObject({ version: 2 });
  });

  for (const isWritten of [false, true]) {
    it(`a crash ${isWritten ? "after" : "before"} it loses nothing and repeats nothing`, async () => {
      const { kit, store } = await openKit();
      await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))], {
        sends: [message("m"), message("kept")],
      });
      await kit.set("a", doc("2", "busy"));
      await store.sent(["m"]);
      await kit.set("b", null);
      folder.isMute = true;
      if (isWritten) {
        folder.held.open();
        await folder.written.passed;
      }
      for (let boot = 0; boot < 3; boot++) {
        await directory.crash();
        folder = new HeldFolder(join(directory.dir, DATA_FILE));
        folder.held.open();
        const again = await openKit();
        expect(await again.kit.load("a")).toMatchObject({ version: 2 + boot, value: { text: `${2 + boot}` } });
        expect(await again.kit.load("b")).toBeNull();
        expect([await idsOf(again.kit, "new"), await idsOf(again.kit, "busy")]).toEqual([[], ["a"]]);
        expect(await again.kit.counts()).toEqual({ busy: 1 });
        expect((await again.store.unsent(T0 + 1, 10)).map(({ id }) => id)).toEqual(["kept"]);
        // What the file has of an earlier boot must not be taken for what came after it.
        await again.kit.set("a", doc(`${3 + boot}`, "busy"));
      }
    });
  }

  it("a copy has what is on its way, and what came after it", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    await kit.set("a", doc("2", "busy"));
    const into = join(directory.dir, "copy");
    expect(await backUpDirectory(directory.dir, into)).toMatchObject({ kind: "done" });
    const copy = openFile(await sqliteModule(), join(into, DATA_FILE));
    expect(copy.prepare("select id, version from records order by id").all()).toMatchObject([
      { id: "a", version: 2 },
      { id: "b", version: 1 },
    ]);
    copy.close();
    folder.held.open();
    expect(await idsOf(kit, "busy")).toEqual(["a"]);
  });

  it("a journal without room makes batches wait, and a bad call among them harms nobody", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    await kit.set("c", doc("x".repeat(3_000_000), "new"));
    let isIn = false;
    const waiting = Promise.allSettled([
      kit.set("d", doc("x".repeat(3_000_000), "new")),
      kit.commitTogether([changeOf([put(DOCS, "e", null, doc("1", "new"))])]),
    ]).then((all) => {
      isIn = true;
      return all;
    });
    await turns();
    expect(isIn).toBe(false);
    folder.held.open();
    expect((await waiting).map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
    expect(await idsOf(kit, "new")).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("those who gather behind it are bounded: then they wait", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    const later = ["c", "d", "e", "f", "g", "h", "i", "j"];
    for (const id of later) await kit.set(id, doc("1", "new"));
    let isIn = false;
    const last = kit.set("k", doc("1", "new")).then(() => {
      isIn = true;
    });
    await turns();
    expect(isIn).toBe(false);
    folder.held.open();
    await last;
    expect(await idsOf(kit, "new")).toEqual(["a", "b", ...later, "k"]);
  });
});

describe("the thread that folds", () => {
  it("says what went wrong, goes on afterwards, and comes again after it died", async () => {
    const { db } = await directory.open();
    const thread = new FoldingThread(join(directory.dir, DATA_FILE), PRAGMAS);
    const row = (n: number): BatchStatement => {
      return { sql: "insert into counters (grp, name, value) values (?, ?, ?)", width: 3, values: ["g", `c${n}`, n] };
    };
    await thread.checkpoint([row(1)]);
    await expect(thread.checkpoint([row(2), row(1)])).rejects.toThrow("UNIQUE");
    await expect(thread.checkpoint([{ sql: "no sql", width: 1, values: [1] }])).rejects.toThrow("syntax");
    await thread.checkpoint([row(3), row(4)]);
    await thread.close();
    await thread.checkpoint([row(5)]);
    await thread.close();
    const names = db.prepare("select name from counters order by name").all() as { name: string }[];
    expect(names.map(({ name }) => name)).toEqual(["c1", "c3", "c4", "c5"]);
  });

  it("keeps the process alive while somebody waits for it, and no longer", async () => {
    await directory.open();
    const thread = new FoldingThread(join(directory.dir, DATA_FILE), PRAGMAS);
    const ports = () => process.getActiveResourcesInfo().filter((name) => name === "MessagePort").length;
    const before = ports();
    const folded = thread.checkpoint([]);
    expect(ports()).toBe(before + 1);
    await folded;
    expect(ports()).toBe(before);
    const closed = thread.close();
    expect(ports()).toBe(before + 1);
    await closed;
  });

  it("that cannot open the tables is an error, not silence", async () => {
    const thread = new FoldingThread(join(directory.dir, "no", "such", "folder.db"), PRAGMAS);
    await expect(thread.checkpoint([])).rejects.toThrow("gone");
    await thread.close();
  });
});
