import { expect, test } from "vitest";
import {
  AUDIT_HEADS,
  AUDIT_PAGES,
  AUDIT_PENDING_GROUP,
  type AuditEntry,
  type AuditLine,
  PAGE_ENTRIES,
  pageId,
} from "../../../src/core/model/audit.ts";
import { auditPut, recordAudit } from "../../../src/engine/audit/audit-log.ts";
import { chainAll, chainAudit } from "../../../src/engine/audit/chain-audit.ts";
import { checkAudit } from "../../../src/engine/audit/read-audit.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { type Change, put, type Store } from "../../../src/ports/store.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness, idOf } from "../harness.ts";

const line = (org: string, what: string, facts: AuditLine["facts"] = {}): AuditLine => ({
  org,
  kind: "key",
  who: "operator",
  what,
  facts,
});

function entriesOf(harness: Harness, org: string): readonly AuditEntry[] {
  const { store } = harness.sim.net;
  const all: AuditEntry[] = [];
  for (let number = 0; ; number++) {
    const page = store.load(AUDIT_PAGES, pageId(org, number));
    if (!page) return all;
    all.push(...page.value.entries);
  }
}

const pendingOf = (harness: Harness) => harness.sim.net.store.counts(AUDIT_PENDING_GROUP, 100);

test("stores a line in the commit that it describes, or not at all", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  const window = { group: "inflight", name: "t" };
  const guards = [{ kind: "counter", counter: window, max: -1 }] as const;
  const refused = await harness.run(
    engine.commit({ org: "acme", puts: [auditPut(engine, line("acme", "no"))], guards }),
  );
  expect(refused.kind).toBe("refused");
  expect(pendingOf(harness).size).toBe(0);
  await harness.run(engine.commit({ org: "acme", puts: [auditPut(engine, line("acme", "yes"))] }));
  await harness.run(chainAudit(engine, "acme"));
  expect(entriesOf(harness, "acme").map(({ what }) => what)).toEqual(["yes"]);
  expect(pendingOf(harness).size).toBe(0);
});

test("stores the lines of one tick as one record per tenant, in order", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  for (let at = 0; at < 30; at++) recordAudit(engine, line(at % 2 ? "odd" : "even", `line ${at}`));
  await harness.pass(100);
  expect([...pendingOf(harness)].sort()).toEqual([
    ["even", 1],
    ["odd", 1],
  ]);
  recordAudit(engine, line("odd", "later"));
  await harness.pass(100);
  await harness.run(chainAudit(engine, "odd"));
  const odd = entriesOf(harness, "odd");
  expect(odd.map(({ what }) => what)).toEqual([
    ...Array.from({ length: 15 }, (_, at) => `line ${2 * at + 1}`),
    "later",
  ]);
  expect(odd.map(({ index }) => index)).toEqual(Array.from({ length: 16 }, (_, at) => at));
  expect(entriesOf(harness, "even")).toEqual([]);
});

test("concurrent sweepers chain pending lines without duplicates", async () => {
  const harness = new Harness();
  const engines: Engine[] = [];
  for (const name of ["a", "b", "c"]) engines.push((await harness.control(name)).engine);
  let written = 0;
  for (let round = 0; round < 40; round++) {
    for (const engine of engines) for (let at = 0; at < 7; at++) recordAudit(engine, line("acme", `${++written}`));
    await harness.run(Promise.all(engines.map((engine) => chainAudit(engine, "acme"))));
  }
  await harness.pass(5_000);
  const entries = entriesOf(harness, "acme");
  expect(entries).toHaveLength(written);
  expect(new Set(entries.map(({ what }) => what)).size).toBe(written);
  expect(pendingOf(harness).size).toBe(0);
  expect(await harness.run(checkAudit(engines[0]!, "acme"))).toMatchObject({ entries: written, problem: null });
});

test("chains large backlogs in several commits and over many pages", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  for (let at = 0; at < 2_750; at++) recordAudit(engine, line("acme", `${at}`));
  await harness.pass(100);
  expect(await harness.run(chainAudit(engine, "acme"))).toBe(2_750);
  const entries = entriesOf(harness, "acme");
  expect(entries.map(({ what }) => what)).toEqual(Array.from({ length: 2_750 }, (_, at) => `${at}`));
  const first = harness.sim.net.store.load(AUDIT_PAGES, pageId("acme", 0));
  expect(first?.value.entries).toHaveLength(PAGE_ENTRIES);
  expect(await harness.run(checkAudit(engine, "acme"))).toMatchObject({ entries: 2_750, problem: null });
});

test("chains a thousand records with few reads and small commits", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  for (let at = 0; at < 1_000; at++)
    await harness.run(engine.commit({ org: "acme", puts: [auditPut(engine, line("acme", `${at}`))] }));
  const counts = { list: 0, load: 0, puts: [] as number[] };
  const { store } = engine.world;
  const counted = around(store, {
    list: (...args: Parameters<Store["list"]>) => {
      counts.list++;
      return store.list(...args);
    },
    load: (...args: Parameters<Store["load"]>) => {
      counts.load++;
      return store.load(...args);
    },
    commit: (change: Change) => {
      counts.puts.push(change.puts.length);
      return store.commit(change);
    },
  });
  expect(
    await harness.run(chainAudit(composeEngine({ ...engine, world: { ...engine.world, store: counted } }), "acme")),
  ).toBe(1_000);
  expect(counts.list).toBeLessThan(10);
  expect(counts.load).toBe(2);
  expect(Math.max(...counts.puts)).toBeLessThan(30);
  expect(entriesOf(harness, "acme").map(({ what }) => what)).toEqual(Array.from({ length: 1_000 }, (_, at) => `${at}`));
  expect(await harness.run(checkAudit(engine, "acme"))).toMatchObject({ entries: 1_000, problem: null });
});

test("a check reports the index of a changed entry", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  for (let at = 0; at < 450; at++) recordAudit(engine, line("acme", `${at}`));
  await harness.pass(100);
  await harness.run(chainAudit(engine, "acme"));
  const page = await harness.run(engine.world.store.load(AUDIT_PAGES, pageId("acme", 1)));
  const entries = page!.value.entries.map((entry) => (entry.index === 321 ? { ...entry, who: "mallory" } : entry));
  await harness.run(
    engine.commit({ org: "acme", puts: [put(AUDIT_PAGES, page!.id, page, { ...page!.value, entries })] }),
  );
  const verdict = await harness.run(checkAudit(engine, "acme"));
  expect(verdict.problem).toMatchObject({ index: 321, why: expect.stringContaining("changed") });
});

test("a check reports a removed page and a reset head", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  for (let at = 0; at < 450; at++) recordAudit(engine, line("acme", `${at}`));
  await harness.pass(100);
  await harness.run(chainAudit(engine, "acme"));
  const { store } = engine.world;
  const head = await harness.run(store.load(AUDIT_HEADS, "acme"));
  const last = await harness.run(store.load(AUDIT_PAGES, pageId("acme", 2)));
  await harness.run(engine.commit({ org: "acme", puts: [put(AUDIT_PAGES, last!.id, last, null)] }));
  expect((await harness.run(checkAudit(engine, "acme"))).problem?.index).toBe(400);
  const resetHead = { ...head!.value, count: 400 };
  await harness.run(engine.commit({ org: "acme", puts: [put(AUDIT_HEADS, "acme", head, resetHead)] }));
  expect((await harness.run(checkAudit(engine, "acme"))).problem?.index).toBe(399);
});

test("keeps lines while the store is unavailable", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  const commit = () => Promise.reject(new Error("unavailable"));
  const unavailable = composeEngine({
    ...engine,
    world: { ...engine.world, store: around(engine.world.store, { commit }) },
  });
  for (const what of ["one", "two"]) recordAudit(unavailable, line("acme", what));
  await harness.pass(100);
  expect(pendingOf(harness).size).toBe(0);
  recordAudit(engine, line("acme", "three"));
  await harness.run(chainAll(engine));
  expect(entriesOf(harness, "acme").map(({ what }) => what)).toEqual(["one", "two", "three"]);
});

test("redacts secrets in every field", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  const key = `cordum_k1_${"s3cr3t".repeat(5)}`;
  recordAudit(
    engine,
    line("acme", `used ${key}`, { password: "hunter2hunter2", note: `at redis://u:${"p".repeat(9)}@h` }),
  );
  recordAudit(engine, line("acme", "rotated", { note: key, has_password: true, count: 3 }));
  await harness.pass(100);
  await harness.run(chainAudit(engine, "acme"));
  const text = JSON.stringify(entriesOf(harness, "acme"));
  expect(text).not.toMatch(/s3cr3t|hunter2|ppppp/);
  expect(entriesOf(harness, "acme")[1]?.facts).toMatchObject({ has_password: true, count: 3 });
});

test("logs every verdict in its tenant's log and marks idempotent replays as repeated", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const allowed = await harness.admit(engine, {
    topic: "demo.echo",
    org: "acme",
    submittedBy: "k1",
    idempotencyKey: "1",
  });
  const denied = await harness.admit(engine, { topic: "danger.rm", org: "acme", submittedBy: "k1" });
  const again = await harness.admit(engine, {
    topic: "demo.echo",
    org: "acme",
    submittedBy: "k1",
    idempotencyKey: "1",
  });
  expect(again).toMatchObject({ kind: "replayed", jobId: idOf(allowed) });
  await harness.pass(3_000);
  const entries = entriesOf(harness, "acme");
  expect(entries.map(({ what, facts }) => [what, facts.job ?? null])).toEqual([
    ["allow", idOf(allowed)],
    ["deny", idOf(denied)],
    ["allow", expect.any(String)],
    ["repeated", entries[2]?.facts.job],
  ]);
  expect(entries[3]?.facts.known).toBe(idOf(allowed));
  expect(entries[0]).toMatchObject({ kind: "decision", who: "k1", facts: { rule: "allow", snapshot: "s1" } });
  expect(entriesOf(harness, "default")).toEqual([]);
});

test("merges allow verdicts of one tick that differ only in the job, and nothing else", async () => {
  const harness = new Harness();
  const engine = harness.engine("a");
  const verdict = (what: string, job: string, facts: AuditLine["facts"] = {}): AuditLine => ({
    org: "acme",
    kind: "decision",
    who: "k1",
    what,
    facts: { job, topic: "demo.echo", rule: "r", reason: "fine", snapshot: "s1", ...facts },
  });
  const ids = Array.from({ length: 100 }, (_, at) => `job-${String(at).padStart(16, "0")}`);
  for (const id of ids) recordAudit(engine, verdict("allow", id));
  recordAudit(engine, verdict("allow", "other-rule", { rule: "r2" }));
  recordAudit(engine, verdict("allow", "other-policy", { snapshot: "s2" }));
  for (const id of ["denied-1", "denied-2"]) recordAudit(engine, verdict("deny", id));
  await harness.pass(100);
  await harness.run(chainAudit(engine, "acme"));
  const entries = entriesOf(harness, "acme");
  const joined = entries.filter(({ facts }) => facts.jobs !== undefined);
  expect(joined.flatMap(({ facts }) => String(facts.jobs).split(" "))).toEqual(ids);
  expect(joined).toHaveLength(3);
  for (const { facts } of joined) expect(facts.count).toBe(String(facts.jobs).split(" ").length);
  expect(entries.flatMap(({ facts }) => facts.job ?? [])).toEqual([
    "other-rule",
    "other-policy",
    "denied-1",
    "denied-2",
  ]);
});
