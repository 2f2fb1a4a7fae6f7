import { describe, expect, test } from "vitest";
import { isRunFinal, RUNS, RUNS_GROUP } from "../../../src/core/model/run.ts";
import { cancel } from "../../../src/engine/dispatch/cancel-job.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import { RunPlant } from "../run-harness.ts";

/** A run whose one step waits for another run, in which people are asked for something. */
async function openOuter(facts: object = {}) {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1");
  await plant.apply(flow, { id: "inner", steps: { ask: { type: "approval" } } });
  await plant.apply(flow, { id: "outer", steps: { sub: { type: "subworkflow", workflow: "inner", ...facts } } });
  const id = await plant.started(flow, "outer");
  await plant.pass(1_000);
  return { plant, flow, id, jobId: `${id}:sub@1`, inner: await subRunOf(plant, `${id}:sub@1`) };
}

const subRunOf = async (plant: RunPlant, jobId: string): Promise<string> =>
  (await plant.job(jobId)).step?.subRunId ?? "";

const openRuns = (plant: RunPlant): string[] =>
  [...plant.bench.net.store.rows(RUNS)].filter(({ value }) => !isRunFinal(value.state)).map(({ id }) => id);

const retry = (flow: Flow, id: string) => retryLetter(flow, { org: "default", id, by: "bob" });

describe("a sub-run that nobody waits for any more", () => {
  test("is stopped before the step lives again, and not forgotten beside the new one", async () => {
    const { plant, flow, id, jobId, inner } = await openOuter({ timeout_sec: 30 });
    await plant.pass(28_000);
    // Somebody has that run's lock when the step times out: it is stopped later.
    const { locks } = plant.flow("dead").world;
    const wish = { key: runLockKey(inner), org: "default", ttlMs: 3_000, waitMs: 0, owner: "dead" };
    await plant.run(locks.acquire(wish));
    plant.crash("dead");
    await plant.pass(2_500);
    expect([plant.runOf(id).state, plant.runOf(inner).state]).toEqual(["FAILED", "RUNNING"]);
    await plant.pass(1_000);
    expect(await plant.run(retry(flow, jobId))).toMatchObject({ kind: "revived" });
    await plant.pass(10_000);
    const now = await subRunOf(plant, jobId);
    expect(now).not.toBe(inner);
    expect(plant.runOf(inner).state).toBe("CANCELLED");
    expect(openRuns(plant).sort()).toEqual([id, now].sort());
    expect(plant.bench.net.store.count(RUNS_GROUP, "default")).toBe(2);
  });

  test("because its step was cancelled is stopped at once, not when the sweeper comes", async () => {
    const { plant, flow, jobId, inner } = await openOuter();
    await plant.run(cancel(flow, { org: "default", jobId, by: "bob", why: "enough" }));
    await plant.pass(1_000);
    expect(plant.runOf(inner).state).toBe("CANCELLED");
    expect((await plant.job(jobId)).step?.isSubRunLeft).toBeUndefined();
  });

  test("because its step took too long is stopped at once", async () => {
    const { plant, id, inner } = await openOuter({ timeout_sec: 30 });
    await plant.pass(28_500);
    expect([plant.runOf(id).state, plant.runOf(inner).state]).toEqual(["RUNNING", "RUNNING"]);
    await plant.pass(1_500);
    expect([plant.runOf(id).state, plant.runOf(inner).state]).toEqual(["FAILED", "CANCELLED"]);
  });
});
