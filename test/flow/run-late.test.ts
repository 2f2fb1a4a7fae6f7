import { describe, expect, test } from "vitest";
import { pauseRun } from "../../src/flow/control-run.ts";
import { retryLetter } from "../../src/flow/revive.ts";
import { JOBS } from "../../src/model/job.ts";
import { permanent } from "../../src/retry/contract.ts";
import type { WorkItem } from "../../src/worker/worker.ts";
import { RunPlant } from "./run-plant.ts";

/** A list of four, one at a time unless it is said otherwise. Work takes 8 s an item, and some of it fails at first. */
async function begin(facts: object) {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1");
  const { clock } = flow.world;
  const after8s = () => new Promise((resolve) => clock.after(8_000, () => resolve("ok")));
  const broken = new Set<unknown>();
  const handle = ({ input }: WorkItem) =>
    after8s().then(() => (broken.has(input) ? Promise.reject(permanent(new Error("broken"))) : "ok"));
  await plant.worker("w", ["demo.slow"], handle, 10, { extendsForMs: 3_600_000 });
  const each = { for_each: "[1, 2, 3, 4]", max_parallel: 1, timeout_sec: 20, ...facts };
  await plant.apply(flow, { id: "list", steps: { each } });
  return { plant, flow, broken, id: await plant.started(flow, "list") };
}

const SLOW = { topic: "demo.slow" };
const ASK = { type: "approval" };

describe("the time of a list", () => {
  test("is that of all its items together: what is not done by then is stopped, the step is TIMEOUT", async () => {
    const { plant, id } = await begin(SLOW);
    await plant.pass(19_000);
    expect(plant.states(id)).toEqual({ each: "RUNNING" });
    await plant.pass(2_000);
    const fan = { succeeded: 2, open: 0, spawned: 3 };
    const error = { name: "DeadlineExceeded", message: "2 of 4 items were done in time" };
    expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error, steps: { each: { state: "TIMEOUT", fan } } });
    const { endedMs = 0, startedMs = 0 } = plant.runOf(id).steps.each ?? {};
    expect(endedMs - startedMs).toBeGreaterThanOrEqual(20_000);
    // The child's own time is up as well: which of the two is noticed first, nobody knows.
    expect((await plant.job(`${id}:each.2@1`)).state).toMatch(/^(TIMEOUT|CANCELLED)$/);
  });

  test("is enough for a list that is done before", async () => {
    const { plant, id } = await begin({ ...SLOW, max_parallel: 4 });
    await plant.pass(60_000);
    expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { each: { fan: { succeeded: 4 } } } });
  });

  test.each([
    ["fail_fast", 1],
    ["wait_all", 1],
    ["wait_all", 4],
    [{ tolerate: 4 }, 4],
  ])("ends it as TIMEOUT, whatever failures it bears: %j, %i at a time", async (failure, max_parallel) => {
    const { plant, id } = await begin({ ...ASK, failure, max_parallel });
    await plant.pass(25_000);
    expect(plant.states(id)).toEqual({ each: "TIMEOUT" });
    const open = [...plant.bench.net.store.rows(JOBS)].filter(({ value }) => value.state === "APPROVAL_REQUIRED");
    expect(open).toEqual([]);
  });

  test("goes on when its process has died, and while the run is paused", async () => {
    const { plant, flow, id } = await begin(ASK);
    await plant.run(pauseRun(flow, { org: "default", runId: id, by: "bob", why: "wait" }));
    plant.crash("c1");
    await plant.control("c2");
    await plant.pass(19_000);
    expect(plant.states(id)).toEqual({ each: "RUNNING" });
    await plant.pass(10_000);
    expect(plant.states(id)).toEqual({ each: "TIMEOUT" });
  });

  test("begins anew with a child that lives again", async () => {
    const { plant, flow, broken, id } = await begin({ ...SLOW, max_parallel: 4, failure: "wait_all" });
    broken.add(2);
    await plant.pass(30_000);
    expect(plant.states(id)).toEqual({ each: "FAILED" });
    broken.clear();
    const answer = await plant.run(retryLetter(flow, { org: "default", id: `${id}:each.1@1`, by: "bob" }));
    expect(answer).toMatchObject({ kind: "revived" });
    await plant.pass(15_000);
    expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { each: { fan: { succeeded: 4 } } } });
  });
});
