import { describe, expect, test } from "vitest";
import { JOBS } from "../../../src/core/model/job.ts";
import { RUNS_GROUP } from "../../../src/core/model/run.ts";
import { versionKey, WORKFLOW_VERSIONS } from "../../../src/core/model/workflow.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { pauseRun } from "../../../src/engine/runs/control-run.ts";
import { put } from "../../../src/ports/store.ts";
import { RunPlant } from "../run-harness.ts";

describe("a run whose definition is gone", () => {
  test("ends, says why and gives its slot back; the job that was out ends without it (L37)", async () => {
    const plant = new RunPlant();
    const { flow } = await plant.control("c1");
    let release = () => {};
    const opened = new Promise<void>((resolve) => (release = resolve));
    await plant.worker("w1", ["demo.gate"], () => opened);
    await plant.apply(flow, {
      id: "one",
      steps: { a: { topic: "demo.gate" }, b: { topic: "demo.gate", depends_on: ["a"] } },
    });
    const id = await plant.started(flow, "one");
    await removeDefinition(plant, flow, "one");
    await plant.control("c2"); // It has never seen the definition.
    plant.crash("c1");
    release();
    await plant.pass(120_000);
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "DefinitionGone" } });
    expect(await plant.job(`${id}:a@1`)).toMatchObject({ state: "SUCCEEDED" });
    const store = plant.flow("c3").world.store;
    expect((await plant.run(store.counts(RUNS_GROUP, 10))).get("default")).toBeUndefined();
  });

  test("takes the runs with it that its steps wait for: each of them has a slot", async () => {
    const plant = new RunPlant();
    const { flow } = await plant.control("c1");
    const sub = { type: "subworkflow", workflow: "inner" };
    await plant.apply(flow, { id: "inner", steps: { ask: { type: "approval" } } });
    await plant.apply(flow, { id: "outer", steps: { one: sub, each: { ...sub, for_each: "[1, 2, 3]" } } });
    const id = await plant.started(flow, "outer");
    await plant.pass(1_000);
    expect(plant.bench.net.store.count(RUNS_GROUP, "default")).toBe(5);
    await removeDefinition(plant, flow, "outer");
    plant.crash("c1");
    const { flow: second } = await plant.control("c2"); // It has never seen the definition.
    await plant.run(pauseRun(second, { org: "default", runId: id, by: "bob", why: "a word about it" }));
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "DefinitionGone" } });
    await plant.pass(10_000);
    expect(plant.bench.net.store.count(RUNS_GROUP, "default")).toBe(0);
    const jobs = [...plant.bench.net.store.rows(JOBS)].map(({ value }) => value.state);
    expect(new Set(jobs)).toEqual(new Set(["CANCELLED"]));
  });

  test("10,000 items of which none can be made end the step in bounded commits", async () => {
    const plant = new RunPlant();
    const { flow } = await plant.control("c1");
    const each = { topic: "demo.echo", for_each: "${input}", input: "${item.missing}", failure: "wait_all" };
    await plant.apply(flow, { id: "none", steps: { each } });
    let commits = 0;
    plant.bench.net.onCommit = () => void commits++;
    const id = await plant.started(flow, "none", { input: Array.from({ length: 2_000 }, () => ({})) });
    await plant.pass(30_000);
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed" } });
    expect(plant.runOf(id).steps.each?.fan).toMatchObject({ count: 2_000, failed: 2_000, open: 0 });
    expect(commits).toBeGreaterThan(20);
  });
});

/** As a hand would: nobody deletes what a run is made of. */
async function removeDefinition(plant: RunPlant, flow: Flow, workflowId: string): Promise<void> {
  const { store, clock } = flow.world;
  const key = versionKey("default", workflowId, 1);
  const puts = [put(WORKFLOW_VERSIONS, key, await plant.run(store.load(WORKFLOW_VERSIONS, key)), null)];
  await plant.run(store.commit({ org: "default", atMs: clock.now(), puts, guards: [], sends: [], watch: [] }));
}
