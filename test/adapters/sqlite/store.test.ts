import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FencePlace } from "../../../src/adapters/sqlite/queries.ts";
import { put } from "../../../src/ports/store.ts";
import { at, changeOf, DOCS, names, StoreKit, T0 } from "../../contract/store/store.subject.ts";
import { numberOf, TestDirectory } from "./directory.ts";

describe("the embedded store", () => {
  let directory: TestDirectory;
  beforeEach(() => {
    directory = new TestDirectory();
  });
  afterEach(() => directory.close());

  const openKit = async () => {
    const opened = await directory.open();
    const kit = new StoreKit({ store: opened.store, run: (promise) => promise, close: async () => {} });
    return { ...opened, kit };
  };

  it("voids claims on restart", async () => {
    const { kit } = await openKit();
    await kit.create({ a: { text: "", queue: at("q", 1), dueMs: T0 } });
    expect(await kit.take("q", 1, T0, 3_600_000)).toEqual(["a"]);
    expect(await kit.due(T0, 1, T0, 3_600_000)).toEqual(["a"]);
    await directory.crash();
    const again = await openKit();
    expect(await again.kit.take("q", 1, T0)).toEqual(["a"]);
    expect(await again.kit.due(T0)).toEqual(["a"]);
  });

  it("recovers every acknowledged commit after a crash, with its counters", async () => {
    const { kit } = await openKit();
    const counters = [{ group: "slots", name: "x" }];
    await kit.commitTogether(names("d", 300).map((id) => changeOf([put(DOCS, id, null, { text: id, counters })])));
    await directory.crash();
    const again = await openKit();
    expect(await again.kit.counts()).toEqual({ x: 300 });
    expect(numberOf(again.db, "select count(*) from records")).toBe(300);
  });

  it("deletes the row of a counter at zero", async () => {
    const { kit, db, checkpoint } = await openKit();
    await kit.set("a", { text: "", counters: [{ group: "slots", name: "x" }] });
    checkpoint();
    expect(numberOf(db, "select count(*) from counters")).toBe(1);
    await kit.set("a", null);
    checkpoint();
    expect(numberOf(db, "select count(*) from counters")).toBe(0);
  });

  it("totals survive a crash, are not listed as counters, and ignore failed commits", async () => {
    const { store, checkpoint } = await openKit();
    const add = (delta: number) => store.commit({ ...changeOf([]), totals: [{ name: "x", delta }] });
    expect(await store.total("x")).toBe(0);
    await Promise.all([add(2), add(3)]);
    checkpoint();
    directory.commitErrors = [new Error("disk I/O error")];
    const taken = store.take(DOCS, { queue: "q", limit: 1, nowMs: T0, leaseMs: 1 });
    await expect(add(100)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await expect(taken).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await store.total("x")).toBe(5);
    await directory.crash();
    const again = await openKit();
    expect(await again.store.total("x")).toBe(5);
    expect(await again.kit.counts()).toEqual({});
  });

  it("rolls back versions after a failed commit", async () => {
    const { kit } = await openKit();
    await kit.set("a", { text: "1" });
    const before = await kit.load("a");
    directory.commitErrors = [new Error("disk I/O error")];
    const taken = kit.store.take(DOCS, { queue: "q", limit: 1, nowMs: T0, leaseMs: 1 });
    await expect(kit.commit([put(DOCS, "a", before, { text: "2" })])).rejects.toThrow("disk");
    await expect(taken).rejects.toThrow("disk");
    await expect(kit.set("a", { text: "2" })).resolves.toMatchObject({ kind: "committed" });
    await kit.set("a", null);
    expect(await kit.set("a", { text: "3" })).toMatchObject({ kind: "committed" });
    expect(await kit.load("a")).toMatchObject({ version: 1 });
  });

  it("prunes old fences of removed records, in steps, and keeps all others", async () => {
    const { kit, store, db, checkpoint } = await openKit();
    const fence = (id: string) => ({ kind: "fence", table: "doc", id, fence: 5 }) as const;
    const ids = names("d", 25);
    for (const id of ids) await kit.set(id, { text: "" }, { guards: [fence(id)], atMs: T0 });
    for (const id of ids.slice(5)) await kit.set(id, null);
    await kit.commit([], { guards: [fence("young")], atMs: T0 + 1_000 });
    checkpoint();
    let from: FencePlace | null = null;
    const steps: (FencePlace | null)[] = [];
    do {
      from = await store.pruneFences(T0 + 500, from, 10);
      steps.push(from);
    } while (from !== null);
    expect(steps).toHaveLength(3);
    const left = db.prepare("select id from fences order by id").all() as { id: string }[];
    expect(left.map(({ id }) => id)).toEqual([...ids.slice(0, 5), "young"]);
  });

  it("refuses the guard `free`, because it does not know the locks", async () => {
    const { kit } = await openKit();
    const guards = [{ kind: "free", lock: "cordum:wf:run:lock:r-1" }] as const;
    expect(await kit.set("a", { text: "" }, { guards })).toEqual({ kind: "refused", guard: guards[0], value: 0 });
    expect(await kit.load("a")).toBeNull();
  });

  it("rejects a score that is not an integer in range, and a record put twice", async () => {
    const { kit } = await openKit();
    for (const score of [-1, 1.5, Number.NaN, 2 ** 53]) {
      await expect(kit.commit([put(DOCS, "a", null, { text: "", lists: [at("all", score)] })])).rejects.toThrow(
        "score",
      );
      await expect(kit.commit([put(DOCS, "a", null, { text: "", queue: at("q", score) })])).rejects.toThrow("score");
    }
    const twice = put(DOCS, "a", null, { text: "" });
    await expect(kit.commit([twice, twice])).rejects.toThrow("once");
    expect(await kit.load("a")).toBeNull();
  });
});
