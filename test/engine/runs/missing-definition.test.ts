import { describe, expect, test } from "vitest";
import { JOBS } from "../../../src/core/model/job.ts";
import { RUNS_GROUP } from "../../../src/core/model/run.ts";
import { versionKey, WORKFLOW_VERSIONS } from "../../../src/core/model/workflow.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { pauseRun } from "../../../src/engine/runs/control-run.ts";
import { put } from "../../../src/ports/store.ts";
import { RunHarness } from "../run-harness.ts";

describe("a run with a missing definition", () => {
  test("L37: a run whose definition is missing fails with a reason and frees its slot; its open job still ends", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    let release = () => {};
    const opened = new Promise<void>((resolve) => (release = resolve));
    await harness.worker("w1", ["demo.gate"], () => opened);
    await harness.apply(engine, {
      id: "one",
      steps: { a: { topic: "demo.gate" }, b: { topic: "demo.gate", depends_on: ["a"] } },
    });
    const id = await harness.started(engine, "one");
    await removeDefinition(harness, engine, "one");
    await harness.control("c2"); // Without the definition in its cache.
    harness.crash("c1");
    release();
    await harness.pass(120_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "DefinitionGone" } });
    expect(await harness.job(`${id}:a@1`)).toMatchObject({ state: "SUCCEEDED" });
    const store = harness.engine("c3").world.store;
    expect((await harness.run(store.counts(RUNS_GROUP, 10))).get("default")).toBeUndefined();
  });

  test("cancels its sub-runs and frees their slots", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const sub = { type: "subworkflow", workflow: "inner" };
    await harness.apply(engine, { id: "inner", steps: { ask: { type: "approval" } } });
    await harness.apply(engine, { id: "outer", steps: { one: sub, each: { ...sub, for_each: "[1, 2, 3]" } } });
    const id = await harness.started(engine, "outer");
    await harness.pass(1_000);
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(5);
    await removeDefinition(harness, engine, "outer");
    harness.crash("c1");
    const { engine: second } = await harness.control("c2"); // Without the definition in its cache.
    await harness.run(pauseRun(second, { org: "default", runId: id, by: "bob", why: "a word about it" }));
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "DefinitionGone" } });
    await harness.pass(10_000);
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(0);
    const jobs = [...harness.sim.net.store.rows(JOBS)].map(({ value }) => value.state);
    expect(new Set(jobs)).toEqual(new Set(["CANCELLED"]));
  });

  test("2,000 items whose input cannot be built end the step in bounded commits", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const each = { topic: "demo.echo", for_each: "${input}", input: "${item.missing}", failure: "wait_all" };
    await harness.apply(engine, { id: "none", steps: { each } });
    let commits = 0;
    harness.sim.net.onCommit = () => void commits++;
    const id = await harness.started(engine, "none", { input: Array.from({ length: 2_000 }, () => ({})) });
    await harness.pass(30_000);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed" } });
    expect(harness.runOf(id).steps.each?.fan).toMatchObject({ count: 2_000, failed: 2_000, open: 0 });
    expect(commits).toBeGreaterThan(20);
  });
});

/** Deletes a workflow version that a run still uses. */
async function removeDefinition(harness: RunHarness, engine: Engine, workflowId: string): Promise<void> {
  const { store, clock } = engine.world;
  const key = versionKey("default", workflowId, 1);
  const puts = [put(WORKFLOW_VERSIONS, key, await harness.run(store.load(WORKFLOW_VERSIONS, key)), null)];
  await harness.run(store.commit({ org: "default", atMs: clock.now(), puts, guards: [], sends: [], watch: [] }));
}
