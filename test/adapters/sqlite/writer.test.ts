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

  it("calls of one tick are one transaction, and resolve after its commit", async () => {
    const commitsSeen = await Promise.all([
      ...names("d", 100).map((id) => opened.store.commit(change(id)).then(() => directory.commits)),
      opened.bus.publish(message("m")).then(() => directory.commits),
      opened.store.load(DOCS, "d-00000").then(() => directory.commits),
    ]);
    expect(directory.commits).toBe(1);
    expect(new Set(commitsSeen)).toEqual(new Set([1]));
  });

  it("a read sees the changes that were called before it in its tick", async () => {
    void opened.store.commit(change("a"));
    expect(await opened.store.load(DOCS, "a")).toMatchObject({ version: 1 });
  });

  it("more calls than fit into one batch go into several, and each is answered", async () => {
    const answers = await Promise.all(names("d", 2_500).map((id) => opened.store.commit(change(id))));
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(["committed"]));
    opened.fold();
    expect(numberOf(opened.db, "select count(*) from records")).toBe(2_500);
  });

  it("a tick that only reads does not touch the disk", async () => {
    await opened.store.commit(change("a", { lists: [at("all", 1)], queue: at("q", 1), dueMs: T0 }));
    opened.fold();
    const files = ["cordum.db-wal", "cordum.journal"].map((file) => join(directory.dir, file));
    const traces = () =>
      files.map((file) => statSync(file, { bigint: true })).map(({ size, mtimeNs }) => [size, mtimeNs]);
    const before = traces();
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
    expect(traces()).toEqual(before);
  });

  it("if the commit fails, all of its calls reject and nothing of them is left", async () => {
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

  it("a call that throws fails alone, and what it had written is undone", async () => {
    const insert = opened.db.prepare("insert into blobs (key, expires_ms, bytes) values (?, 1, x'00')");
    Object.assign(opened.operations.handlers, {
      deleteBlob: () => {
        insert.run("half");
        throw new Error("a bug");
      },
      getBlob: () => {
        throw new Error("another bug");
      },
      putBlob: () => {
        insert.run("whole");
        insert.run("whole");
      },
    });
    const calls = await Promise.allSettled([
      opened.store.commit(change("before", { counters: [counter("x")], queue: at("q", 1) })),
      opened.writer.change("deleteBlob", "a"),
      opened.store.commit(change("after", { counters: [counter("x")] })),
      opened.store.take(DOCS, { queue: "q", limit: 10, nowMs: T0, leaseMs: 10 }),
      opened.writer.change("putBlob", "b", new Uint8Array(), 1, 1),
      opened.writer.read("getBlob", "c", 1),
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

  it("what rides along costs no transaction of its own while others come by", async () => {
    await opened.store.commit(changeOf([], { sends: [message("m1"), message("m2"), message("m3")] }));
    opened.fold();
    directory.writes = 0;
    await opened.store.sent(["m1"]);
    await opened.store.load(DOCS, "a");
    const left = () => {
      opened.fold();
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

  it("what rides along survives a commit that fails", async () => {
    await opened.store.commit(changeOf([], { sends: [message("m")] }));
    opened.fold();
    await opened.store.sent(["m"]);
    directory.commitErrors = [new Error("database or disk is full")];
    await expect(opened.writer.change("deleteBlob", "a")).rejects.toThrow("full");
    expect(numberOf(opened.db, "select count(*) from outbox")).toBe(1);
    await opened.writer.change("deleteBlob", "a");
    expect(numberOf(opened.db, "select count(*) from outbox")).toBe(0);
  });

  it("closing also writes what rides along while all batches are under way", async () => {
    await opened.store.commit(changeOf([], { sends: [message("m")] }));
    const held = gate();
    directory.answersHeld = held.passed;
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

  it("closing writes what was called before it and refuses what comes after", async () => {
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
