import { describe, expect, test } from "vitest";
import type { Arms } from "../../../src/core/model/arms.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { formatPolicy } from "../../../src/core/retry/policies.ts";
import { ROLLOUTS, rolloutRecordId } from "../../../src/core/rollout/rollout.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { pauseRollout, resumeRollout, rollbackRollout } from "../../../src/engine/rollouts/index.ts";
import { put } from "../../../src/ports/store.ts";
import { idOf } from "../harness.ts";
import { HORIZON_MS, RolloutHarness, WORKFLOW } from "./rollout-harness.ts";

const lockBusy = (engine: Engine, arms: Arms | undefined): string =>
  formatPolicy(engine.settings.for(arms).retry.lock_busy.policy);

async function opened(names: readonly string[] = ["a", "b"]) {
  const harness = new RolloutHarness();
  const engines: Engine[] = [];
  for (const name of names) engines.push((await harness.control(name)).engine);
  await harness.apply(engines[0]!, WORKFLOW);
  return { harness, engines };
}

const stored = (harness: RolloutHarness, id: string) => harness.sim.net.store.load(ROLLOUTS, rolloutRecordId(id));

describe("arms", () => {
  test("are stored when a run or job is created, copied to the jobs of a run, and absent without a rollout", async () => {
    const { harness, engines } = await opened();
    const [a, b] = [engines[0]!, engines[1]!];
    const before = await harness.started(a, WORKFLOW.id);
    expect(harness.runOf(before)).not.toHaveProperty("arms");
    const { id } = await harness.rollout(a);
    await harness.pass(1_000);
    for (const engine of [a, b]) {
      const runId = await harness.started(engine, WORKFLOW.id);
      const { arms, createdMs } = harness.runOf(runId);
      expect(arms).toEqual({ [id]: { arm: expect.any(String), stage: 0, untilMs: createdMs + HORIZON_MS } });
      expect((await harness.job(`${runId}:work@1`)).arms).toEqual(arms);
      const job = await harness.job(idOf(await harness.admit(engine, { topic: "demo.work" })));
      expect(job.arms).toHaveProperty(id);
    }
    const listed = harness.sim.net.store.list(JOBS, { index: `rollout/${id}/units`, limit: 10 });
    expect(listed.items).toHaveLength(2);
  });

  test("split the units by the share", async () => {
    const { harness, engines } = await opened(["a"]);
    const { id } = await harness.rollout(engines[0]!, { shares: [0.2] });
    let treated = 0;
    for (let at = 0; at < 400; at++) {
      const jobId = idOf(await harness.admit(engines[0]!, { topic: "demo.work" }));
      if ((await harness.job(jobId)).arms?.[id]?.arm === "treatment") treated += 1;
    }
    expect(treated).toBeGreaterThan(50);
    expect(treated).toBeLessThan(110);
  });

  test("do not change with a restart of all processes or a later stage", async () => {
    const { harness, engines } = await opened();
    const a = engines[0]!;
    const { id } = await harness.rollout(a, { shares: [0.01, 0.99] });
    const [runId] = await harness.runsIn(a, "control", 1);
    const { arms } = harness.runOf(runId!);
    harness.crash("a");
    harness.crash("b");
    const rollout = harness.rolloutOf(id);
    const { engine: c } = await harness.control("c");
    await harness.pass(1_000);
    const next = { ...rollout, stage: 1, stagedMs: c.world.clock.now() };
    await harness.run(c.commit({ org: "", puts: [put(ROLLOUTS, rolloutRecordId(id), stored(harness, id), next)] }));
    await harness.pass(10_000);
    expect(lockBusy(c, arms)).toBe("bounded:500ms:0.3");
    // New units follow the new stage, started ones do not.
    await harness.worker("w", ["demo.work"], async () => 1);
    await harness.pass(400_000);
    expect(harness.runOf(runId!)).toMatchObject({ state: "SUCCEEDED", arms });
    expect(harness.runOf(await harness.started(c, WORKFLOW.id)).arms?.[id]).toMatchObject({
      stage: 1,
      arm: "treatment",
    });
  });

  test("are not given to new units while the rollout is paused, to other tenants, or after its end", async () => {
    const { harness, engines } = await opened(["a"]);
    const a = engines[0]!;
    const { id } = await harness.rollout(a, { orgs: ["acme"], forMs: 600_000 });
    const armsOf = async (org: string) =>
      (await harness.job(idOf(await harness.admit(a, { topic: "demo.work", org })))).arms;
    expect(await armsOf("other")).toBeUndefined();
    expect(await armsOf("acme")).toBeDefined();
    const action = { id, by: "ann", reason: "wait" };
    await harness.run(pauseRollout(a, action));
    expect(await armsOf("acme")).toBeUndefined();
    await harness.run(resumeRollout(a, action));
    expect(await armsOf("acme")).toBeDefined();
    await harness.pass(620_000);
    expect(harness.rolloutOf(id)).toMatchObject({ state: "ended", by: "cordum" });
    expect(await armsOf("acme")).toBeUndefined();
  });
});

describe("the settings of a unit", () => {
  test("are those of its arm in every process, and those of control after a rollback", async () => {
    const { harness, engines } = await opened();
    const [a, b] = [engines[0]!, engines[1]!];
    const { id } = await harness.rollout(a);
    await harness.pass(1_000);
    const [treated] = await harness.runsIn(a, "treatment", 1);
    const [untreated] = await harness.runsIn(a, "control", 1);
    for (const engine of [a, b]) {
      expect(lockBusy(engine, harness.runOf(treated!).arms)).toBe("fixed:2s");
      expect(lockBusy(engine, harness.runOf(untreated!).arms)).toBe("bounded:500ms:0.3");
      expect(lockBusy(engine, undefined)).toBe("bounded:500ms:0.3");
    }
    await harness.run(rollbackRollout(a, { id, by: "ann", reason: "no" }));
    await harness.pass(1_000);
    for (const engine of [a, b]) {
      expect(lockBusy(engine, harness.runOf(treated!).arms)).toBe("bounded:500ms:0.3");
    }
  });

  test("a process that cannot read the store stops using the treatment before a minute has passed", async () => {
    const { harness, engines } = await opened();
    const [a, b] = [engines[0]!, engines[1]!];
    const { id } = await harness.rollout(a);
    await harness.pass(1_000);
    const [treated] = await harness.runsIn(a, "treatment", 1);
    const { arms } = harness.runOf(treated!);
    expect(lockBusy(b, arms)).toBe("fixed:2s");
    for (const peer of ["bus", "store"] as const) harness.process("b").cut(peer);
    await harness.run(rollbackRollout(a, { id, by: "ann", reason: "no" }));
    await harness.pass(60_000);
    expect(lockBusy(b, arms)).toBe("bounded:500ms:0.3");
    expect(b.rollouts.active).toHaveLength(1);
  });

  test("a lost broadcast delays a rollback by a few seconds", async () => {
    const { harness, engines } = await opened();
    const [a, b] = [engines[0]!, engines[1]!];
    const { id } = await harness.rollout(a);
    await harness.pass(20_000);
    harness.process("b").cut("bus");
    await harness.run(rollbackRollout(a, { id, by: "ann", reason: "no" }));
    expect(b.rollouts.active).toHaveLength(1);
    await harness.pass(10_000);
    expect(b.rollouts.active).toHaveLength(0);
  });
});
