import { describe, expect, test } from "vitest";
import type { Arms } from "../../../src/core/model/arms.ts";
import { DEAD_LETTERS, deadLettersOf } from "../../../src/core/model/dead-letter.ts";
import { JUDGEMENTS } from "../../../src/core/rollout/stored-judgement.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { pauseRollout } from "../../../src/engine/rollouts/index.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { put } from "../../../src/ports/store.ts";
import { leaseOf } from "../../contract/locks/locks.subject.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { withRecordedMetrics } from "../observe/recorded-metrics.ts";
import { HORIZON_MS, RolloutHarness, WORKFLOW } from "./rollout-harness.ts";

const GATES = ["job_result_latency_p95<=1.1x"];
const latency = (at: number) => 100 + ((at * 37) % 100);

async function opened(): Promise<{ harness: RolloutHarness; a: Engine; b: Engine }> {
  const harness = new RolloutHarness();
  const { engine: a } = await harness.control("a");
  const { engine: b } = await harness.control("b");
  await harness.applyFlow(a);
  return { harness, a, b };
}

describe("the judge", () => {
  test("rolls back a breach within a minute in every process, with gate, figures and e-value (L58)", async () => {
    const { harness, a, b } = await opened();
    const rollout = await harness.rollout(a, { gates: GATES });
    await harness.units(a, rollout, 800, (arm, at) => (arm === "treatment" ? 3 : 1) * latency(at));
    await harness.pass(60_000);
    const { state, by, reason } = harness.rolloutOf(rollout.id);
    expect({ state, by }).toEqual({ state: "rolled_back", by: "cordum" });
    expect(reason).toMatch(/job_result_latency_p95<=1\.1x.*e-value/);
    for (const engine of [a, b]) expect(engine.rollouts.active).toEqual([]);
    expect(await auditLines(harness, a, "rollout", "*")).toEqual(["ann started", "cordum rolled_back"]);
  });

  test("advances the stage when its gates are proved, reports the proof of the last one, and never promotes (L58)", async () => {
    const { harness, a } = await opened();
    const first = await harness.rollout(a, { gates: GATES, shares: [0.5, 0.6] });
    await harness.units(a, first, 800, (arm, at) => (arm === "treatment" ? 0.5 : 1) * latency(at));
    await harness.pass(30_000);
    const second = harness.rolloutOf(first.id);
    expect(second).toMatchObject({ state: "running", stage: 1, by: "cordum" });
    await harness.pass(900_000);
    await harness.units(a, second, 800, (arm, at) => (arm === "treatment" ? 0.5 : 1) * latency(at));
    await harness.pass(90_000);
    expect(harness.rolloutOf(first.id)).toMatchObject({ state: "proved", stage: 1 });
  });

  test("a paused rollout is rolled back, but neither advances nor is proved", async () => {
    const { harness, a } = await opened();
    const rollout = await harness.rollout(a, { gates: GATES });
    await harness.run(pauseRollout(a, { id: rollout.id, by: "ann", reason: "wait" }));
    await harness.units(a, rollout, 2_000, (arm, at) => (arm === "treatment" ? 0.5 : 1) * latency(at));
    await harness.pass(30_000);
    expect(harness.rolloutOf(rollout.id)).toMatchObject({ state: "paused", by: "ann" });
    expect(harness.sim.net.store.load(JUDGEMENTS, rollout.id)?.value.judgement.blocks).toBeGreaterThan(100);
  });

  test("counts each unit once, also when every process dies in between", async () => {
    const { harness, a } = await opened();
    const rollout = await harness.rollout(a, { gates: GATES });
    await harness.units(a, rollout, 400, (_arm, at) => latency(at));
    await harness.pass(20_000);
    harness.crash("a");
    harness.crash("b");
    await harness.control("c");
    await harness.control("d");
    await harness.pass(60_000);
    const { arms } = harness.sim.net.store.load(JUDGEMENTS, rollout.id)!.value.judgement;
    expect(arms.control.units).toBe(200);
    expect(arms.treatment.units).toBe(200);
  });

  test("stops at once when only treatment units die of an exhausted budget", async () => {
    const { harness, a } = await opened();
    const rollout = await harness.rollout(a, { subject: "unclassified", treatment: "fixed:1s", shares: [0.1] });
    await harness.worker("w", ["demo.dead"], async () => Promise.reject(new Error("no")));
    const nowMs = a.world.clock.now();
    const ids = Array.from({ length: 200 }, (_, at) => `job-${at}`).filter(
      (jobId) => a.rollouts.enrolJob("default", jobId, nowMs)?.[rollout.id]?.arm === "treatment",
    );
    for (const jobId of ids.slice(0, 2)) await harness.admit(a, { topic: "demo.dead", jobId });
    await harness.pass(60_000);
    const letters = harness.sim.net.store.list(DEAD_LETTERS, {
      index: `rollout/${rollout.id}/dead/treatment`,
      limit: 10,
    });
    expect(letters.items).toHaveLength(2);
    expect(harness.rolloutOf(rollout.id)).toMatchObject({ state: "rolled_back", by: "cordum" });
    expect(harness.rolloutOf(rollout.id).reason).toContain("dead letters");
  });

  test("dead letters of one window of a tenant have one arm and count once", async () => {
    const { harness, a } = await opened();
    const rollout = await harness.rollout(a, { subject: "admission.polled.policy", shares: [0.1] });
    await harness.worker("w", ["demo.dead"], async () => Promise.reject(new Error("no")));
    await harness.admit(a, { topic: "demo.dead", jobId: "first" });
    await harness.pass(60_000);
    const [letter] = harness.sim.net.store.list(DEAD_LETTERS, { index: deadLettersOf("default"), limit: 1 }).items;
    const write = (id: string, window: number) => {
      const untilMs = window * HORIZON_MS;
      const arms: Arms = { [rollout.id]: { arm: "treatment", stage: 0, untilMs } };
      const value = { ...letter!.value, id, unit: id, arms, reason: "budget" as const };
      const puts = [put(DEAD_LETTERS, id, null, value)];
      harness.sim.net.store.commit({ org: "default", atMs: 0, puts, guards: [], sends: [], watch: [] });
    };
    for (let at = 0; at < 9; at++) write(`run-${at}`, 10);
    await harness.pass(20_000);
    expect(harness.rolloutOf(rollout.id).state).toBe("running");
    write("run-9", 11);
    await harness.pass(20_000);
    expect(harness.rolloutOf(rollout.id).reason).toContain("2 treatment units");
  });

  test("shows e-values and the state", async () => {
    const harness = new RolloutHarness();
    const { engine, recorded } = withRecordedMetrics(harness.engine("a"));
    await harness.run(startControl(engine));
    await harness.applyFlow(engine);
    const rollout = await harness.rollout(engine, { gates: GATES });
    await harness.units(engine, rollout, 400, (_arm, at) => latency(at));
    await harness.pass(20_000);
    expect(recorded.get("cordum_rollout_state R1")?.at(-1)).toBe(1);
    expect(recorded.get("cordum_rollout_e_value R1 job_result_latency_p95<=1.1x")?.at(-1)).toBeLessThan(2);
  });
});

describe("a measure", () => {
  test("of a job without a run has the time from its dispatch to its result", async () => {
    const { harness, a } = await opened();
    const { id } = await harness.rollout(a, { subject: "unclassified", treatment: "fixed:1s" });
    await harness.pass(1_000);
    const ends: (() => void)[] = [];
    await harness.worker("w", ["alone"], () => new Promise<void>((resolve) => void ends.push(resolve)));
    const { jobId } = await harness.admit(a, { topic: "alone" });
    await harness.pass(3_000);
    for (const end of ends) end();
    await harness.pass(1_000);
    const { state, measures } = await harness.job(jobId);
    expect(state).toBe("SUCCEEDED");
    expect(measures?.[id]?.latenciesMs.count).toBe(1);
    expect(measures?.[id]?.latenciesMs.values[0]).toBeGreaterThan(2_500);
    expect(measures?.[id]?.latenciesMs.values[0]).toBeLessThan(3_500);
  });

  test("counts lock waits, retries and latencies in the commit of the run, and nothing after the horizon", async () => {
    const { harness, a, b } = await opened();
    const { id } = await harness.rollout(a, { treatment: "fixed:1s" });
    await harness.pass(1_000);
    const lock = async (runId: string) => leaseOf(await harness.run(lockOf(a, runId)));
    const waiting: (() => void)[] = [];
    const open = () => {
      for (const resolve of waiting.splice(0)) resolve();
    };
    await harness.worker("w", ["demo.work"], () => new Promise<void>((resolve) => void waiting.push(resolve)));
    const [quick] = await harness.runsIn(a, "treatment", 1);
    await harness.pass(1_000);
    open();
    await harness.pass(1_000);
    expect(harness.runOf(quick!).measures?.[id]).toMatchObject({
      busyRetries: 0,
      busyEvents: 0,
      lockWaitsMs: { count: 1 },
      latenciesMs: { count: 1, values: [expect.any(Number)] },
    });
    const slow = await harness.started(b, WORKFLOW.id);
    await harness.pass(1_000);
    const lease = await lock(slow);
    open();
    await harness.pass(8_000);
    await harness.run(lease.release());
    await harness.pass(5_000);
    const waited = harness.runOf(slow).measures?.[id];
    expect(waited?.busyRetries).toBeGreaterThan(3);
    expect(waited).toMatchObject({ busyEvents: 1, firstRetrySuccesses: 0 });
    expect(waited?.lockWaitsMs.values[0]).toBeGreaterThan(7_000);
    expect(waited?.latenciesMs.values[0]).toBeGreaterThan(8_000);
    const late = await harness.started(b, WORKFLOW.id);
    await harness.pass(1_000);
    const held = await lock(late);
    open();
    await harness.pass(HORIZON_MS + 5_000);
    await harness.run(held.release());
    await harness.pass(10_000);
    expect(harness.runOf(late).state).toBe("SUCCEEDED");
    expect(harness.runOf(late)).not.toHaveProperty("measures");
  });
});

const lockOf = (engine: Engine, runId: string) =>
  engine.world.locks.acquire({ key: runLockKey(runId), org: "default", ttlMs: 120_000, waitMs: 0, owner: "test" });
