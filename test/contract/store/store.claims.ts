import { expect } from "vitest";
import { put } from "../../../src/ports/store.ts";
import { at, changeOf, DOCS, type Doc, NOTES, names, type StoreCase, T0 } from "./store.subject.ts";

/** Queues, due times and claims. */
export function claimCases(test: StoreCase): void {
  queueCases(test);
  leaseCases(test);
  dueCases(test);
  dueLeaseCases(test);
}

const queued = (score: number, name = "q"): Doc => ({ text: `${score}`, queue: at(name, score) });
const due = (dueMs: number | null): Doc => ({ text: `${dueMs}`, dueMs });

function queueCases(test: StoreCase): void {
  test("takes entries in order of score, with their values", async (kit) => {
    await kit.create({ c: queued(30), a: queued(10), b: queued(20), x: queued(5, "other") });
    const taken = await kit.run(kit.store.take(DOCS, { queue: "q", limit: 2, nowMs: T0, leaseMs: 1_000 }));
    expect(taken).toEqual([
      { id: "a", version: 1, value: queued(10) },
      { id: "b", version: 1, value: queued(20) },
    ]);
    expect(await kit.take("q", 10)).toEqual(["c"]);
    expect(await kit.take("other", 10)).toEqual(["x"]);
    expect(await kit.take("unknown", 10)).toEqual([]);
  });

  test("compares scores exactly up to 2^52 - 1, and orders equal scores by id", async (kit) => {
    const max = 2 ** 52 - 1;
    await kit.create({ d: queued(max), c: queued(max - 1), b: queued(3), a: queued(3) });
    expect(await kit.take("q", 10)).toEqual(["a", "b", "c", "d"]);
  });

  test("keeps queues of different tables separate", async (kit) => {
    await kit.set("a", queued(1));
    await kit.set("n", queued(1), {}, NOTES);
    expect(await kit.take("q", 10)).toEqual(["a"]);
    expect(await kit.take("q", 10, T0, 1_000, NOTES)).toEqual(["n"]);
  });

  test("takes of one tick never return an entry twice", async (kit) => {
    const ids = names("d", 100);
    await kit.create(Object.fromEntries(ids.map((id, n) => [id, queued(n)])));
    const takes = await kit.run(
      Promise.all(
        Array.from({ length: 12 }, () => kit.store.take(DOCS, { queue: "q", limit: 10, nowMs: T0, leaseMs: 1_000 })),
      ),
    );
    const taken = takes.flatMap((some) => some.map(({ id }) => id));
    expect(takes.map((some) => some.length).sort((a, b) => b - a)).toEqual([...Array(10).fill(10), 0, 0]);
    expect([...taken].sort()).toEqual(ids);
  });

  test("takes a long queue in small batches, in order", async (kit) => {
    const ids = names("d", 3_000);
    await kit.create(Object.fromEntries(ids.map((id, n) => [id, queued(Math.floor(n / 7))])));
    const taken: string[] = [];
    for (let some: string[] = ["?"]; some.length > 0; taken.push(...some)) some = await kit.take("q", 64);
    expect(taken).toEqual(ids);
  });
}

function leaseCases(test: StoreCase): void {
  test("returns a claimed entry after its lease ends, at its old position", async (kit) => {
    await kit.create({ a: queued(1), b: queued(2), c: queued(3) });
    expect(await kit.take("q", 2, T0, 500)).toEqual(["a", "b"]);
    expect(await kit.take("q", 9, T0 + 499, 1)).toEqual(["c"]);
    expect(await kit.take("q", 9, T0 + 500, 1_000)).toEqual(["a", "b", "c"]);
    expect(await kit.take("q", 9, T0 + 1_499, 1_000)).toEqual([]);
    expect(await kit.take("q", 9, T0 + 1_500, 1_000)).toEqual(["a", "b", "c"]);
  });

  test("a commit that moves an entry ends its claim; any other commit does not", async (kit) => {
    await kit.create({ a: queued(1), b: queued(2), c: queued(3) });
    expect(await kit.take("q", 3, T0, 10_000)).toEqual(["a", "b", "c"]);
    await kit.set("a", { ...queued(1), text: "same position" });
    expect(await kit.take("q", 9, T0 + 1)).toEqual([]);
    await kit.set("a", { text: "out" });
    await kit.set("b", queued(9));
    await kit.set("c", queued(3, "other"));
    expect(await kit.take("q", 9, T0 + 2)).toEqual(["b"]);
    expect(await kit.take("other", 9, T0 + 2)).toEqual(["c"]);
    await kit.set("a", queued(1));
    expect(await kit.take("q", 9, T0 + 3)).toEqual(["a"]);
    expect(await kit.take("q", 9, T0 + 20_000)).toEqual(["a", "b"]);
  });

  test("takes new entries with lower scores first while others are claimed", async (kit) => {
    await kit.create({ m: queued(50), n: queued(51), o: queued(52) });
    expect(await kit.take("q", 2, T0, 10_000)).toEqual(["m", "n"]);
    await kit.create({ a: queued(1), k: queued(50) });
    expect(await kit.take("q", 9, T0 + 1, 10_000)).toEqual(["a", "k", "o"]);
  });

  test("takes a new entry with the same score and a smaller id while others are claimed", async (kit) => {
    await kit.create({ m: queued(50), n: queued(50) });
    expect(await kit.take("q", 2, T0, 10_000)).toEqual(["m", "n"]);
    await kit.create({ k: queued(50), x: queued(50) });
    expect(await kit.take("q", 9, T0 + 1, 10_000)).toEqual(["k", "x"]);
  });

  test("`untake` releases only the given claims, at their old positions", async (kit) => {
    await kit.create({ a: queued(1), b: queued(2), c: queued(3), d: queued(4) });
    expect(await kit.take("q", 3, T0, 10_000)).toEqual(["a", "b", "c"]);
    await kit.run(kit.store.untake(DOCS, "q", ["b", "d", "unknown"]));
    expect(await kit.take("q", 9, T0 + 1)).toEqual(["b", "d"]);
    await kit.run(kit.store.untake(DOCS, "q", ["a", "b", "c", "d"]));
    await kit.run(kit.store.untake(DOCS, "q", []));
    await kit.set("c", null);
    expect(await kit.take("q", 9, T0 + 2)).toEqual(["a", "b", "d"]);
  });

  test("`untake` does not restore an entry that has left the queue", async (kit) => {
    await kit.create({ a: queued(1) });
    expect(await kit.take("q", 1, T0, 10_000)).toEqual(["a"]);
    await kit.set("a", { text: "out" });
    await kit.run(kit.store.untake(DOCS, "q", ["a"]));
    expect(await kit.take("q", 9, T0 + 20_000)).toEqual([]);
  });
}

function dueCases(test: StoreCase): void {
  test("returns due records of all tables, earliest first", async (kit) => {
    await kit.create({ b: due(T0 + 20), a: due(T0 + 10), never: due(null), c: due(T0 + 31) });
    await kit.set("n", due(T0 + 15), {}, NOTES);
    const found = await kit.run(kit.store.due({ nowMs: T0, untilMs: T0 + 30, leaseMs: 1_000, limit: 10 }));
    expect(found).toEqual([
      { table: "doc", id: "a", version: 1, dueMs: T0 + 10, value: due(T0 + 10) },
      { table: "note", id: "n", version: 1, dueMs: T0 + 15, value: due(T0 + 15) },
      { table: "doc", id: "b", version: 1, dueMs: T0 + 20, value: due(T0 + 20) },
    ]);
    expect(await kit.due(T0 + 31)).toEqual(["c"]);
  });

  test("returns due records from a time on, and leaves those before it to other calls", async (kit) => {
    await kit.create({ old: due(T0 - 20), a: due(T0), b: due(T0 + 10), c: due(T0 + 20) });
    const claim = (fromMs: number, limit = 10) =>
      kit
        .run(kit.store.due({ nowMs: T0, fromMs, untilMs: T0 + 20, leaseMs: 1_000, limit }))
        .then((found) => found.map(({ id }) => id));
    expect(await claim(T0, 1)).toEqual(["a"]);
    expect(await claim(T0, 1)).toEqual(["b"]);
    await kit.set("d", due(T0 + 5));
    await kit.set("a", { ...due(T0), dueMs: T0 + 2 });
    expect(await claim(T0 + 1)).toEqual(["a", "d", "c"]);
    expect(await claim(T0)).toEqual([]);
    expect(await kit.due(T0 + 20, 10, T0)).toEqual(["old"]);
  });

  test("returns all due records in small batches, also many of one millisecond", async (kit) => {
    const ids = names("d", 2_000);
    await kit.create(Object.fromEntries(ids.map((id, n) => [id, due(T0 + Math.floor(n / 500))])));
    const found: string[] = [];
    for (let some: string[] = ["?"]; some.length > 0; found.push(...some)) some = await kit.due(T0 + 10, 64);
    expect(found.length).toBe(ids.length);
    expect([...found].sort()).toEqual(ids);
  });

  test("sweeps of one tick never return a record twice", async (kit) => {
    const ids = names("d", 50);
    await kit.create(Object.fromEntries(ids.map((id, n) => [id, due(T0 + n)])));
    const query = { nowMs: T0, untilMs: T0 + 100, leaseMs: 1_000, limit: 20 };
    const found = await kit.run(Promise.all(Array.from({ length: 4 }, () => kit.store.due(query))));
    expect(found.flatMap((some) => some.map(({ id }) => id)).sort()).toEqual(ids);
  });
}

function dueLeaseCases(test: StoreCase): void {
  test("returns a due record again after its lease ends, with its due time", async (kit) => {
    await kit.create({ a: due(T0), b: due(T0 + 5) });
    expect(await kit.due(T0 + 5, 10, T0 + 5, 500)).toEqual(["a", "b"]);
    expect(await kit.due(T0 + 504, 10, T0 + 504, 500)).toEqual([]);
    const again = await kit.run(kit.store.due({ nowMs: T0 + 505, untilMs: T0 + 505, leaseMs: 500, limit: 10 }));
    expect(again.map(({ id, dueMs }) => [id, dueMs])).toEqual([
      ["a", T0],
      ["b", T0 + 5],
    ]);
  });

  test("a claim on a record that is due later ends with the lease, not with the due time", async (kit) => {
    await kit.create({ a: due(T0 + 2_000) });
    expect(await kit.due(T0 + 2_000, 10, T0, 5_000)).toEqual(["a"]);
    expect(await kit.due(T0 + 4_000, 10, T0 + 2_500)).toEqual([]);
    expect(await kit.due(T0 + 5_000, 10, T0 + 5_000)).toEqual(["a"]);
  });

  test("a commit with a new due time ends the claim; any other commit does not", async (kit) => {
    await kit.create({ a: due(T0), b: due(T0), c: due(T0), d: due(T0) });
    expect((await kit.due(T0, 10, T0, 60_000)).sort()).toEqual(["a", "b", "c", "d"]);
    await kit.set("a", due(T0 + 100));
    await kit.set("b", due(T0 - 100));
    await kit.set("c", due(null));
    await kit.set("d", { ...due(T0), text: "same time" });
    expect(await kit.due(T0 + 99)).toEqual(["b"]);
    expect(await kit.due(T0 + 100)).toEqual(["a"]);
    expect(await kit.due(T0 + 70_000)).toEqual(["b", "d", "a"]);
  });

  test("claims on the queue and the due time of a record are independent", async (kit) => {
    await kit.create({ a: { text: "", queue: at("q", 1), dueMs: T0 } });
    expect(await kit.take("q", 1)).toEqual(["a"]);
    expect(await kit.due(T0)).toEqual(["a"]);
    await kit.set("a", { text: "", queue: at("q", 1), dueMs: T0 + 1 });
    expect(await kit.due(T0 + 1)).toEqual(["a"]);
    expect(await kit.take("q", 1)).toEqual([]);
  });

  test("concurrent commits and sweeps of one tick lose no record", async (kit) => {
    const ids = names("d", 40);
    await kit.create(Object.fromEntries(ids.map((id) => [id, due(T0)])));
    const docs = await kit.run(Promise.all(ids.map((id) => kit.store.load(DOCS, id))));
    const moves = docs.slice(0, 20).map((doc) => changeOf([put(DOCS, doc!.id, doc, due(T0 + 50))]));
    const sweep = kit.store.due({ nowMs: T0, untilMs: T0, leaseMs: 10, limit: 100 });
    await kit.run(Promise.all([sweep, ...moves.map((move) => kit.store.commit(move))]));
    expect((await kit.due(T0 + 50, 100, T0 + 50)).sort()).toEqual(ids);
  });
}
