import { expect, test } from "vitest";
import { type AUDIT_PAGES, PAGE_ENTRIES, pageId } from "../../../src/core/model/audit.ts";
import { recordAudit } from "../../../src/engine/audit/audit-log.ts";
import { readAudit, readAuditOf } from "../../../src/engine/audit/read-audit.ts";
import type { Store } from "../../../src/ports/store.ts";
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
    const page = await harness.run(readAuditOf(engine, "acme", "key", { limit, before }));
    expect(page.entries.every(({ kind }) => kind === "key")).toBe(true);
    return { indexes: page.entries.map(({ index }) => index), before: page.before };
  };
  expect(await read(2)).toEqual({ indexes: [204, 201], before: 201 });
  expect(await read(3, 201)).toEqual({ indexes: [198, 195, 192], before: 192 });
  expect(await read(2, 6)).toEqual({ indexes: [3, 0], before: null });
  expect(await read(5, 6)).toEqual({ indexes: [3, 0], before: null });
  expect((await read(1_000)).indexes).toHaveLength(69);
});
