import { describe, expect, test } from "vitest";
import { RUNS_GROUP } from "../../src/model/run.ts";
import { versionKey, WORKFLOW_VERSIONS } from "../../src/model/workflow.ts";
import { put } from "../../src/ports/store.ts";
import { RunPlant } from "./run-plant.ts";

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
    const key = versionKey("default", "one", 1);
    const found = await plant.run(flow.world.store.load(WORKFLOW_VERSIONS, key));
    const atMs = flow.world.clock.now();
    const change = {
      org: "default",
      atMs,
      puts: [put(WORKFLOW_VERSIONS, key, found, null)],
      guards: [],
      sends: [],
      watch: [],
    };
    await plant.run(flow.world.store.commit(change));
    await plant.control("c2"); // It has never seen the definition.
    plant.crash("c1");
    release();
    await plant.pass(120_000);
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "DefinitionGone" } });
    expect(await plant.job(`${id}:a@1`)).toMatchObject({ state: "SUCCEEDED" });
    const store = plant.flow("c3").world.store;
    expect((await plant.run(store.counts(RUNS_GROUP, 10))).get("default")).toBeUndefined();
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
