import { expect } from "vitest";
import { at, counter, DOCS, type Doc, message, NOTES, names, type StoreCase, T0 } from "./store.subject.ts";

/** Durability across a restart. */
export function reopenCases(test: StoreCase): void {
  test("keeps everything that was committed across a restart", async (kit) => {
    const { reopen } = kit.subject;
    if (!reopen) return kit.skip("the harness cannot restart this store");
    const doc = (n: number): Doc => ({
      text: `${n}`,
      lists: [at("all", n)],
      queue: at("q", 100 - n),
      counters: [counter("x")],
      dueMs: T0 + n,
    });
    const ids = names("d", 50);
    await kit.create(Object.fromEntries(ids.map((id, n) => [id, doc(n)])));
    await kit.set("d-00000", null);
    await kit.set(
      "d-00001",
      { ...doc(1), text: "changed" },
      { guards: [{ kind: "fence", table: "doc", id: "d", fence: 8 }] },
    );
    await kit.set("n", { text: "note" }, { sends: [message("kept"), message("confirmed")] }, NOTES);
    await kit.run(kit.store.sent(["confirmed"]));

    kit.store = await reopen();

    const left = ids.slice(1);
    expect(await kit.load("d-00000")).toBeNull();
    expect(await kit.load("d-00001")).toEqual({ id: "d-00001", version: 2, value: { ...doc(1), text: "changed" } });
    expect(await kit.load("n", NOTES)).toEqual({ id: "n", version: 1, value: { text: "note" } });
    expect((await kit.pages({ index: "all", limit: 11, order: "oldest" })).flat()).toEqual(left);
    expect(await kit.take("q", 100, T0 + 1_000_000)).toEqual([...left].reverse());
    expect(await kit.due(T0 + 100, 100, T0 + 1_000_000)).toEqual(left);
    expect(await kit.counts()).toEqual({ x: 49 });
    expect(await kit.run(kit.store.unsent(T0, 10))).toEqual([message("kept")]);
    const stale = { kind: "fence", table: "doc", id: "d", fence: 7 } as const;
    expect(await kit.commit([], { guards: [stale] })).toEqual({ kind: "refused", guard: stale, value: 0 });
    await kit.set("d-00002", null);
    expect(await kit.counts()).toEqual({ x: 48 });
    expect(await kit.run(kit.store.list(DOCS, { index: "all", limit: 100 }))).toMatchObject({ cursor: null });
  });
}
