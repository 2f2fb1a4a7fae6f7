import { expect } from "vitest";
import type { Guard } from "../../../src/ports/store.ts";
import { put } from "../../../src/ports/store.ts";
import { leaseOf } from "../locks/locks.subject.ts";
import { changeOf, counter, DOCS, NOTES, names, type Peer, type StoreCase } from "./store.subject.ts";

/** Counters, guards, fences, and the order in which they are checked. */
export function guardCases(test: StoreCase): void {
  counterCases(test);
  absentCases(test);
  fenceCases(test);
  freeCases(test);
  orderCases(test);
}

const SLOT = counter("org-1");
const atMost = (max: number, of = SLOT): Guard => ({ kind: "counter", counter: of, max });
const absent = (id: string, table = "doc"): Guard => ({ kind: "absent", table, id });
const fence = (id: string, value: number, table = "doc"): Guard => ({ kind: "fence", table, id, fence: value });
const free = (lock: string): Guard => ({ kind: "free", lock });
const slotted = (text: string) => ({ text, counters: [SLOT] });

function counterCases(test: StoreCase): void {
  test("derives counters from the records, and removes them at zero", async (kit) => {
    const [x, y, other] = [counter("x"), counter("y"), counter("x", "others")];
    await kit.set("a", { text: "", counters: [x, other] });
    await kit.set("b", { text: "", counters: [x, y] });
    expect(await kit.counts()).toEqual({ x: 2, y: 1 });
    expect(await kit.counts("others")).toEqual({ x: 1 });
    expect(await kit.counts("unknown")).toEqual({});
    await kit.set("a", { text: "", counters: [y, other] });
    expect(await kit.counts()).toEqual({ x: 1, y: 2 });
    await kit.set("b", { text: "" });
    await kit.set("a", null);
    expect(await kit.counts()).toEqual({});
    expect(await kit.counts("others")).toEqual({});
  });

  test("adds what the placement says, and guards the sum", async (kit) => {
    const weighted = (by: number) => ({ text: String(by), counters: [{ ...SLOT, by }] });
    await kit.set("a", weighted(5_000_000_000));
    await kit.set("b", weighted(7));
    expect(await kit.counts()).toEqual({ "org-1": 5_000_000_007 });
    const refused = await kit.set("c", weighted(3), { guards: [atMost(5_000_000_009)] });
    expect(refused).toMatchObject({ kind: "refused", value: 5_000_000_007 });
    expect(await kit.set("a", weighted(1), { guards: [atMost(8)] })).toMatchObject({ kind: "committed" });
    expect(await kit.counts()).toEqual({ "org-1": 8 });
    await kit.set("a", null);
    await kit.set("b", { text: "" });
    expect(await kit.counts()).toEqual({});
  });

  test("counts a record twice if its placement says so", async (kit) => {
    await kit.set("a", { text: "", counters: [SLOT, SLOT] });
    expect(await kit.counts()).toEqual({ "org-1": 2 });
    await kit.set("a", { text: "", counters: [SLOT] });
    expect(await kit.counts()).toEqual({ "org-1": 1 });
  });

  test("`counts` returns at most `limit` counters, and all of them over repeated calls", async (kit) => {
    const ids = names("c", 12);
    await kit.create(Object.fromEntries(ids.map((id) => [id, { text: "", counters: [counter(id)] }])));
    const seen = new Set<string>();
    for (let calls = 0; calls < 500 && seen.size < ids.length; calls++) {
      const some = Object.keys(await kit.counts("slots", 5));
      expect(some.length).toBeLessThanOrEqual(5);
      for (const name of some) seen.add(name);
    }
    expect([...seen].sort()).toEqual(ids);
  });

  test("a counter guard checks the value including the change", async (kit) => {
    const guards = [atMost(2)];
    expect(await kit.set("a", slotted("1"), { guards })).toMatchObject({ kind: "committed" });
    expect(await kit.set("b", slotted("2"), { guards })).toMatchObject({ kind: "committed" });
    expect(await kit.set("c", slotted("3"), { guards })).toEqual({ kind: "refused", guard: guards[0], value: 2 });
    expect(await kit.load("c")).toBeNull();
    const swap = [put(DOCS, "a", await kit.load("a"), null), put(DOCS, "c", null, slotted("3"))];
    expect(await kit.commit(swap, { guards })).toMatchObject({ kind: "committed" });
    expect(await kit.set("b", slotted("again"), { guards })).toMatchObject({ kind: "committed" });
    expect(await kit.counts()).toEqual({ "org-1": 2 });
  });

  test("a counter guard applies to a change that does not affect the counter", async (kit) => {
    await kit.set("a", slotted("1"));
    expect(await kit.set("b", { text: "" }, { guards: [atMost(1)] })).toMatchObject({ kind: "committed" });
    expect(await kit.set("c", { text: "" }, { guards: [atMost(0)] })).toMatchObject({ kind: "refused" });
  });

  test("a refusal reports the counter without the change", async (kit) => {
    await kit.set("a", { text: "", counters: [SLOT, SLOT, SLOT] });
    const doc = { text: "", counters: [SLOT, SLOT] };
    expect(await kit.set("b", doc, { guards: [atMost(4)] })).toMatchObject({ kind: "refused", value: 3 });
    expect(await kit.commit([], { guards: [absent("x"), atMost(2)] })).toMatchObject({ kind: "refused", value: 3 });
    expect(await kit.commit([], { guards: [atMost(-1, counter("unknown"))] })).toMatchObject({ value: 0 });
    const answers = await kit.commitTogether(
      names("run", 4).map((id) => changeOf([put(DOCS, id, null, slotted(id))], { guards: [atMost(5)] })),
    );
    const refused = answers.filter((answer) => answer.kind === "refused");
    expect(refused.map(({ value }) => value)).toEqual([5, 5]);
  });

  test("commits 2 of 100 concurrent admissions at a limit of 2", async (kit) => {
    const answers = await kit.commitTogether(
      names("run", 100).map((id) => changeOf([put(DOCS, id, null, slotted(id))], { guards: [atMost(2)] })),
    );
    expect(answers.filter(({ kind }) => kind === "committed")).toHaveLength(2);
    expect(answers.filter(({ kind }) => kind === "refused")).toHaveLength(98);
    expect(await kit.counts()).toEqual({ "org-1": 2 });
  });

  test("`watch` returns counters after the commit, in the given order", async (kit) => {
    const [x, y, z] = [counter("x"), counter("y"), counter("z", "others")];
    await kit.set("a", { text: "", counters: [x, z] });
    const answer = await kit.set("b", { text: "", counters: [x, y] }, { watch: [z, x, y, counter("none")] });
    expect(answer).toEqual({ kind: "committed", seen: [1, 2, 1, 0] });
    expect(await kit.commit([], { watch: [x] })).toEqual({ kind: "committed", seen: [2] });
    expect(await kit.set("b", null, { watch: [x, y] })).toEqual({ kind: "committed", seen: [1, 0] });
  });

  test("adds up counters over changes of one tick", async (kit) => {
    await kit.commitTogether(names("d", 200).map((id) => changeOf([put(DOCS, id, null, slotted(id))])));
    expect(await kit.counts()).toEqual({ "org-1": 200 });
    const docs = await kit.run(Promise.all(names("d", 200).map((id) => kit.store.load(DOCS, id))));
    await kit.commitTogether(docs.slice(1).map((doc) => changeOf([put(DOCS, doc!.id, doc, null)])));
    expect(await kit.counts()).toEqual({ "org-1": 1 });
  });
}

function absentCases(test: StoreCase): void {
  test("`absent` refuses if the record exists in its table", async (kit) => {
    await kit.set("key", { text: "taken" }, {}, NOTES);
    expect(await kit.set("a", { text: "" }, { guards: [absent("key")] })).toMatchObject({ kind: "committed" });
    const guards = [absent("key", "note")];
    expect(await kit.set("b", { text: "" }, { guards })).toEqual({ kind: "refused", guard: guards[0], value: 0 });
    expect(await kit.load("b")).toBeNull();
    await kit.set("key", null, {}, NOTES);
    expect(await kit.set("b", { text: "" }, { guards })).toMatchObject({ kind: "committed" });
  });

  test("commits one of several concurrent changes with the same `absent` guard", async (kit) => {
    const answers = await kit.commitTogether(
      names("job", 20).map((id) => {
        const key = { ...put(NOTES, "key", null, { text: id }), expect: null };
        return changeOf([put(DOCS, id, null, { text: id }), key], { guards: [absent("key", "note")] });
      }),
    );
    expect(answers.filter(({ kind }) => kind === "committed")).toHaveLength(1);
    expect(answers.filter(({ kind }) => kind === "refused")).toHaveLength(19);
  });
}

function fenceCases(test: StoreCase): void {
  test("accepts a larger or equal fence, rejects a smaller one", async (kit) => {
    const write = (value: number) => kit.set("a", { text: `${value}` }, { guards: [fence("a", value)] });
    expect(await write(5)).toMatchObject({ kind: "committed" });
    expect(await write(5)).toMatchObject({ kind: "committed" });
    expect(await write(4)).toEqual({ kind: "refused", guard: fence("a", 4), value: 0 });
    expect(await write(9)).toMatchObject({ kind: "committed" });
    expect(await write(8)).toMatchObject({ kind: "refused" });
    expect(await kit.load("a")).toMatchObject({ version: 3, value: { text: "9" } });
  });

  test("a fence guards a record without a version check", async (kit) => {
    const write = (text: string, value: number) =>
      kit.commit([{ ...put(DOCS, "a", null, { text }), expect: null }], { guards: [fence("a", value)] });
    expect(await write("new holder", 7)).toMatchObject({ kind: "committed" });
    expect(await write("old holder after a pause", 6)).toMatchObject({ kind: "refused" });
    expect(await kit.load("a")).toMatchObject({ version: 1, value: { text: "new holder" } });
  });

  test("stores fences of absent records, per record and table", async (kit) => {
    await kit.commit([], { guards: [fence("a", 5)] });
    expect(await kit.commit([], { guards: [fence("a", 4)] })).toMatchObject({ kind: "refused" });
    expect(await kit.commit([], { guards: [fence("b", 1)] })).toMatchObject({ kind: "committed" });
    expect(await kit.commit([], { guards: [fence("a", 1, "note")] })).toMatchObject({ kind: "committed" });
    expect(await kit.load("a")).toBeNull();
    expect(await kit.set("a", { text: "late" }, { guards: [fence("a", 4)] })).toMatchObject({ kind: "refused" });
    expect(await kit.set("a", { text: "now" }, { guards: [fence("a", 5)] })).toMatchObject({ kind: "committed" });
  });

  test("keeps the fence after the record is deleted", async (kit) => {
    await kit.set("a", { text: "" }, { guards: [fence("a", 5)] });
    await kit.set("a", null, { guards: [fence("a", 6)] });
    expect(await kit.set("a", { text: "ghost" }, { guards: [fence("a", 5)] })).toMatchObject({ kind: "refused" });
  });

  test("a refused change does not raise fences, and a write without a fence does not lower them", async (kit) => {
    const guards = [fence("a", 9), atMost(-1)];
    expect(await kit.commit([], { guards })).toMatchObject({ kind: "refused" });
    expect(await kit.commit([], { guards: [fence("a", 3)] })).toMatchObject({ kind: "committed" });
    await kit.set("a", { text: "no fence" });
    expect(await kit.commit([], { guards: [fence("a", 2)] })).toMatchObject({ kind: "refused" });
  });

  test("checks the fences of changes of one tick in sequence", async (kit) => {
    const fences = [3, 1, 4, 1, 5, 9, 2, 6];
    const answers = await kit.commitTogether(fences.map((value) => changeOf([], { guards: [fence("a", value)] })));
    expect(answers[5]!.kind).toBe("committed");
    expect(await kit.commit([], { guards: [fence("a", 8)] })).toMatchObject({ kind: "refused" });
  });
}

function freeCases(test: StoreCase): void {
  const KEYS = ["cordum:wf:run:lock:r-1", "a lock of no run"];
  const request = { key: "", org: "default", ttlMs: 60_000, waitMs: 0, owner: "peer" };
  const testWithPeer = (
    title: string,
    body: (...of: [...Parameters<Parameters<StoreCase>[1]>, Peer]) => Promise<void>,
  ) =>
    test(title, async (kit) => {
      const { peer } = kit.subject;
      if (!peer) return kit.skip("the adapter has no lock-free commits");
      await body(kit, await kit.run(peer()));
    });

  testWithPeer("`free` refuses while the lock is held, and writes nothing", async (kit, { locks }) => {
    for (const key of KEYS) {
      const write = () => kit.set(key, { text: "" }, { guards: [free(key), fence(key, 7)] });
      const lease = leaseOf(await kit.run(locks.acquire({ ...request, key })));
      expect(await write()).toEqual({ kind: "refused", guard: free(key), value: 0 });
      expect(await kit.load(key)).toBeNull();
      expect(await kit.commit([], { guards: [fence(key, 6)] })).toMatchObject({ kind: "committed" });
      expect(await kit.commit([], { guards: [free(`${key}-other`)] })).toMatchObject({ kind: "committed" });
      await kit.run(lease.release());
      expect(await write()).toMatchObject({ kind: "committed" });
      // A lock-free commit leaves nothing behind.
      const next = leaseOf(await kit.run(locks.acquire({ ...request, key })));
      expect(await kit.run(next.release())).toBe(true);
    }
  });

  testWithPeer("`free` refuses while the lock has waiters", async (kit, { locks }) => {
    const [key = ""] = KEYS;
    const guards = [free(key)];
    const lease = leaseOf(await kit.run(locks.acquire({ ...request, key })));
    const waiting = locks.acquire({ ...request, key, waitMs: 60_000 });
    while ((await kit.run(locks.list(1)))[0]?.waiters !== 1) await kit.commit([], { guards });
    // In one tick with the release: the lock is held or has a waiter at any time.
    const [released, answer] = await kit.run(
      Promise.all([lease.release(), kit.store.commit(changeOf([], { guards }))]),
    );
    expect([released, answer.kind]).toEqual([true, "refused"]);
    const next = leaseOf(await kit.run(waiting));
    expect(await kit.commit([], { guards })).toMatchObject({ kind: "refused" });
    await kit.run(next.release());
    expect(await kit.commit([], { guards })).toMatchObject({ kind: "committed" });
  });

  testWithPeer("`free` accepts once the lease of a crashed holder has ended", async (kit, { locks, crash }) => {
    const [key = ""] = KEYS;
    const guards = [free(key)];
    await kit.run(locks.acquire({ ...request, key, ttlMs: 600 }));
    await crash();
    let refused = 0;
    while ((await kit.commit([], { guards })).kind === "refused") refused += 1;
    expect(refused).toBeGreaterThan(0);
  });

  testWithPeer("`free` is checked after versions and fences", async (kit, { locks }) => {
    const [key = ""] = KEYS;
    await kit.set("a", { text: "first" }, { guards: [fence("a", 9)] });
    await kit.run(locks.acquire({ ...request, key }));
    const guards = [free(key), fence("a", 8)];
    expect(await kit.commit([put(DOCS, "a", null, { text: "again" })], { guards })).toMatchObject({ kind: "stale" });
    expect(await kit.set("a", { text: "again" }, { guards })).toMatchObject({ kind: "refused", guard: guards[1] });
  });
}

function orderCases(test: StoreCase): void {
  test("checks versions before guards, so that a replay is detected before a limit refuses it", async (kit) => {
    await kit.set("a", slotted("first"));
    const guards = [atMost(0), absent("a"), fence("a", 1)];
    expect(await kit.commit([put(DOCS, "a", null, slotted("again"))], { guards })).toMatchObject({ kind: "stale" });
  });

  test("checks fences before other guards, in any order given", async (kit) => {
    await kit.set("a", slotted(""), { guards: [fence("a", 9)] });
    const guards = [absent("a"), atMost(0), fence("a", 1)];
    expect(await kit.set("b", { text: "" }, { guards })).toEqual({ kind: "refused", guard: guards[2], value: 0 });
    expect(await kit.set("b", { text: "" }, { guards: guards.slice(0, 2) })).toMatchObject({ kind: "refused" });
  });
}
