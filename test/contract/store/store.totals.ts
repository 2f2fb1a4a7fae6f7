import { expect } from "vitest";
import { put, type Total } from "../../../src/ports/store.ts";
import { changeOf, counter, DOCS, type StoreCase } from "./store.subject.ts";

/** Totals: sums that commits add to. */
export function totalCases(test: StoreCase): void {
  const of = (name: string, delta = 1): Total => ({ name, delta });

  test("sums the deltas of all commits per name, from 0", async (kit) => {
    expect(await kit.run(kit.store.total("a:first_total"))).toBe(0);
    await kit.set("x", { text: "" }, { totals: [of("a:first_total"), of("a:second_total", 5)] });
    await kit.set("y", { text: "" }, { totals: [of("a:first_total", 2), of("a:first_total", 3)] });
    expect(await kit.run(kit.store.total("a:first_total"))).toBe(6);
    expect(await kit.run(kit.store.total("a:second_total"))).toBe(5);
    expect(await kit.run(kit.store.total("a"))).toBe(0);
  });

  test("adds nothing for a stale or refused change; adds for a change without puts", async (kit) => {
    await kit.set("x", { text: "" }, { totals: [of("t")] });
    const stale = put(DOCS, "x", null, { text: "again" });
    expect(await kit.commit([stale], { totals: [of("t")] })).toMatchObject({ kind: "stale" });
    const guards = [{ kind: "counter", counter: counter("full"), max: -1 }] as const;
    expect(await kit.commit([], { guards, totals: [of("t")] })).toMatchObject({ kind: "refused" });
    expect(await kit.commit([], { totals: [of("t", 10)] })).toMatchObject({ kind: "committed" });
    expect(await kit.run(kit.store.total("t"))).toBe(11);
  });

  test("keeps totals separate from counters and records", async (kit) => {
    await kit.set("x", { text: "", counters: [counter("t")] }, { totals: [of("t", 7), of("slots", 3)] });
    expect(await kit.counts()).toEqual({ t: 1 });
    await kit.set("x", null);
    expect(await kit.counts()).toEqual({});
    expect(await kit.run(kit.store.total("t"))).toBe(7);
    expect(await kit.run(kit.store.total("slots"))).toBe(3);
  });

  test("adds the totals of all commits of one tick", async (kit) => {
    const changes = Array.from({ length: 200 }, (_, at) =>
      changeOf([put(DOCS, `d${at}`, null, { text: "" })], { totals: [of("t"), of(`t${at % 3}`)] }),
    );
    await kit.commitTogether(changes);
    expect(await kit.run(kit.store.total("t"))).toBe(200);
    expect(await kit.run(kit.store.total("t1"))).toBe(67);
  });

  test("keeps totals across a restart", async (kit) => {
    const { reopen } = kit.subject;
    if (!reopen) return kit.skip("the harness cannot restart this store");
    await kit.set("x", { text: "" }, { totals: [of("t", 4)] });
    kit.store = await reopen();
    await kit.set("y", { text: "" }, { totals: [of("t")] });
    expect(await kit.run(kit.store.total("t"))).toBe(5);
  });
}
