import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { backUpDirectory } from "../../../src/adapters/sqlite/backup.ts";
import {
  type BatchStatement,
  BatchWriter,
  type Checkpointer,
  CheckpointThread,
  WriteBatch,
} from "../../../src/adapters/sqlite/checkpoint.ts";
import { DATA_FILE, openFile, PRAGMAS, sqliteModule } from "../../../src/adapters/sqlite/database.ts";
import { textSum } from "../../../src/adapters/sqlite/integrity/checksum.ts";
import { addRow } from "../../../src/adapters/sqlite/rows.ts";
import { put } from "../../../src/ports/store.ts";
import { gate } from "../../contract/bus/bus.subject.ts";
import { at, changeOf, counter, DOCS, type Doc, message, StoreKit, T0 } from "../../contract/store/store.subject.ts";
import { numberOf, TestDirectory } from "./directory.ts";

let directory: TestDirectory;
let checkpointer: HeldCheckpointer;
beforeEach(() => {
  directory = new TestDirectory();
  checkpointer = new HeldCheckpointer(join(directory.dir, DATA_FILE));
});
afterEach(() => directory.close());

/** Writes once `held` is open, unless `failure` is set. */
class HeldCheckpointer implements Checkpointer {
  readonly #file: string;
  readonly batches: (readonly BatchStatement[])[] = [];
  held = gate();
  failure: Error | null = null;
  /** Writes, and never resolves. */
  isMute = false;
  readonly written = gate();

  constructor(file: string) {
    this.#file = file;
  }

  async checkpoint(statements: readonly BatchStatement[]): Promise<void> {
    this.batches.push(structuredClone(statements));
    await this.held.passed;
    if (this.failure) throw this.failure;
    const db = openFile(await sqliteModule(), this.#file);
    db.exec(`${PRAGMAS} begin immediate`);
    new BatchWriter(db).write(statements);
    db.exec("commit");
    db.close();
    this.written.open();
    if (this.isMute) await new Promise(() => {});
  }

  async close(): Promise<void> {}
}

/** Enough macrotasks for calls that do not wait for the checkpoint. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

const doc = (text: string, list: string): Doc => {
  return { text, lists: [at(list, 1)], queue: at("q", 1), dueMs: T0, counters: [counter(list)] };
};
const idsOf = async (kit: StoreKit, index: string) => (await kit.pages({ index, limit: 100, order: "oldest" })).flat();

async function openKit(memtableRowsMax = 2) {
  const opened = await directory.open({}, { checkpointer, memtableRowsMax });
  const kit = new StoreKit({ store: opened.store, run: (promise) => promise, close: async () => {} });
  return { ...opened, kit };
}

describe("during a checkpoint", () => {
  it("reads each delta once, also before the end of the checkpoint is known", async () => {
    const { kit } = await openKit(1);
    checkpointer.held.open();
    const change = async (text: string) => {
      const before = await kit.load("a");
      const { lists = [], ...rest } = before?.value ?? doc("", "new");
      await kit.commit([put(DOCS, "a", before, { ...rest, text, lists: [...lists, at(text, 1)] })]);
    };
    const seen = async () => (await kit.load("a"))?.value.lists?.map(({ name }) => name);
    await change("1");
    await checkpointer.written.passed;
    await turns();
    checkpointer.isMute = true;
    await change("2");
    await turns();
    expect(checkpointer.batches).toHaveLength(2);
    expect(await seen()).toEqual(["new", "1", "2"]);
    await change("3");
    await change("4");
    expect(await seen()).toEqual(["new", "1", "2", "3", "4"]);
  });

  it("commits continue and see frozen records, versions, counters and fences", async () => {
    const { kit, store, db } = await openKit();
    const fence = { kind: "fence", table: "doc", id: "a", fence: 7 } as const;
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))], {
      guards: [fence],
      sends: [message("m")],
    });
    expect(checkpointer.batches).toHaveLength(1);
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
    checkpointer.held.open();
    expect([await idsOf(kit, "new"), await idsOf(kit, "busy")]).toEqual([[], ["a"]]);
    expect(await store.unsent(T0 + 1, 10)).toEqual([]);
    expect(numberOf(db, "select count(*) from fences")).toBe(1);
  });

  it("keeps a counter that returns to zero and is raised again", async () => {
    const { kit } = await openKit();
    await kit.set("a", doc("1", "new"));
    await kit.set("b", doc("1", "other"));
    expect(checkpointer.batches).toHaveLength(1);
    await kit.set("a", null);
    checkpointer.held.open();
    await turns();
    checkpointer.held = gate();
    await kit.set("c", doc("1", "new"));
    await kit.set("d", doc("1", "other"));
    expect(checkpointer.batches).toHaveLength(2);
    checkpointer.held.open();
    expect(await idsOf(kit, "new")).toEqual(["c"]);
    expect(await kit.counts()).toEqual({ new: 1, other: 2 });
  });

  it("a take waits for the checkpoint, and later batches wait behind it", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    const order: string[] = [];
    const taken = kit.take("q", 10).then((ids) => order.push(`taken ${ids}`));
    await turns();
    const changed = kit.set("c", doc("1", "new")).then(() => order.push("changed"));
    await turns();
    expect(order).toEqual([]);
    checkpointer.held.open();
    await Promise.all([taken, changed]);
    expect(order).toEqual(["taken a,b", "changed"]);
  });

  it("a list waits for a checkpoint without blocking batches, and sees all earlier commits", async () => {
    const { kit, db } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    await kit.set("c", doc("1", "new"));
    const listed = idsOf(kit, "new");
    await turns();
    await kit.set("a", doc("2", "busy"));
    expect(await kit.load("a")).toMatchObject({ version: 2 });
    checkpointer.held.open();
    expect(await listed).toEqual(["b", "c"]);
    expect(checkpointer.batches).toHaveLength(2);
    expect(numberOf(db, "select count(*) from records")).toBe(3);
  });

  it("a due query waits for a checkpoint without blocking batches, and sees later commits too", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    const later = { ...doc("2", "busy"), dueMs: T0 + 60_000 };
    const due = kit.due(T0);
    await turns();
    await kit.set("a", later);
    await kit.set("c", doc("1", "new"));
    const first = checkpointer.held;
    checkpointer.held = gate();
    first.open();
    await checkpointer.written.passed;
    await turns();
    // The checkpoint of the query has started: it does not include the next commit.
    expect(checkpointer.batches).toHaveLength(2);
    await kit.set("b", later);
    checkpointer.held.open();
    expect(await due).toEqual(["c"]);
    expect(await kit.due(T0 + 60_000, 10, T0)).toEqual(["a", "b"]);
  });

  it("repeats a failed checkpoint in the main thread, before later rows", async () => {
    const { kit, db } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    await kit.set("a", doc("2", "busy"));
    checkpointer.failure = new Error("database or disk is full");
    checkpointer.held.open();
    expect([await idsOf(kit, "new"), await idsOf(kit, "busy")]).toEqual([["b"], ["a"]]);
    expect(await kit.counts()).toEqual({ new: 1, busy: 1 });
    expect(numberOf(db, "select version from records where id = 'a'")).toBe(2);
    await directory.crash();
    expect(await (await openKit()).kit.load("a")).toMatchObject({ version: 2 });
  });

  for (const isWritten of [false, true]) {
    it(`recovers from a crash ${isWritten ? "after" : "before"} its transaction`, async () => {
      const { kit, store } = await openKit();
      await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))], {
        sends: [message("m"), message("kept")],
      });
      await kit.set("a", doc("2", "busy"));
      await store.sent(["m"]);
      await kit.set("b", null);
      checkpointer.isMute = true;
      if (isWritten) {
        checkpointer.held.open();
        await checkpointer.written.passed;
      }
      for (let boot = 0; boot < 3; boot++) {
        await directory.crash();
        checkpointer = new HeldCheckpointer(join(directory.dir, DATA_FILE));
        checkpointer.held.open();
        const again = await openKit();
        expect(await again.kit.load("a")).toMatchObject({ version: 2 + boot, value: { text: `${2 + boot}` } });
        expect(await again.kit.load("b")).toBeNull();
        expect([await idsOf(again.kit, "new"), await idsOf(again.kit, "busy")]).toEqual([[], ["a"]]);
        expect(await again.kit.counts()).toEqual({ busy: 1 });
        expect((await again.store.unsent(T0 + 1, 10)).map(({ id }) => id)).toEqual(["kept"]);
        // Entries of earlier boots in the file must not be replayed after this one.
        await again.kit.set("a", doc(`${3 + boot}`, "busy"));
      }
    });
  }

  it("a backup includes frozen rows and later commits", async () => {
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
    checkpointer.held.open();
    expect(await idsOf(kit, "busy")).toEqual(["a"]);
  });

  it("a full journal makes batches wait for the checkpoint", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    await kit.set("c", doc("x".repeat(3_000_000), "new"));
    let isSettled = false;
    const waiting = Promise.allSettled([
      kit.set("d", doc("x".repeat(3_000_000), "new")),
      kit.commitTogether([changeOf([put(DOCS, "e", null, doc("1", "new"))])]),
    ]).then((all) => {
      isSettled = true;
      return all;
    });
    await turns();
    expect(isSettled).toBe(false);
    checkpointer.held.open();
    expect((await waiting).map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
    expect(await idsOf(kit, "new")).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("batches wait when the memtable is full", async () => {
    const { kit } = await openKit();
    await kit.commit([put(DOCS, "a", null, doc("1", "new")), put(DOCS, "b", null, doc("1", "new"))]);
    const later = ["c", "d", "e", "f", "g", "h", "i", "j"];
    for (const id of later) await kit.set(id, doc("1", "new"));
    let isSettled = false;
    const last = kit.set("k", doc("1", "new")).then(() => {
      isSettled = true;
    });
    await turns();
    expect(isSettled).toBe(false);
    checkpointer.held.open();
    await last;
    expect(await idsOf(kit, "new")).toEqual(["a", "b", ...later, "k"]);
  });
});

describe("the checkpoint thread", () => {
  it("reports errors, continues after them, and restarts after it exited", async () => {
    const { db } = await directory.open();
    const thread = new CheckpointThread(join(directory.dir, DATA_FILE), PRAGMAS);
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

  it("keeps the process alive only during a checkpoint", async () => {
    await directory.open();
    const thread = new CheckpointThread(join(directory.dir, DATA_FILE), PRAGMAS);
    const ports = () => process.getActiveResourcesInfo().filter((name) => name === "MessagePort").length;
    const before = ports();
    const checkpointed = thread.checkpoint([]);
    expect(ports()).toBe(before + 1);
    await checkpointed;
    expect(ports()).toBe(before);
    const closed = thread.close();
    expect(ports()).toBe(before + 1);
    await closed;
  });

  it("rejects when it cannot open the database", async () => {
    const thread = new CheckpointThread(join(directory.dir, "no", "such", "checkpointer.db"), PRAGMAS);
    await expect(thread.checkpoint([])).rejects.toThrow("exited");
    await thread.close();
  });
});

describe("a write batch", () => {
  it("written twice has the effect of one write, also for deltas", async () => {
    const { db } = await directory.open();
    const tables = new BatchWriter(db);
    const write = (version: number, text: string) => {
      const batch = new WriteBatch();
      addRow(batch, {
        table: "job",
        id: "a",
        version,
        text,
        dueMs: null,
        queue: null,
        score: null,
        left: [],
        entered: [],
      });
      // After a checkpoint thread died, it is unknown whether its batch was written.
      for (const statements of [batch.statements(), batch.statements()]) tables.write(statements);
    };
    write(1, "1");
    write(3, "\n2\n3");
    const stored = () => db.prepare("select version, value, value_sum from records").all();
    expect(stored()).toEqual([{ version: 3, value: "1\n2\n3", value_sum: textSum("1\n2\n3") }]);
    write(1, "anew");
    expect(stored()).toEqual([{ version: 1, value: "anew", value_sum: textSum("anew") }]);
  });
});
