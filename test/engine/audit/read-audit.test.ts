import { describe, expect, test } from "vitest";
import {
  AUDIT_HEADS,
  AUDIT_PAGES,
  type AuditEntry,
  type AuditPage,
  PAGE_ENTRIES,
  pageId,
  type StampedLine,
} from "../../../src/core/model/audit.ts";
import type { AuditFilter } from "../../../src/core/model/lists/audit-lists.ts";
import { recordAudit } from "../../../src/engine/audit/audit-log.ts";
import { chainAudit } from "../../../src/engine/audit/chain-audit.ts";
import { indexEarlierAudit } from "../../../src/engine/audit/index-audit.ts";
import { readAudit, readFilteredAudit } from "../../../src/engine/audit/read-audit.ts";
import { put, type Store } from "../../../src/ports/store.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness } from "../harness.ts";

/** Every third entry is a key, the others are policies. */
async function withEntries(count: number) {
  const harness = new Harness();
  const engine = harness.engine("a");
  for (let at = 0; at < count; at++) {
    const kind = at % 3 === 0 ? "key" : "policy";
    recordAudit(engine, { org: "acme", kind, who: "operator", what: `line ${at}`, facts: {} });
  }
  await harness.pass(100);
  const read = async (limit: number, before: number | null = null) => {
    const page = await harness.run(readAudit(engine, "acme", { limit, before }));
    return { indexes: page.entries.map(({ index }) => index), before: page.before };
  };
  return { harness, engine, read };
}

const down = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, at) => from - at);

test("leaves out the entries of a missing page", async () => {
  const { harness, engine, read } = await withEntries(PAGE_ENTRIES + 5);
  expect((await read(3)).indexes).toHaveLength(3);
  const { store } = engine.world;
  const missing = pageId("acme", 1);
  const load = (table: { readonly name: string }, id: string) =>
    id === missing ? Promise.resolve(null) : store.load(table as typeof AUDIT_PAGES, id);
  Object.assign(engine.world, { store: around(store, { load: load as Store["load"] }) });
  const { entries, before } = await harness.run(readAudit(engine, "acme", { limit: 8, before: PAGE_ENTRIES + 5 }));
  expect(entries.map(({ index }) => index)).toEqual(down(PAGE_ENTRIES - 1, PAGE_ENTRIES - 3));
  expect(before).toBe(PAGE_ENTRIES - 3);
});

test("reads the latest entries first, also those that are not in the chain yet", async () => {
  const { read } = await withEntries(PAGE_ENTRIES + 5);
  const last = PAGE_ENTRIES + 4;
  expect(await read(3)).toEqual({ indexes: down(last, last - 2), before: last - 2 });
  expect(await read(5)).toEqual({ indexes: down(last, PAGE_ENTRIES), before: PAGE_ENTRIES });
  expect(await read(8)).toEqual({ indexes: down(last, last - 7), before: last - 7 });
  expect(await read(1_000)).toEqual({ indexes: down(last, 0), before: null });
});

test("continues before an entry", async () => {
  const { read } = await withEntries(PAGE_ENTRIES + 5);
  await read(1);
  expect(await read(2, PAGE_ENTRIES + 1)).toEqual({
    indexes: [PAGE_ENTRIES, PAGE_ENTRIES - 1],
    before: PAGE_ENTRIES - 1,
  });
  expect(await read(2, 2)).toEqual({ indexes: [1, 0], before: null });
  expect(await read(2, 3)).toEqual({ indexes: [2, 1], before: 1 });
  expect(await read(2, 0)).toEqual({ indexes: [], before: null });
  expect(await read(2, 10_000)).toMatchObject({ indexes: [PAGE_ENTRIES + 4, PAGE_ENTRIES + 3] });
});

test("a later page does not move entries into the chain, so that pages do not overlap", async () => {
  const { harness, engine, read } = await withEntries(4);
  await read(2);
  recordAudit(engine, { org: "acme", kind: "key", who: "operator", what: "later", facts: {} });
  await harness.pass(100);
  expect(await read(2, 10)).toMatchObject({ indexes: [3, 2] });
  expect(await read(2)).toMatchObject({ indexes: [4, 3] });
});

test("an unknown tenant has no entries", async () => {
  const { harness, engine } = await withEntries(0);
  const page = await harness.run(readAudit(engine, "none", { limit: 10, before: null }));
  expect(page).toEqual({ entries: [], before: null });
});

test("reads the entries of one kind", async () => {
  const { harness, engine } = await withEntries(PAGE_ENTRIES + 5);
  const read = async (limit: number, before: number | null = null) => {
    const page = await harness.run(readFilteredAudit(engine, "acme", { kind: "key" }, { limit, before }));
    expect(page.entries.every(({ kind }) => kind === "key")).toBe(true);
    return { indexes: page.entries.map(({ index }) => index), before: page.before };
  };
  await harness.run(readAudit(engine, "acme", { limit: 1, before: null }));
  expect(await read(2)).toEqual({ indexes: [204, 201], before: 201 });
  expect(await read(3, 201)).toEqual({ indexes: [198, 195, 192], before: 192 });
  expect(await read(2, 6)).toEqual({ indexes: [3, 0], before: null });
  expect(await read(5, 6)).toEqual({ indexes: [3, 0], before: null });
  expect((await read(1_000)).indexes).toHaveLength(69);
});

describe("filters", () => {
  /** Times go back and forth, as those of several processes do. */
  async function withActors(count: number) {
    const harness = new Harness();
    const engine = harness.engine("a");
    const lines = Array.from({ length: count }, (_, n): StampedLine => {
      const kind = n % 5 === 0 ? "approval" : n % 7 === 0 ? "cancel" : "decision";
      const what =
        kind === "decision" ? (n % 3 === 0 ? "deny" : "allow") : kind === "approval" ? "approved" : "cancelled";
      const who = n === 77 ? "rare" : `k${n % 4}/x`;
      return { at: 1_000 + n * 10 + ((n * 37) % 90), kind, who, what, facts: { job: `j${n % 50}` } };
    });
    for (let at = 0; at < lines.length; at += 90) {
      await harness.run(engine.commit({ org: "acme", puts: [engine.audit.put(lines.slice(at, at + 90), "acme")] }));
    }
    await harness.run(chainAudit(engine, "acme"));
    const entries = (await harness.run(readAudit(engine, "acme", { limit: count, before: null }))).entries;
    expect(entries).toHaveLength(count);
    return { harness, engine, entries };
  }
  type AuditQuery = AuditFilter & { readonly sinceMs?: number };

  async function compare(
    { harness, engine, entries }: Awaited<ReturnType<typeof withActors>>,
    filter: AuditQuery,
    isMatch: (entry: AuditEntry) => boolean,
  ): Promise<void> {
    let read = 0;
    const { store } = engine.world;
    const list: Store["list"] = async (table, query) => {
      const page = await store.list(table, query);
      read += page.items.length;
      return page;
    };
    const world = { ...engine.world, store: around(store, { list }) };
    const expected = entries.filter(isMatch).map(({ index }) => index);
    const seen: number[] = [];
    let requests = 0;
    for (let before: number | null = null; requests === 0 || before !== null; requests++) {
      const page: Awaited<ReturnType<typeof readFilteredAudit>> = await harness.run(
        readFilteredAudit({ world }, "acme", filter, { limit: 20, before }),
      );
      seen.push(...page.entries.map(({ index }) => index));
      before = page.before;
    }
    expect(seen).toEqual(expected);
    expect(requests).toBe(Math.max(1, Math.ceil(expected.length / 20)));
    // One page of the log for each entry at most, one for the end of each page of results, one for a start time.
    expect(read).toBeLessThanOrEqual(expected.length + 6 * requests);
  }

  test("return exactly the entries that match, and read only pages with a match (L40)", async () => {
    const chain = await withActors(2_000);
    const jobs = (job: string) => (entry: AuditEntry) =>
      entry.facts.job === job && !(entry.kind === "decision" && entry.what === "allow");
    const cases: readonly (readonly [AuditQuery, (entry: AuditEntry) => boolean])[] = [
      [{ actor: "rare" }, ({ who }) => who === "rare"],
      [{ actor: "k1/x" }, ({ who }) => who === "k1/x"],
      [{ actor: "unknown" }, () => false],
      [{ kind: "approval" }, ({ kind }) => kind === "approval"],
      [{ what: "cancelled" }, ({ what }) => what === "cancelled"],
      [{ actor: "k2/x", what: "deny" }, ({ who, what }) => who === "k2/x" && what === "deny"],
      [{ actor: "k2/x", kind: "cancel" }, ({ who, kind }) => who === "k2/x" && kind === "cancel"],
      [{ job: "j7" }, jobs("j7")],
      [{ job: "j15", what: "approved" }, (entry) => jobs("j15")(entry) && entry.what === "approved"],
    ];
    for (const [filter, isMatch] of cases) {
      await compare(chain, filter, isMatch);
      for (const sinceMs of [1, 1_000, 9_871, 20_950, 99_999]) {
        await compare(chain, { ...filter, sinceMs }, (entry) => isMatch(entry) && entry.at >= sinceMs);
      }
    }
    await compare(chain, { sinceMs: 20_500 }, ({ at }) => at >= 20_500);
  });

  test("pages of an earlier version are indexed on request, while the log grows", async () => {
    const chain = await withActors(650);
    const { harness, engine } = chain;
    const { store } = engine.world;
    for (const number of [0, 1, 2, 3]) {
      const page = await harness.run(store.load(AUDIT_PAGES, pageId("acme", number)));
      const { earlierMs: _, ...earlier }: AuditPage = page!.value;
      await harness.run(engine.commit({ org: "acme", puts: [put(AUDIT_PAGES, page!.id, page, earlier)] }));
    }
    const head = await harness.run(store.load(AUDIT_HEADS, "acme"));
    const { latestMs: _, ...earlier } = head!.value;
    await harness.run(engine.commit({ org: "acme", puts: [put(AUDIT_HEADS, "acme", head, earlier)] }));
    expect(await harness.run(indexEarlierAudit(engine, "acme"))).toEqual({ left: 4 });
    const lines = Array.from(
      { length: 300 },
      (_, n): StampedLine => ({ at: 9_000 + n, kind: "key", who: "late", what: "x" }),
    );
    await harness.run(engine.commit({ org: "acme", puts: [engine.audit.put(lines, "acme")] }));
    await harness.run(chainAudit(engine, "acme"));
    await harness.pass(1_000);
    expect(await harness.run(indexEarlierAudit(engine, "acme"))).toEqual({ left: 0 });
    const { entries } = await harness.run(readAudit(engine, "acme", { limit: 2_000, before: null }));
    expect(entries).toHaveLength(950);
    const grown = { ...chain, entries };
    await compare(grown, { actor: "rare" }, ({ who }) => who === "rare");
    await compare(grown, { actor: "late", sinceMs: 9_200 }, ({ who, at }) => who === "late" && at >= 9_200);
    await compare(grown, { sinceMs: 7_000 }, ({ at }) => at >= 7_000);
  });
});
