import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../src/config.ts";
import { admit } from "../../src/flow/admit.ts";
import { inTurn } from "../../src/flow/in-turn.ts";
import { Sweeper } from "../../src/flow/sweep.ts";
import { checkSubmission } from "../../src/jobs/submission.ts";
import { parsePolicy } from "../../src/retry/policies.ts";
import { PUT_OFF } from "../../src/retry/put-off.ts";
import { around } from "../../src/sim/decorators.ts";
import { openBench } from "../sim/harness.ts";
import { Plant } from "./plant.ts";

/** Those with these times, in a process that stands still now and then; when each of them went. */
async function play(dueAfterMs: readonly number[], halts: readonly { fromMs: number; lastsMs: number }[]) {
  const bench = openBench();
  const { process, world } = bench.enter("p");
  const startMs = world.clock.now();
  const went: { dueMs: number; atMs: number }[] = [];
  for (const dueMs of dueAfterMs) {
    world.clock.after(dueMs, () => {
      void inTurn(world, startMs + dueMs).then(() => went.push({ dueMs, atMs: world.clock.now() - startMs }));
    });
  }
  for (const { fromMs, lastsMs } of halts) {
    bench.net.timeline.after(fromMs, () => process.pause());
    bench.net.timeline.after(fromMs + lastsMs, () => process.resume());
  }
  await bench.pass(60_000);
  return went;
}

const every = (gapMs: number, count: number): number[] => Array.from({ length: count }, (_, index) => index * gapMs);

/** The most that went within so long. */
function densest(timesMs: readonly number[], withinMs: number): number {
  const sorted = timesMs.toSorted((a, b) => a - b);
  return Math.max(
    ...sorted.map((fromMs) => sorted.filter((atMs) => atMs >= fromMs && atMs < fromMs + withinMs).length),
  );
}

describe("those that were to come each at a time of its own", () => {
  test("go at their times while nothing holds them up, however dense", async () => {
    for (const { dueMs, atMs } of await play([...every(1, 500), ...every(0, 50)], [])) expect(atMs).toBe(dueMs);
  });

  test("are spread when the process stood still, and those after them are in time", async () => {
    const went = await play(every(3, 1_000), [{ fromMs: 100, lastsMs: 200 }]);
    expect(went).toHaveLength(1_000);
    // Seven within 20 ms were meant; all at once they would be 67.
    const times = went.map(({ atMs }) => atMs);
    expect(densest(times, 20)).toBeLessThanOrEqual(12);
    expect(went.filter(({ dueMs, atMs }) => dueMs > 300 && atMs > dueMs)).toEqual([]);
  });

  test("are held up by nobody who is late by himself", async () => {
    const bench = openBench();
    const { world } = bench.enter("p");
    let went = 0;
    const pass = async (lateMs: number) => {
      void inTurn(world, world.clock.now() - lateMs).then(() => went++);
      await bench.pass(5);
    };
    for (let count = 0; count < 200; count++) await pass(0);
    await pass(499);
    await pass(0);
    await pass(0);
    expect(went).toBe(202);
    await bench.pass(PUT_OFF.withinMs);
    expect(went).toBe(203);
  });

  test("are scattered when they come so late that a process must have died", async () => {
    const bench = openBench();
    const { world } = bench.enter("p");
    const dueMs = world.clock.now();
    await bench.pass(5_000);
    const times: number[] = [];
    for (let count = 0; count < 200; count++) void inTurn(world, dueMs).then(() => times.push(world.clock.now()));
    await bench.pass(PUT_OFF.withinMs + 1);
    expect(times).toHaveLength(200);
    expect(densest(times, 20)).toBeLessThanOrEqual(14);
  });

  test("are put off no more than a few times, by a process that cannot keep up", async () => {
    const bench = openBench();
    const { process, world } = bench.enter("p");
    const dueMs = world.clock.now() - 5_000;
    let went = 0;
    for (let count = 0; count < 100; count++) void inTurn(world, dueMs).then(() => went++);
    for (let count = 0; count < PUT_OFF.timesMax; count++) {
      await bench.pass(10);
      expect(went).toBeLessThan(50);
      process.pause();
      await bench.pass(5_000);
      process.resume();
    }
    await bench.pass(10);
    expect(went).toBe(100);
  });

  test("all go, never too soon, and not much later, whenever the process stands still", async () => {
    const halt = fc.record({ fromMs: fc.nat(2_000), lastsMs: fc.integer({ min: 1, max: 900 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(2_000), { maxLength: 200 }),
        fc.array(halt, { maxLength: 4 }),
        async (dues, halts) => {
          const went = await play(dues, halts);
          expect(went).toHaveLength(dues.length);
          const haltedMs = halts.reduce((sum, { lastsMs }) => sum + lastsMs, 0);
          for (const { dueMs, atMs } of went) {
            expect(atMs).toBeGreaterThanOrEqual(dueMs);
            expect(atMs).toBeLessThanOrEqual(
              dueMs + haltedMs + (halts.length > 0 ? PUT_OFF.timesMax * PUT_OFF.withinMs : 0),
            );
          }
        },
      ),
      { numRuns: 50 },
    );
  });
});

test("a control process that stands still does not bring jobs that wait for the kernel back as a wave", async () => {
  const settings = defaultSettings();
  const { budget } = settings.retry.safety_unavailable;
  const retry = { ...settings.retry, safety_unavailable: { policy: parsePolicy("full:1s:4s"), budget } };
  const plant = new Plant({ ...settings, retry });
  plant.kernel.health = "refuses";
  const { flow } = await plant.control("c1", "remote");
  const checked = checkSubmission({ topic: "demo.echo" });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  await plant.run(Promise.all(Array.from({ length: 500 }, () => admit(flow, checked.submission))));
  await plant.pass(20_000);
  plant.kernel.health = "up";
  while (flow.safety.breaker.kind !== "closed") await plant.pass(10);
  const asked: number[] = [];
  plant.kernel.onRequest = () => asked.push(plant.bench.net.timeline.nowMs);
  await plant.pass(100);
  for (let count = 0; count < 3; count++) {
    plant.process("c1").pause();
    await plant.pass(300);
    plant.process("c1").resume();
    await plant.pass(250);
  }
  expect(asked.length).toBeGreaterThan(150);
  // Some 70 come due in each of the halts.
  expect(densest(asked, 20)).toBeLessThanOrEqual(30);
});

test("sweepers that were held up together do not sweep at the same instants ever after", async () => {
  const plant = new Plant();
  const names = ["c1", "c2", "c3"];
  const sweeps = names.map((name) => {
    const flow = plant.flow(name);
    const times: number[] = [];
    const due = (query: Parameters<typeof flow.world.store.due>[0]) => {
      times.push(plant.bench.net.timeline.nowMs);
      return flow.world.store.due(query);
    };
    new Sweeper({ ...flow, world: { ...flow.world, store: around(flow.world.store, { due }) } }).start();
    return times;
  });
  await plant.pass(5_000);
  for (const name of names) plant.process(name).pause();
  await plant.pass(3_000);
  for (const name of names) plant.process(name).resume();
  await plant.pass(60_000);
  const [first = [], ...others] = sweeps;
  expect(first.length).toBeGreaterThan(50);
  const isNear = (atMs: number) => (times: readonly number[]) => times.some((other) => Math.abs(other - atMs) < 30);
  expect(first.filter((atMs) => others.every(isNear(atMs))).length).toBeLessThan(10);
});
