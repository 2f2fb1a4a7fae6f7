import { describe, expect, test } from "vitest";
import { isRunFinal, RUNS, RUNS_GROUP } from "../../../src/core/model/run.ts";
import { cancelOwnJob } from "../../../src/engine/dispatch/cancel-job.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import { RunHarness } from "../run-harness.ts";

/** A run whose only step waits for a sub-run with a pending approval. */
async function openOuter(facts: object = {}) {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.apply(engine, { id: "inner", steps: { ask: { type: "approval" } } });
  await harness.apply(engine, { id: "outer", steps: { sub: { type: "subworkflow", workflow: "inner", ...facts } } });
  const id = await harness.started(engine, "outer");
  await harness.pass(1_000);
  return { harness, engine, id, jobId: `${id}:sub@1`, inner: await subRunOf(harness, `${id}:sub@1`) };
}

const subRunOf = async (harness: RunHarness, jobId: string): Promise<string> =>
  (await harness.job(jobId)).step?.subRunId ?? "";

const openRuns = (harness: RunHarness): string[] =>
  [...harness.sim.net.store.rows(RUNS)].filter(({ value }) => !isRunFinal(value.state)).map(({ id }) => id);

const retry = (engine: Engine, id: string) => redriveDeadLetter(engine, { org: "default", id, by: "bob" });

describe("an abandoned sub-run", () => {
  test("is cancelled before its redriven step starts a new one", async () => {
    const { harness, engine, id, jobId, inner } = await openOuter({ timeout_sec: 30 });
    await harness.pass(28_000);
    // Its lock is held when the step times out, so it is cancelled later.
    const { locks } = harness.engine("dead").world;
    const request = { key: runLockKey(inner), org: "default", ttlMs: 3_000, waitMs: 0, owner: "dead" };
    await harness.run(locks.acquire(request));
    harness.crash("dead");
    await harness.pass(2_500);
    expect([harness.runOf(id).state, harness.runOf(inner).state]).toEqual(["FAILED", "RUNNING"]);
    await harness.pass(1_000);
    expect(await harness.run(retry(engine, jobId))).toMatchObject({ kind: "revived" });
    await harness.pass(10_000);
    const current = await subRunOf(harness, jobId);
    expect(current).not.toBe(inner);
    expect(harness.runOf(inner).state).toBe("CANCELLED");
    expect(openRuns(harness).sort()).toEqual([id, current].sort());
    expect(harness.sim.net.store.count(RUNS_GROUP, "default")).toBe(2);
  });

  test("is cancelled at once when its step is cancelled", async () => {
    const { harness, engine, jobId, inner } = await openOuter();
    await harness.run(cancelOwnJob(engine, { org: "default", jobId, by: "bob", why: "enough" }));
    await harness.pass(1_000);
    expect(harness.runOf(inner).state).toBe("CANCELLED");
    expect((await harness.job(jobId)).step?.isSubRunLeft).toBeUndefined();
  });

  test("is cancelled at once when its step times out", async () => {
    const { harness, id, inner } = await openOuter({ timeout_sec: 30 });
    await harness.pass(28_500);
    expect([harness.runOf(id).state, harness.runOf(inner).state]).toEqual(["RUNNING", "RUNNING"]);
    await harness.pass(1_500);
    expect([harness.runOf(id).state, harness.runOf(inner).state]).toEqual(["FAILED", "CANCELLED"]);
  });
});
