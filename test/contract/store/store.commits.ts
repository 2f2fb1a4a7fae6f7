import { expect } from "vitest";
import { NOWHERE, put } from "../../../src/ports/store.ts";
import {
  at,
  changeOf,
  counter,
  DOCS,
  message,
  NOTES,
  names,
  type StoreCase,
  type StoreKit,
  T0,
} from "./store.subject.ts";

/** Versions, deletion, batches and the outbox. */
export function commitCases(test: StoreCase): void {
  versionCases(test);
  valueCases(test);
  togetherCases(test);
  outboxCases(test);
}

function versionCases(test: StoreCase): void {
  test("returns null for an unknown record", async (kit) => {
    expect(await kit.load("a")).toBeNull();
  });

  test("counts versions from 1, one per write", async (kit) => {
    for (const version of [1, 2, 3]) {
      expect(await kit.set("a", { text: `v${version}` })).toEqual({ kind: "committed", seen: [] });
      expect(await kit.load("a")).toEqual({ id: "a", version, value: { text: `v${version}` } });
    }
  });

  test("returns a record that changes in small steps completely, in all reads and after a restart", async (kit) => {
    const large = "x".repeat(2_000);
    for (let version = 1; version <= 20; version++) {
      const before = await kit.load("a");
      // The other fields keep their identity, and the list grows.
      const lists = [...(before?.value.lists ?? [at("all", 1)]), at(`list-${version}`, 1)];
      const doc = {
        ...(before?.value ?? { text: large, queue: at("q", 1), counters: [] }),
        lists,
        dueMs: T0 + version,
      };
      if (version % 3 === 0) doc.queue = at("q", version);
      await kit.commit([put(DOCS, "a", before, doc)]);
      const whole = { id: "a", version, value: doc };
      expect(await kit.load("a")).toEqual(whole);
      if (version % 2 !== 0) continue;
      // Together with another read in one tick, and alone.
      const query = { index: "all", limit: 5 };
      const [loaded] = await kit.run(Promise.all([kit.store.load(DOCS, "a"), kit.store.list(DOCS, query)]));
      expect(loaded).toEqual(whole);
      if (version % 5 !== 0) continue;
      expect((await kit.run(kit.store.list(DOCS, { index: "all", limit: 5 }))).items).toEqual([whole]);
      const nowMs = T0 + version * 10_000;
      const claim = { nowMs, leaseMs: 1_000, limit: 5 };
      expect(await kit.run(kit.store.take(DOCS, { queue: "q", ...claim }))).toEqual([whole]);
      expect(await kit.run(kit.store.due({ untilMs: nowMs, ...claim }))).toMatchObject([
        { ...whole, dueMs: doc.dueMs },
      ]);
      if (kit.subject.reopen) kit.store = await kit.subject.reopen();
    }
  });

  test("applies several changes of one record in one tick in sequence", async (kit) => {
    await kit.set("a", { text: "1" });
    let before = (await kit.load("a"))!;
    const changes = ["2", "3", "4"].map((text) => {
      const change = changeOf([put(DOCS, "a", before, { ...before.value, text })]);
      before = { id: "a", version: before.version + 1, value: { ...before.value, text } };
      return change;
    });
    for (const answer of await kit.commitTogether(changes)) expect(answer).toMatchObject({ kind: "committed" });
    expect(await kit.load("a")).toEqual({ id: "a", version: 4, value: { text: "4" } });
    expect(await kit.set("a", null)).toMatchObject({ kind: "committed" });
    expect(await kit.set("a", { text: "anew" })).toMatchObject({ kind: "committed" });
    expect(await kit.load("a")).toEqual({ id: "a", version: 1, value: { text: "anew" } });
  });

  test("writes nothing for a stale change: no record, placement, counter or message", async (kit) => {
    await kit.set("a", { text: "first", lists: [at("all", 1)] });
    const old = await kit.load("a");
    await kit.set("a", { text: "second", lists: [at("all", 1)] });
    const there = { text: "late", lists: [at("all", 2)], queue: at("q", 1), counters: [counter("x")], dueMs: T0 };
    const answer = await kit.commit([put(DOCS, "b", null, there), put(DOCS, "a", old, there)], {
      sends: [message("m")],
      guards: [{ kind: "fence", table: "doc", id: "b", fence: 9 }],
    });
    expect(answer).toEqual({ kind: "stale", table: "doc", id: "a" });
    expect(await kit.load("b")).toBeNull();
    expect(await kit.load("a")).toMatchObject({ version: 2, value: { text: "second" } });
    expect(await kit.pages({ index: "all", limit: 10 })).toEqual([["a"]]);
    expect(await kit.take("q", 10)).toEqual([]);
    expect(await kit.counts()).toEqual({});
    expect(await kit.due(T0)).toEqual([]);
    expect(await kit.unsent(T0)).toEqual([]);
    const fence = { kind: "fence", table: "doc", id: "b", fence: 1 } as const;
    expect(await kit.commit([], { guards: [fence] })).toMatchObject({ kind: "committed" });
  });

  test("returns stale for a record that exists unexpectedly or is missing", async (kit) => {
    await kit.set("a", { text: "here" });
    expect(await kit.commit([put(DOCS, "a", null, { text: "new" })])).toMatchObject({ kind: "stale", id: "a" });
    const gone = { id: "b", version: 1, value: { text: "?" } };
    expect(await kit.commit([put(DOCS, "b", gone, { text: "new" })])).toMatchObject({ kind: "stale", id: "b" });
  });

  test("commits one of several concurrent changes of one version", async (kit) => {
    await kit.set("a", { text: "start" });
    const before = await kit.load("a");
    const answers = await kit.commitTogether(
      names("w", 20).map((text) => changeOf([put(DOCS, "a", before, { text })], { watch: [counter("x")] })),
    );
    expect(answers.filter(({ kind }) => kind === "committed")).toHaveLength(1);
    expect(answers.filter(({ kind }) => kind === "stale")).toHaveLength(19);
    const winner = names("w", 20)[answers.findIndex(({ kind }) => kind === "committed")];
    expect(await kit.load("a")).toEqual({ id: "a", version: 2, value: { text: winner } });
  });

  test("`expect: null` skips the version check and increments the version", async (kit) => {
    const blind = (text: string) => ({ ...put(DOCS, "a", null, { text }), expect: null });
    expect(await kit.commit([blind("one")])).toMatchObject({ kind: "committed" });
    expect(await kit.commit([blind("two")])).toMatchObject({ kind: "committed" });
    expect(await kit.load("a")).toEqual({ id: "a", version: 2, value: { text: "two" } });
  });

  test("removes a deleted record from all indexes, and allows it to be created again", async (kit) => {
    const doc = { text: "x", lists: [at("all", 5)], queue: at("q", 5), counters: [counter("x")], dueMs: T0 };
    await kit.set("a", doc);
    await kit.set("a", null);
    expect(await kit.load("a")).toBeNull();
    expect(await kit.pages({ index: "all", limit: 10 })).toEqual([[]]);
    expect(await kit.take("q", 10)).toEqual([]);
    expect(await kit.due(T0)).toEqual([]);
    expect(await kit.counts()).toEqual({});
    await kit.set("a", doc);
    expect(await kit.load("a")).toMatchObject({ version: 1 });
    expect(await kit.take("q", 10)).toEqual(["a"]);
  });

  test("deletes nothing with a stale version", async (kit) => {
    await kit.set("a", { text: "1" });
    const old = await kit.load("a");
    await kit.set("a", { text: "2" });
    expect(await kit.commit([put(DOCS, "a", old, null)])).toEqual({ kind: "stale", table: "doc", id: "a" });
    expect(await kit.load("a")).toMatchObject({ version: 2 });
  });
}

function valueCases(test: StoreCase): void {
  test("returns values unchanged", async (kit) => {
    const values = [
      { text: "" },
      { text: "quotes \" ' ` \\ and \n lines \0 and zeros", deep: { list: [1, -0.5, 1e21, null, true, [], {}] } },
      { text: "ümläut 漢字 🙂" },
      { text: "x".repeat(300_000) },
    ];
    for (const [index, value] of values.entries()) await kit.set(`v${index}`, value);
    for (const [index, value] of values.entries()) {
      expect(await kit.load(`v${index}`)).toEqual({ id: `v${index}`, version: 1, value });
    }
  });

  test("accepts any printable id, and keeps tables separate", async (kit) => {
    const ids = ["org/key", "a:b", "a b", "ü", "{x}", "a/b/c", "*"];
    for (const id of ids) {
      await kit.set(id, { text: id, lists: [at("all", 1)] });
      await kit.set(id, { text: `note ${id}` }, {}, NOTES);
    }
    for (const id of ids) {
      expect(await kit.load(id)).toMatchObject({ id, version: 1, value: { text: id } });
      expect(await kit.load(id, NOTES)).toMatchObject({ id, version: 1, value: { text: `note ${id}` } });
    }
    const listed = (await kit.pages({ index: "all", limit: 2 })).flat();
    expect([...listed].sort()).toEqual([...ids].sort());
  });
}

function togetherCases(test: StoreCase): void {
  test("commits a change of many records atomically", async (kit) => {
    const ids = names("d", 300);
    await kit.create(Object.fromEntries(ids.map((id) => [id, { text: id }])));
    const loaded = await kit.run(Promise.all(ids.map((id) => kit.store.load(DOCS, id))));
    await kit.set("d-00299", { text: "moved on" });
    const puts = ids.map((id, index) => put(DOCS, id, loaded[index]!, { text: "all" }));
    expect(await kit.commit(puts)).toEqual({ kind: "stale", table: "doc", id: "d-00299" });
    const after = await kit.run(Promise.all(ids.map((id) => kit.store.load(DOCS, id))));
    expect(after.filter((doc) => doc?.value.text === "all")).toEqual([]);
  });

  test("returns each of 1,000 changes of one tick its own result", async (kit) => {
    const limit = 30;
    const slot = counter("org");
    const guard = { kind: "counter", counter: slot, max: limit } as const;
    const changes = Array.from({ length: 1_000 }, (_, index) => {
      switch (index % 4) {
        case 0:
          return changeOf([put(DOCS, `free-${index}`, null, { text: "free" })]);
        case 1:
          return changeOf([put(DOCS, `raced-${index % 20}`, null, { text: `${index}` })]);
        case 2:
          return changeOf([put(DOCS, `slot-${index}`, null, { text: "slot", counters: [slot] })], { guards: [guard] });
        default:
          return changeOf([put(DOCS, `never-${index}`, { id: "", version: 7, value: { text: "" } }, { text: "x" })]);
      }
    });
    const answers = await kit.commitTogether(changes);
    const kinds = (rest: number) => answers.filter((_, index) => index % 4 === rest).map(({ kind }) => kind);
    expect(new Set(kinds(0))).toEqual(new Set(["committed"]));
    expect(kinds(1).filter((kind) => kind === "committed")).toHaveLength(5);
    expect(kinds(1).filter((kind) => kind === "stale")).toHaveLength(245);
    expect(kinds(2).filter((kind) => kind === "committed")).toHaveLength(limit);
    expect(kinds(2).filter((kind) => kind === "refused")).toHaveLength(250 - limit);
    expect(new Set(kinds(3))).toEqual(new Set(["stale"]));
    expect(await kit.counts()).toEqual({ org: limit });
    for (const [index, answer] of answers.entries()) {
      const { id } = changes[index]!.puts[0]!;
      const isThere = (await kit.load(id)) !== null;
      expect(isThere).toBe(answer.kind === "committed" || index % 4 === 1);
    }
  });

  test("rejects only the change that cannot be serialized", async (kit) => {
    const circular: { text: string; self?: unknown } = { text: "circular" };
    circular.self = circular;
    const good = names("good", 10).map((id) => kit.store.commit(changeOf([put(DOCS, id, null, { text: id })])));
    const bad = kit.store.commit(changeOf([{ ...put(DOCS, "bad", null, { text: "" }), value: circular }]));
    const answers = await kit.run(Promise.allSettled([...good.slice(0, 5), bad, ...good.slice(5)]));
    expect(answers.map(({ status }) => status)).toEqual([
      ...Array(5).fill("fulfilled"),
      "rejected",
      ...Array(5).fill("fulfilled"),
    ]);
    expect(await kit.load("bad")).toBeNull();
    expect(await kit.load("good-00009")).toMatchObject({ version: 1 });
  });

  test("commits an empty change", async (kit) => {
    expect(await kit.commit([])).toEqual({ kind: "committed", seen: [] });
    expect(await kit.commit([{ table: "doc", id: "a", value: null, expect: 0, from: NOWHERE, to: NOWHERE }])).toEqual({
      kind: "committed",
      seen: [],
    });
    expect(await kit.load("a")).toBeNull();
  });
}

function outboxCases(test: StoreCase): void {
  const send = (kit: StoreKit, id: string, atMs: number) => kit.commit([], { sends: [message(id)], atMs });

  test("lists messages as unsent from their commit until they are confirmed", async (kit) => {
    await kit.set("a", { text: "with a message" }, { sends: [message("m1"), message("m2")] });
    expect(await kit.run(kit.store.unsent(T0, 10))).toEqual([message("m1"), message("m2")]);
    await kit.run(kit.store.sent(["m1"]));
    expect(await kit.unsent(T0)).toEqual(["m2"]);
    await kit.run(kit.store.sent(["m1", "m2", "unknown"]));
    await kit.run(kit.store.sent(["m2"]));
    await kit.run(kit.store.sent([]));
    expect(await kit.unsent(T0 + 1_000_000)).toEqual([]);
  });

  test("sends nothing for a refused change", async (kit) => {
    const guards = [{ kind: "counter", counter: counter("x"), max: -1 }] as const;
    expect(await kit.commit([], { guards, sends: [message("m")] })).toEqual({
      kind: "refused",
      guard: guards[0],
      value: 0,
    });
    expect(await kit.unsent(T0)).toEqual([]);
  });

  test("`unsent` returns messages committed at or before a time, oldest first, up to a limit", async (kit) => {
    await send(kit, "third", T0 + 300);
    await send(kit, "first", T0 + 100);
    await send(kit, "second", T0 + 200);
    expect(await kit.unsent(T0 + 99)).toEqual([]);
    expect(await kit.unsent(T0 + 100)).toEqual(["first"]);
    expect(await kit.unsent(T0 + 299)).toEqual(["first", "second"]);
    expect(await kit.unsent(T0 + 300)).toEqual(["first", "second", "third"]);
    expect(await kit.unsent(T0 + 300, 2)).toEqual(["first", "second"]);
  });

  test("keeps the commit order of messages of one millisecond", async (kit) => {
    for (const id of ["m-c", "m-a", "m-b"]) await send(kit, id, T0);
    expect(await kit.unsent(T0)).toEqual(["m-c", "m-a", "m-b"]);
  });
}
