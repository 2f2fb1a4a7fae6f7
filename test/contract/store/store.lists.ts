import { expect } from "vitest";
import { at, DOCS, type Doc, NOTES, names, type StoreCase } from "./store.subject.ts";

/** Lists and their pages. */
export function listCases(test: StoreCase): void {
  orderCases(test);
  pagingCases(test);
  rangeCases(test);
  unionCases(test);
}

function unionCases(test: StoreCase): void {
  const colours = ["red", "green", "blue"] as const;

  test("reads disjoint lists as one, in one order, with one cursor", async (kit) => {
    const docs = names("d", 60).map((id, n) => [id, listed(Math.floor(n / 4), `c/${colours[n % 3]}`)] as const);
    await kit.create(Object.fromEntries(docs));
    const union = ["c/red", "c/blue", "c/none"];
    const expected = names("d", 60).filter((_, n) => n % 3 !== 1);
    for (const limit of [1, 7, 40, 41]) {
      const pages = await kit.pages({ index: union, limit, order: "oldest" });
      expect(pages.flat()).toEqual(expected);
      expect(pages.slice(0, -1).every((page) => page.length === limit)).toBe(true);
      expect((await kit.pages({ index: union, limit })).flat()).toEqual([...expected].reverse());
    }
    const range = { index: union, scoreMin: 3, scoreMax: 8 };
    const within = expected.filter((id) => Number(id.slice(2)) >= 12 && Number(id.slice(2)) < 36);
    expect((await kit.pages({ ...range, limit: 5, order: "oldest" })).flat()).toEqual(within);
    expect(await kit.run(kit.store.count(DOCS, range))).toBe(within.length);
    expect(await kit.pages({ index: [], limit: 5 })).toEqual([[]]);
    expect(await kit.run(kit.store.count(DOCS, { index: [] }))).toBe(0);
  });

  test("skips no record of a union that moves between its lists", async (kit) => {
    await kit.create(Object.fromEntries(names("d", 30).map((id, n) => [id, listed(n, "s/open")])));
    const pages = await kit.pages({ index: ["s/open", "s/done"], limit: 4, order: "oldest" }, async (page) => {
      for (const n of [page * 4 - 1, page * 4, page * 4 + 9]) {
        if (n < 30) await kit.set(names("d", 30)[n]!, listed(n, "s/done"));
      }
    });
    expect(pages.flat()).toEqual(names("d", 30));
  });
}

function rangeCases(test: StoreCase): void {
  test("limits pages and counts to a range of scores, both bounds included", async (kit) => {
    await kit.create(Object.fromEntries(names("d", 30).map((id, n) => [id, listed(Math.floor(n / 3), "all")])));
    const range = { index: "all", scoreMin: 2, scoreMax: 5 };
    const within = names("d", 30).slice(6, 18);
    expect((await kit.pages({ ...range, limit: 5, order: "oldest" })).flat()).toEqual(within);
    expect((await kit.pages({ ...range, limit: 5 })).flat()).toEqual([...within].reverse());
    expect(await kit.run(kit.store.count(DOCS, range))).toBe(12);
    expect(await kit.run(kit.store.count(DOCS, { index: "all" }))).toBe(30);
    expect(await kit.run(kit.store.count(DOCS, { index: "all", scoreMin: 9 }))).toBe(3);
    expect(await kit.run(kit.store.count(DOCS, { index: "all", scoreMax: 0 }))).toBe(3);
    expect(await kit.run(kit.store.count(DOCS, { index: "all", scoreMin: 6, scoreMax: 5 }))).toBe(0);
    expect(await kit.run(kit.store.count(DOCS, { index: "none" }))).toBe(0);
  });

  test("counts exactly up to a maximum, over one list or several", async (kit) => {
    await kit.create(Object.fromEntries(names("d", 30).map((id, n) => [id, listed(n, n % 3 === 0 ? "a" : "b")])));
    const count = (max: number, index: string | readonly string[] = ["a", "b"]) =>
      kit.run(kit.store.count(DOCS, { index, max }));
    expect(await count(30)).toBe(30);
    expect(await count(10, "a")).toBe(10);
    for (const max of [0, 9, 10, 29]) expect(await count(max)).toBeGreaterThan(max);
  });

  test("ignores a cursor outside of the range", async (kit) => {
    await kit.create(Object.fromEntries(names("d", 10).map((id, n) => [id, listed(n, "all")])));
    for (const order of ["newest", "oldest"] as const) {
      const first = await kit.run(kit.store.list(DOCS, { index: "all", limit: 1, order }));
      const query = { index: "all", limit: 20, order, scoreMin: 4, scoreMax: 6, cursor: first.cursor ?? undefined };
      expect((await kit.run(kit.store.list(DOCS, query))).items).toHaveLength(3);
    }
  });
}

const listed = (score: number, ...lists: string[]): Doc => ({
  text: `${score}`,
  lists: lists.map((name) => at(name, score)),
});

function orderCases(test: StoreCase): void {
  test("lists records with versions, newest or oldest first", async (kit) => {
    await kit.create({ b: listed(20, "all"), a: listed(10, "all"), c: listed(30, "all") });
    await kit.set("b", { ...listed(20, "all"), text: "changed" });
    const newest = await kit.run(kit.store.list(DOCS, { index: "all", limit: 10 }));
    expect(newest).toEqual({
      items: [
        { id: "c", version: 1, value: listed(30, "all") },
        { id: "b", version: 2, value: { ...listed(20, "all"), text: "changed" } },
        { id: "a", version: 1, value: listed(10, "all") },
      ],
      cursor: null,
    });
    expect(await kit.pages({ index: "all", limit: 10, order: "oldest" })).toEqual([["a", "b", "c"]]);
    expect(await kit.pages({ index: "none", limit: 10 })).toEqual([[]]);
  });

  test("filters by an index, so that pages are full", async (kit) => {
    const docs = names("d", 60).map((id, n) => [id, listed(n, "all", n % 6 === 0 ? "all/open" : "all/done")] as const);
    await kit.create(Object.fromEntries(docs));
    const open = names("d", 60).filter((_, n) => n % 6 === 0);
    expect(await kit.pages({ index: "all/open", limit: 4, order: "oldest" })).toEqual([
      open.slice(0, 4),
      open.slice(4, 8),
      open.slice(8),
    ]);
  });

  test("moves a record between lists by its commits", async (kit) => {
    await kit.create({ a: listed(1, "all", "open"), b: listed(2, "all", "open") });
    await kit.set("a", listed(1, "all", "done"));
    expect(await kit.pages({ index: "open", limit: 10 })).toEqual([["b"]]);
    expect(await kit.pages({ index: "done", limit: 10 })).toEqual([["a"]]);
    expect(await kit.pages({ index: "all", limit: 10 })).toEqual([["b", "a"]]);
  });

  test("compares scores exactly up to 2^52 - 1, and keeps lists of different tables separate", async (kit) => {
    const max = 2 ** 52 - 1;
    await kit.create({ a: listed(max - 1, "all"), b: listed(max, "all"), c: listed(0, "all"), d: listed(9, "all") });
    await kit.set("n", listed(5, "all"), {}, NOTES);
    expect(await kit.pages({ index: "all", limit: 1 })).toEqual([["b"], ["a"], ["d"], ["c"]]);
    const notes = await kit.run(kit.store.list(NOTES, { index: "all", limit: 10 }));
    expect(notes.items.map(({ id }) => id)).toEqual(["n"]);
  });

  test("returns no cursor with the last page, even if it is full", async (kit) => {
    await kit.create(Object.fromEntries(names("d", 6).map((id, n) => [id, listed(n, "all")])));
    expect(await kit.pages({ index: "all", limit: 3, order: "oldest" })).toEqual([
      names("d", 6).slice(0, 3),
      names("d", 6).slice(3),
    ]);
  });
}

function pagingCases(test: StoreCase): void {
  for (const order of ["newest", "oldest"] as const) {
    test(`returns each of 10,000 records with the same score once, ${order} first`, async (kit) => {
      const ids = names("d", 10_000);
      await kit.create(Object.fromEntries(ids.map((id) => [id, listed(7, "all")])));
      const pages = await kit.pages({ index: "all", limit: 700, order });
      expect(pages.slice(0, -1).every((page) => page.length === 700)).toBe(true);
      expect(pages.flat()).toEqual(order === "oldest" ? ids : [...ids].reverse());
    });

    test(`neither repeats nor skips entries while records are added, ${order} first`, async (kit) => {
      const ids = names("m", 40);
      await kit.create(Object.fromEntries(ids.map((id, n) => [id, listed(100 + Math.floor(n / 10), "all")])));
      const pages = await kit.pages({ index: "all", limit: 7, order }, async (page) => {
        // Before, between and after the existing records, also with equal scores.
        for (const score of [1, 100, 101, 102, 103, 500]) {
          await kit.set(`a-${page}-${score}`, listed(score, "all"));
          await kit.set(`z-${page}-${score}`, listed(score, "all"));
        }
      });
      const seen = pages.flat();
      expect(new Set(seen).size).toBe(seen.length);
      const old = seen.filter((id) => id.startsWith("m-"));
      expect(old).toEqual(order === "oldest" ? ids : [...ids].reverse());
    });

    test(`does not skip entries while records are deleted, ${order} first`, async (kit) => {
      const ids = names("d", 30);
      await kit.create(Object.fromEntries(ids.map((id, n) => [id, listed(Math.floor(n / 4), "all")])));
      const expected = order === "oldest" ? ids : [...ids].reverse();
      const deleted: string[] = [];
      const pages = await kit.pages({ index: "all", limit: 5, order }, async (page) => {
        // The record of the cursor, and one after it.
        for (const id of [expected[page * 5 - 1]!, expected[page * 5 + 2]!]) {
          await kit.set(id, null);
          deleted.push(id);
        }
      });
      const seen = pages.flat();
      expect(new Set(seen).size).toBe(seen.length);
      expect(ids.filter((id) => !seen.includes(id) && !deleted.includes(id))).toEqual([]);
    });
  }

  test("rejects an invalid cursor", async (kit) => {
    await kit.create({ a: listed(1, "all") });
    await expect(kit.run(kit.store.list(DOCS, { index: "all", limit: 1, cursor: "!" }))).rejects.toThrow("cursor");
  });
}
