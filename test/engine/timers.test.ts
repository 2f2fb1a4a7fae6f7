import { expect, test } from "vitest";
import { Timers } from "../../src/engine/timers.ts";
import { around } from "../../src/sim/mutants/decorators.ts";
import { Harness, idOf } from "./harness.ts";

test("a timer fires at its due time, also if the clock was slowed down meanwhile", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const job = await harness.job(idOf(await harness.admit(engine, { topic: "work.a", org: "acme" })));
  let behindMs = 0;
  const clock = around(engine.world.clock, { now: () => engine.world.clock.now() - behindMs });
  const lateMs: number[] = [];
  const timers = new Timers({ ...engine, world: { ...engine.world, clock } }, async ({ dueMs }) => {
    lateMs.push(clock.now() - dueMs);
  });
  const { everyMs } = engine.settings.current.sweep;
  timers.arm({ id: job.id, version: 1, value: { ...job, dueMs: clock.now() + everyMs } });
  behindMs = 5;
  await harness.pass(everyMs);
  expect(lateMs).toEqual([]);
  await harness.pass(5);
  expect(lateMs).toEqual([0]);
});

test("records that are due after the next sweep get no timer", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const job = await harness.job(idOf(await harness.admit(engine, { topic: "work.a", org: "acme" })));
  const fired: string[] = [];
  const timers = new Timers(engine, async ({ id }) => {
    fired.push(id);
  });
  const { everyMs } = engine.settings.current.sweep;
  const nowMs = engine.world.clock.now();
  for (const [id, delayMs] of [
    ["now", -1],
    ["sweep", everyMs],
    ["later", everyMs + 1],
  ] as const)
    timers.arm({ id, version: 1, value: { ...job, dueMs: nowMs + delayMs } });
  await harness.pass(2 * everyMs);
  expect(fired).toEqual(["now", "sweep"]);
});
