import { statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
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
import { numberOf, type Opened, TestDirectory } from "./directory.ts";

describe("group commit", () => {
  let directory: TestDirectory;
  let opened: Opened;
  beforeEach(async () => {
    directory = new TestDirectory();
    opened = await directory.open();
  });
  afterEach(() => directory.close());

  const change = (id: string, doc: Partial<Doc> = {}) => changeOf([put(DOCS, id, null, { text: id, ...doc })]);
  const isThere = async (id: string) => (await opened.store.load(DOCS, id)) !== null;

  it("commits the calls of one tick in one transaction and resolves after it", async () => {
    const commitsSeen = await Promise.all([
      ...names("d", 100).map((id) => opened.store.commit(change(id)).then(() => directory.commits)),
      opened.bus.publish(message("m")).then(() => directory.commits),
      opened.store.load(DOCS, "d-00000").then(() => directory.commits),
    ]);
    expect(directory.commits).toBe(1);
    expect(new Set(commitsSeen)).toEqual(new Set([1]));
  });

  it("reads the changes made before it in its tick", async () => {
    void opened.store.commit(change("a"));
    expect(await opened.store.load(DOCS, "a")).toMatchObject({ version: 1 });
  });

  it("splits many calls into several batches", async () => {
    const answers = await Promise.all(names("d", 2_500).map((id) => opened.store.commit(change(id))));
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(["committed"]));
    opened.checkpoint();
    expect(numberOf(opened.db, "select count(*) from records")).toBe(2_500);
  });

  it("does not write for a tick that only reads", async () => {
    await opened.store.commit(change("a", { lists: [at("all", 1)], queue: at("q", 1), dueMs: T0 }));
    opened.checkpoint();
    const files = ["cordum.db-wal", "cordum.journal"].map((file) => join(directory.dir, file));
    const stats = () =>
      files.map((file) => statSync(file, { bigint: true })).map(({ size, mtimeNs }) => [size, mtimeNs]);
    const before = stats();
    const claim = { nowMs: T0, leaseMs: 10, limit: 10 };
    await Promise.all([
      opened.store.load(DOCS, "a"),
      opened.store.list(DOCS, { index: "all", limit: 10 }),
      opened.store.take(DOCS, { queue: "q", ...claim }),
      opened.store.due({ untilMs: T0, ...claim }),
      opened.store.counts("slots", 10),
      opened.store.unsent(T0, 10),
    ]);
    await opened.store.load(DOCS, "b");
    expect(stats()).toEqual(before);
  });

  it("rejects all calls of a failed commit and rolls them back", async () => {
    const kit = new StoreKit({ store: opened.store, run: (promise) => promise, close: async () => {} });
    await kit.create({ old: { text: "old", queue: at("q", 1), dueMs: T0, counters: [counter("x")] } });
    const old = await kit.load("old");
    directory.commitErrors = [new Error("disk I/O error"), new Error("disk I/O error")];
    const calls = await Promise.allSettled([
      opened.store.commit(change("new", { counters: [counter("x")], lists: [at("all", 1)], queue: at("q", 2) })),
      opened.store.commit(changeOf([put(DOCS, "old", old, { text: "moved" })], { sends: [message("m")] })),
      opened.store.take(DOCS, { queue: "q", limit: 10, nowMs: T0, leaseMs: 60_000 }),
      opened.store.due({ nowMs: T0, untilMs: T0, leaseMs: 60_000, limit: 10 }),
    ]);
    expect(calls.map(({ status }) => status)).toEqual(Array(4).fill("rejected"));
    expect(await kit.load("new")).toBeNull();
    expect(await kit.load("old")).toEqual(old);
    expect(await kit.counts()).toEqual({ x: 1 });
    expect(await kit.unsent(T0)).toEqual([]);
    expect(await kit.take("q", 10)).toEqual(["old"]);
    expect(await kit.due(T0)).toEqual(["old"]);
    expect(await kit.set("new", { text: "again", counters: [counter("x")] })).toMatchObject({ kind: "committed" });
    expect(await kit.counts()).toEqual({ x: 2 });
  });

  it("rolls back and rejects only the calls that throw", async () => {
    const insert = opened.db.prepare("insert into blobs (key, expires_ms, bytes) values (?, 1, x'00')");
    const calls = await Promise.allSettled([
      opened.store.commit(change("before", { counters: [counter("x")], queue: at("q", 1) })),
      opened.writer.write("tables", () => {
        insert.run("half");
        throw new Error("a bug");
      }),
      opened.store.commit(change("after", { counters: [counter("x")] })),
      opened.store.take(DOCS, { queue: "q", limit: 10, nowMs: T0, leaseMs: 10 }),
      opened.writer.write("tables", () => {
        insert.run("twice");
        insert.run("twice");
      }),
      opened.writer.read("memory", () => {
        throw new Error("another bug");
      }),
    ]);
    const [fine, failed] = ["fulfilled", "rejected"];
    expect(calls.map(({ status }) => status)).toEqual([fine, failed, fine, fine, failed, failed]);
    expect(calls[3]).toMatchObject({ value: [{ id: "before" }] });
    expect(await isThere("before")).toBe(true);
    expect(await isThere("after")).toBe(true);
    expect(numberOf(opened.db, "select count(*) from blobs")).toBe(0);
    expect(Object.fromEntries(await opened.store.counts("slots", 10))).toEqual({ x: 2 });
    expect(directory.logged.map(({ event, fields }) => [event, fields.calls])).toEqual([["store.write_failed", 3]]);
  });

  it("does not repeat a piggybacked write that throws", async () => {
    let runs = 0;
    opened.writer.piggyback("memory", () => {
      runs += 1;
      throw new Error("a bug");
    });
    expect(await opened.store.commit(change("a"))).toMatchObject({ kind: "committed" });
    await directory.clock.pass(100);
    // Once in the batch, once alone.
    expect(runs).toBe(2);
    expect(directory.logged.map(({ event, fields }) => [event, fields.stage])).toEqual([
      ["store.write_failed", "call"],
    ]);
  });

  it("skips a write that is obsolete when its batch starts", async () => {
    let isObsolete = false;
    const skipped = opened.writer.writeUnless(
      () => isObsolete,
      "tables",
      () => 1,
    );
    isObsolete = true;
    expect(await skipped).toBeNull();
  });

  it("keeps the original error as the cause", async () => {
    const bug = new Error("a bug");
    const call = opened.writer.read("memory", () => {
      throw bug;
    });
    await expect(call).rejects.toMatchObject({ message: "a bug", cause: bug });
  });

  it("piggybacked writes join the next batch with changes, or get a batch after 20 ms", async () => {
    await opened.store.commit(changeOf([], { sends: [message("m1"), message("m2"), message("m3")] }));
    opened.checkpoint();
    directory.writes = 0;
    await opened.store.sent(["m1"]);
    await opened.store.load(DOCS, "a");
    const left = () => {
      opened.checkpoint();
      return numberOf(opened.db, "select count(*) from outbox");
    };
    expect(left()).toBe(3);
    await opened.store.commit(change("a"));
    expect(directory.writes).toBe(1);
    expect(left()).toBe(2);
    await opened.store.sent(["m2"]);
    await directory.clock.pass(20);
    expect(left()).toBe(1);
    await opened.store.sent(["m3"]);
    expect(await opened.store.unsent(T0, 10)).toEqual([]);
  });

  it("repeats piggybacked writes after a failed commit", async () => {
    await opened.store.commit(changeOf([], { sends: [message("m")] }));
    opened.checkpoint();
    await opened.store.sent(["m"]);
    directory.commitErrors = [new Error("database or disk is full")];
    await expect(opened.writer.write("tables", () => {})).rejects.toThrow("full");
    expect(numberOf(opened.db, "select count(*) from outbox")).toBe(1);
    await opened.writer.write("tables", () => {});
    expect(numberOf(opened.db, "select count(*) from outbox")).toBe(0);
  });

  it("writes piggybacked writes on close while all batches are in flight", async () => {
    await opened.store.commit(changeOf([], { sends: [message("m")] }));
    const held = gate();
    directory.settlementHeld = held.passed;
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const commits = [];
    for (const id of ["a", "b"]) {
      commits.push(opened.store.commit(change(id)));
      await turn();
      await turn();
    }
    await opened.store.sent(["m"]);
    const closed = opened.writer.close();
    held.open();
    await Promise.all([...commits, closed]);
    expect(numberOf(opened.db, "select count(*) from outbox")).toBe(0);
  });

  it("writes earlier calls on close and rejects later ones", async () => {
    await opened.store.commit(changeOf([], { sends: [message("m")] }));
    void opened.store.sent(["m"]);
    const before = opened.store.commit(change("before"));
    await opened.writer.close();
    expect(await before).toMatchObject({ kind: "committed" });
    await expect(opened.store.commit(change("after"))).rejects.toThrow("closed");
    await expect(opened.store.load(DOCS, "before")).rejects.toThrow("closed");
    expect(numberOf(opened.db, "select count(*) from outbox")).toBe(0);
  });
});
