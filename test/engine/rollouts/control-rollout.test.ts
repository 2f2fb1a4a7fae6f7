import { describe, expect, test } from "vitest";
import { formatPolicy } from "../../../src/core/retry/policies.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { RolloutUpdate } from "../../../src/engine/observe/index.ts";
import {
  endRollout,
  pauseRollout,
  promoteRollout,
  rollbackRollout,
  startRollout,
} from "../../../src/engine/rollouts/index.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { REQUEST, RolloutHarness } from "./rollout-harness.ts";

const lockBusy = ({ settings }: Engine): string => formatPolicy(settings.current.retry.lock_busy.policy);
const act = (id: string, reason = "because") => ({ id, by: "ann", reason });

async function opened() {
  const harness = new RolloutHarness();
  const { engine: a } = await harness.control("a");
  const { engine: b } = await harness.control("b");
  return { harness, a, b };
}

describe("start", () => {
  test.each([
    [{ subject: "lock_bussy" }, "subject", "lock_busy"],
    [{ subject: "poison" }, "subject", "cannot be measured"],
    [{ treatment: "fixed:2x" }, "treatment", "fixed:2x"],
    [{ treatment: "bounded:500ms:0.3" }, "treatment", "already"],
    [{ subject: "run_lock.coalesce", treatment: "maybe" }, "treatment", "true"],
    [{ shares: [0] }, "shares", "no treatment arm"],
    [{ shares: [1] }, "shares", "no control arm"],
    [{ shares: [0.3, 0.2] }, "shares", "exceed"],
    [{ gates: ["run_lock_wait_p95<1.2x"] }, "gates", "column 18"],
    [{ gates: ["admission_wait_p95<=1.2x"] }, "gates", "admission.polled.policy"],
    [{ horizonMs: 10 }, "horizonMs", "milliseconds"],
    [{ subject: "admission.polled.policy", horizonMs: 7_999 }, "horizonMs", "max_wait_ms` is 2000"],
    [{ subject: "admission.polled.policy", switchMs: 90_000 }, "switchMs", "multiple of the horizon"],
  ])("refuses %j", async (request, field, why) => {
    const { harness, a } = await opened();
    const outcome = await harness.run(startRollout(a, { ...REQUEST, ...request }));
    expect(outcome).toMatchObject({ kind: "bad", field, why: expect.stringContaining(why) });
    expect(a.rollouts.active).toEqual([]);
  });

  test("refuses a second active rollout of a subject, in any process", async () => {
    const { harness, a, b } = await opened();
    const { id } = await harness.rollout(a);
    expect(await harness.run(startRollout(b, { ...REQUEST, treatment: "fixed:3s" }))).toEqual({
      kind: "already_active",
      id,
    });
    const outcomes = await harness.run(
      Promise.all([a, b, a, b].map((engine) => startRollout(engine, { ...REQUEST, subject: "throttled" }))),
    );
    expect(outcomes.filter(({ kind }) => kind === "started")).toHaveLength(1);
    await harness.run(endRollout(a, act(id)));
    expect(await harness.rollout(b, { treatment: "fixed:3s" })).toMatchObject({ id: "R3" });
  });

  test("leaves out a last share of 100 %", async () => {
    const { harness, a } = await opened();
    expect(await harness.rollout(a, { shares: [0.1, 0.3, 1] })).toMatchObject({ shares: [0.1, 0.3], stage: 0 });
  });
});

describe("promotion", () => {
  test("needs a proof, or force with a reason", async () => {
    const { harness, a } = await opened();
    const { id } = await harness.rollout(a);
    expect(await harness.run(promoteRollout(a, act(id)))).toMatchObject({ kind: "not_proved" });
    expect(await harness.run(promoteRollout(a, { ...act(id, " "), isForced: true }))).toEqual({
      kind: "reason_missing",
    });
    expect(await harness.run(promoteRollout(a, act("R9")))).toEqual({ kind: "not_found" });
  });

  test("applies to all units of all processes without a restart, survives one, and is rolled back", async () => {
    const { harness, a, b } = await opened();
    const { id } = await harness.rollout(a);
    await harness.run(promoteRollout(a, { ...act(id), isForced: true }));
    await harness.pass(1_000);
    expect([a, b].map(lockBusy)).toEqual(["fixed:2s", "fixed:2s"]);
    harness.crash("a");
    harness.crash("b");
    const { engine: c } = await harness.control("c");
    await harness.pass(1_000);
    expect(lockBusy(c)).toBe("fixed:2s");
    const next = await harness.rollout(c, { treatment: "fixed:3s" });
    expect(next.control).toBe("fixed:2s");
    await harness.run(promoteRollout(c, { ...act(next.id), isForced: true }));
    expect(lockBusy(c)).toBe("fixed:3s");
    await harness.run(rollbackRollout(c, act(next.id)));
    expect(lockBusy(c)).toBe("fixed:2s");
    await harness.run(rollbackRollout(c, act(id)));
    expect(lockBusy(c)).toBe("bounded:500ms:0.3");
  });
});

test("every action is in the audit log and on the event feeds", async () => {
  const { harness, a, b } = await opened();
  const updates: RolloutUpdate[] = [];
  b.events.subscribeRollouts((update) => updates.push(update));
  await harness.pass(100);
  const { id } = await harness.rollout(a);
  await harness.run(pauseRollout(a, act(id)));
  expect(await harness.run(pauseRollout(a, act(id)))).toMatchObject({ kind: "illegal", rollout: { state: "paused" } });
  await harness.run(rollbackRollout(a, act(id)));
  await harness.pass(1_000);
  expect(updates.map(({ rolloutId, subject, state }) => [rolloutId, subject, state].join(" "))).toEqual([
    "R1 lock_busy running",
    "R1 lock_busy paused",
    "R1 lock_busy rolled_back",
  ]);
  const lines = await auditLines(harness, a, "rollout", "*");
  expect(lines).toEqual(["ann started", "ann paused", "ann rolled_back"]);
});
