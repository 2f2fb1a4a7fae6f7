import { expect } from "vitest";
import { put } from "../../../src/ports/store.ts";
import { at, changeOf, counter, DOCS, type Doc, NOTES, names, type StoreCase, type StoreKit } from "./store.subject.ts";

/** `recount` corrects a counter that differs from its lists. */
export function recountCases(test: StoreCase): void {
  test("leaves a correct counter, and returns 0", async (kit) => {
    await kit.create({ a: open(1), b: open(2), c: open(3, "paused") });
    expect(await recount(kit)).toBe(0);
    expect(await kit.counts()).toEqual({ "org-1": 3 });
    expect(await recount(kit, "unknown", ["unknown"])).toBe(0);
    expect(await kit.counts()).toEqual({ "org-1": 3 });
  });

  test("corrects a counter that is too high or too low, and returns the difference", async (kit) => {
    await kit.create({ a: open(1), leaked: { text: "", counters: [SLOT, SLOT] } });
    expect(await kit.counts()).toEqual({ "org-1": 3 });
    expect(await recount(kit)).toBe(2);
    expect(await kit.counts()).toEqual({ "org-1": 1 });
    await kit.create({ b: { text: "", lists: [at("open", 9)] }, c: { text: "", lists: [at("paused", 9)] } });
    expect(await recount(kit)).toBe(-2);
    expect(await recount(kit)).toBe(0);
    expect(await kit.counts()).toEqual({ "org-1": 3 });
  });

  test("guards use the corrected counter", async (kit) => {
    await kit.create({ leaked: { text: "", counters: [SLOT, SLOT] } });
    const guards = [{ kind: "counter", counter: SLOT, max: 1 }] as const;
    expect(await kit.set("a", open(1), { guards })).toMatchObject({ kind: "refused", value: 2 });
    await recount(kit);
    expect(await kit.set("a", open(1), { guards })).toMatchObject({ kind: "committed" });
    expect(await kit.set("b", open(2), { guards })).toMatchObject({ kind: "refused", value: 1 });
    await kit.set("a", null);
    expect(await kit.counts()).toEqual({});
  });

  test("removes a counter at zero, and corrects one below zero", async (kit) => {
    await kit.create({ leaked: { text: "", counters: [SLOT] } });
    expect(await recount(kit)).toBe(1);
    expect(await kit.counts()).toEqual({});
    await kit.set("leaked", null);
    expect(await kit.counts()).toEqual({ "org-1": -1 });
    expect(await recount(kit)).toBe(-1);
    expect(await kit.counts()).toEqual({});
  });

  test("uses only the given lists and table, and changes only the given counter", async (kit) => {
    await kit.create({ a: open(1), b: { text: "", lists: [at("other", 1)], counters: [counter("org-2")] } });
    await kit.create({ n: { text: "", lists: [at("open", 1)], counters: [counter("org-1", "others")] } }, NOTES);
    expect(await recount(kit)).toBe(0);
    expect(await recount(kit, "org-2", ["other"])).toBe(0);
    expect(await kit.counts()).toEqual({ "org-1": 1, "org-2": 1 });
    expect(await kit.counts("others")).toEqual({ "org-1": 1 });
  });

  test("is exact with concurrent commits: one recount finds the difference", async (kit) => {
    await kit.create(Object.fromEntries(names("old", 20).map((id, index) => [id, open(index)])));
    await kit.create({ leaked: { text: "", counters: [SLOT, SLOT, SLOT] } });
    const old = await kit.run(Promise.all(names("old", 20).map((id) => kit.store.load(DOCS, id))));
    const offs: Promise<number>[] = [];
    const commits = names("new", 40).map((id, index) => {
      if (index % 4 === 1) offs.push(kit.store.recount(SLOT, DOCS.name, ["open", "paused"]));
      const gone = old[index];
      const moved = gone ? [put(DOCS, gone.id, gone, index % 2 === 0 ? null : open(index, "paused"))] : [];
      return kit.store.commit(changeOf([put(DOCS, id, null, open(100 + index)), ...moved]));
    });
    const answers = await kit.run(Promise.all(commits));
    expect(answers.every(({ kind }) => kind === "committed")).toBe(true);
    const found = await kit.run(Promise.all(offs));
    expect(found.filter((off) => off !== 0)).toEqual([3]);
    expect(await kit.counts()).toEqual({ "org-1": 50 });
    expect(await recount(kit)).toBe(0);
  });

  test("keeps the corrected counter across a restart", async (kit) => {
    const { reopen } = kit.subject;
    if (!reopen) return kit.skip("the harness cannot restart this store");
    await kit.create({ a: open(1), leaked: { text: "", counters: [SLOT] } });
    await recount(kit);
    kit.store = await reopen();
    expect(await kit.counts()).toEqual({ "org-1": 1 });
  });
}

const SLOT = counter("org-1");

/** A record that uses a slot and is in a list. */
const open = (score: number, list = "open"): Doc => ({ text: "", lists: [at(list, score)], counters: [SLOT] });

const recount = (kit: StoreKit, name = SLOT.name, lists = ["open", "paused"]): Promise<number> =>
  kit.run(kit.store.recount(counter(name), DOCS.name, lists));
