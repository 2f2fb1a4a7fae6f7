import { describe, expect, test } from "vitest";
import { AUDIT_PENDING, pendingAuditOf } from "../../../src/core/model/audit.ts";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import {
  headKey,
  versionsOf,
  WORKFLOW_HEADS,
  WORKFLOW_VERSIONS,
  type WorkflowHead,
  type WorkflowVersion,
  workflowsOf,
} from "../../../src/core/model/workflow.ts";
import type { Plan } from "../../../src/core/workflow/definition/plan.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { onDue } from "../../../src/engine/maintenance/due-timers.ts";
import { PlanCache } from "../../../src/engine/runs/plan-cache.ts";
import { applyWorkflow, deleteWorkflow, loadWorkflow, planOf } from "../../../src/engine/runs/workflows.ts";
import { put, type Versioned } from "../../../src/ports/store.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness } from "../harness.ts";

const ORG = "acme";
const documentOf = (topic: string, id = "w") => ({ id, name: "N", steps: { a: { topic } } });

function openWorkflows() {
  const harness = new Harness();
  const engine = harness.engine("p");
  const apply = (document: unknown, by = "me") => harness.run(applyWorkflow(engine, { org: ORG, by, document }));
  const remove = (id = "w") => harness.run(deleteWorkflow(engine, { org: ORG, id, by: "me" }));
  const load = (version: number | null = null) => harness.run(loadWorkflow(engine, ORG, "w", version));
  const head = async () => (await harness.run(engine.world.store.load(WORKFLOW_HEADS, headKey(ORG, "w"))))?.value;
  const versions = async () => {
    const page = await harness.run(
      engine.world.store.list(WORKFLOW_VERSIONS, { index: versionsOf(ORG, "w"), limit: 99 }),
    );
    return page.items.map(({ value }) => value.version);
  };
  return { harness, engine, apply, remove, load, head, versions };
}

describe("applying a workflow", () => {
  test("creates a version, its head and an audit line", async () => {
    const { harness, engine, apply, load, head } = openWorkflows();
    expect(await apply(documentOf("x"))).toEqual({ kind: "applied", id: "w", version: 1, isNew: true });
    expect(await load()).toMatchObject({ id: "w", org: ORG, version: 1, createdBy: "me", document: documentOf("x") });
    expect(await head()).toMatchObject({ version: 1, name: "N" });
    const listed = await harness.run(engine.world.store.list(WORKFLOW_HEADS, { index: workflowsOf(ORG), limit: 9 }));
    expect(listed.items).toHaveLength(1);
    const audited = await harness.run(engine.world.store.list(AUDIT_PENDING, { index: pendingAuditOf(ORG), limit: 9 }));
    expect(audited.items.flatMap(({ value }) => value.lines)).toMatchObject([
      { kind: "workflow", who: "me", what: "applied", facts: { workflow: "w", version: 1 } },
    ]);
  });

  test("creates a version only when the content changed, whatever its order and format", async () => {
    const { harness, engine, apply, versions } = openWorkflows();
    await apply(documentOf("x"));
    const text = "# the same\nsteps: {a: {topic: x}}\nname: N\nid: w\n";
    expect(await harness.run(applyWorkflow(engine, { org: ORG, by: "me", source: { text, file: "w.yaml" } }))).toEqual({
      kind: "applied",
      id: "w",
      version: 1,
      isNew: false,
    });
    expect(await apply(documentOf("y"))).toMatchObject({ version: 2, isNew: true });
    expect(await apply(documentOf("x"))).toMatchObject({ version: 3, isNew: true });
    expect(await versions()).toEqual([3, 2, 1]);
  });

  test("never changes a version, and versions are scoped to the tenant", async () => {
    const { harness, engine, apply, load } = openWorkflows();
    await apply(documentOf("x"));
    const first = await load(1);
    await apply(documentOf("y"));
    expect(await load(1)).toEqual(first);
    expect((await load())?.version).toBe(2);
    expect(await harness.run(loadWorkflow(engine, "other", "w", null))).toBeNull();
    expect(await harness.run(planOf(engine, "other", "w", 1))).toBeNull();
    expect(
      await harness.run(applyWorkflow(engine, { org: "other", by: "me", document: documentOf("z") })),
    ).toMatchObject({
      version: 1,
    });
  });

  test("reports every problem of an invalid document and changes nothing", async () => {
    const { harness, engine, apply, head } = openWorkflows();
    const problems = [
      "nam: unknown key; did you mean `name`?",
      "steps.a: missing `topic`: the topic its job is sent to",
    ];
    expect(await apply({ id: "w", nam: 1, steps: { a: {} } })).toEqual({ kind: "invalid", problems });
    const source = { text: "id: w\nnam: 1\nsteps: {a: {}}", file: "w.yaml" };
    expect(await harness.run(applyWorkflow(engine, { org: ORG, by: "me", source }))).toEqual({
      kind: "invalid",
      problems: [`w.yaml:2:1: ${problems[0]}`, `w.yaml:3:12: ${problems[1]}`],
    });
    expect(await head()).toBeUndefined();
  });

  test("concurrent changes get consecutive versions", async () => {
    const { harness, engine, versions } = openWorkflows();
    const other = harness.engine("q");
    const requests = Array.from({ length: 6 }, (_, at) =>
      applyWorkflow(at % 2 === 0 ? engine : other, { org: ORG, by: "me", document: documentOf(`t${at}`) }),
    );
    const applied = await harness.run(Promise.all(requests));
    const numbers = applied.map((one) => (one.kind === "applied" && one.isNew ? one.version : 0));
    expect([...numbers].sort()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await versions()).toEqual([6, 5, 4, 3, 2, 1]);
  });

  test("concurrent identical documents create one version", async () => {
    const { harness, engine, versions } = openWorkflows();
    const requests = [engine, harness.engine("q")].map((one) =>
      applyWorkflow(one, { org: ORG, by: "me", document: documentOf("x") }),
    );
    const applied = await harness.run(Promise.all(requests));
    expect(applied.filter((one) => one.kind === "applied" && one.isNew)).toHaveLength(1);
    expect(await versions()).toEqual([1]);
  });
});

describe("deleting a workflow", () => {
  const due = ({ value }: { value: WorkflowHead }) => ({ dueMs: value.dueMs ?? 0 });

  async function runHeadTimer(harness: Harness, engine: Engine): Promise<void> {
    const found = (await harness.run(
      engine.world.store.load(WORKFLOW_HEADS, headKey(ORG, "w")),
    )) as Versioned<WorkflowHead>;
    await harness.run(onDue(engine, { ...found, ...due(found), table: WORKFLOW_HEADS.name }));
  }

  test("removes it from the lists; its versions can still be loaded", async () => {
    const { harness, engine, apply, remove, load } = openWorkflows();
    await apply(documentOf("x"));
    expect(await remove()).toEqual({ kind: "deleted" });
    expect(await remove()).toEqual({ kind: "not_found" });
    expect(await remove("unknown")).toEqual({ kind: "not_found" });
    expect(await load()).toBeNull();
    expect((await load(1))?.version).toBe(1);
    const listed = await harness.run(engine.world.store.list(WORKFLOW_HEADS, { index: workflowsOf(ORG), limit: 9 }));
    expect(listed.items).toEqual([]);
  });

  test("applying it again continues its versions, also with the same content", async () => {
    const { harness, engine, apply, remove, head } = openWorkflows();
    await apply(documentOf("x"));
    await remove();
    expect(await apply(documentOf("x"))).toMatchObject({ version: 2, isNew: true });
    expect(await head()).not.toHaveProperty("deletedMs");
    await runHeadTimer(harness, engine);
    expect(await head()).toMatchObject({ version: 2 });
  });

  test("removes all versions once no run uses them", async () => {
    const { harness, engine, apply, remove, head, versions } = openWorkflows();
    for (let at = 0; at < 40; at++) await apply(documentOf(`t${at}`));
    await remove();
    const { store } = engine.world;
    const run = { id: "r", org: ORG, workflowId: "w", version: 1, state: "SUCCEEDED", createdMs: 1, dueMs: 1 } as Run;
    const change = { org: ORG, atMs: 0, guards: [], sends: [], watch: [] };
    await harness.run(store.commit({ ...change, puts: [put(RUNS, "r", null, run)] }));
    const before = (await head())?.dueMs ?? 0;
    await harness.pass(1_000);
    await runHeadTimer(harness, engine);
    expect((await head())?.dueMs).toBeGreaterThan(before);
    expect(await versions()).toHaveLength(40);
    const found = await harness.run(store.load(RUNS, "r"));
    await harness.run(store.commit({ ...change, puts: [put(RUNS, "r", found, null)] }));
    // In batches.
    while (await head()) await runHeadTimer(harness, engine);
    expect(await versions()).toEqual([]);
    expect(await harness.run(planOf(engine, ORG, "w", 40))).toBeNull();
    expect(await apply(documentOf("x"))).toMatchObject({ version: 1 });
  });
});

describe("plans", () => {
  test("are compiled once and confirmed after a while", async () => {
    const { harness, engine, apply } = openWorkflows();
    await apply(documentOf("x"));
    let loads = 0;
    const store = around(engine.world.store, {
      load: (...args: Parameters<typeof engine.world.store.load>) => {
        loads += 1;
        return engine.world.store.load(...args);
      },
    });
    const other: Engine = composeEngine({ ...engine, planCache: new PlanCache(), world: { ...engine.world, store } });
    const plan = await harness.run(planOf(other, ORG, "w", 1));
    expect(plan?.steps.get("a")?.act).toEqual({ type: "worker", topic: "x" });
    expect(await harness.run(planOf(other, ORG, "w", 1))).toBe(plan);
    expect(loads).toBe(1);
    await harness.pass(60_000);
    expect(await harness.run(planOf(other, ORG, "w", 1))).toBe(plan);
    expect(loads).toBe(2);
  });

  test("of a replaced workflow are dropped from the cache", async () => {
    const { harness, engine, apply } = openWorkflows();
    await apply(documentOf("x"));
    const plans = new PlanCache();
    const record = { hash: "h1", document: {} } as WorkflowVersion;
    plans.put("k", record, { id: "old" } as Plan, 0);
    expect(plans.confirm("k", { ...record, hash: "h2" }, 1)).toBeNull();
    expect(plans.get("k", 1)).toBeNull();
    expect((await harness.run(planOf(engine, ORG, "w", 1)))?.id).toBe("w");
  });

  test("are bounded in number and size", () => {
    const plans = new PlanCache();
    const record = { hash: "h", document: "x" } as WorkflowVersion;
    for (let at = 0; at < 2_000; at++) plans.put(`k${at}`, record, { id: `p${at}` } as Plan, 0);
    expect(plans.count).toBe(512);
    expect(plans.get("k1999", 0)?.id).toBe("p1999");
    const large = { hash: "h", document: "x".repeat(1024 * 1024) } as WorkflowVersion;
    for (let at = 0; at < 20; at++) plans.put(`l${at}`, large, { id: `q${at}` } as Plan, 0);
    expect(plans.count).toBeLessThan(9);
  });

  test("of an unsupported definition are rejected", async () => {
    const { harness, engine } = openWorkflows();
    const version = { id: "w", org: ORG, version: 1, hash: "h", createdMs: 0, createdBy: null, document: { id: "w" } };
    const puts = [put(WORKFLOW_VERSIONS, "acme/w@1", null, version)];
    await harness.run(engine.world.store.commit({ org: ORG, atMs: 0, guards: [], sends: [], watch: [], puts }));
    await expect(harness.run(planOf(engine, ORG, "w", 1))).rejects.toThrow(
      /`w` version 1 cannot be compiled: missing `steps`/,
    );
  });
});
