import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { CheckPacer, EASE_MS, WAITING_MAX } from "../../../src/engine/safety/check-pacer.ts";
import { openBench } from "../../sim/harness.ts";
import { Harness } from "../harness.ts";

/** Those who come at these times, in a process that stands still now and then; when each of them went. */
async function play(comeAfterMs: readonly number[], halts: readonly { fromMs: number; lastsMs: number }[] = []) {
  const bench = openBench();
  const { process, world } = bench.enter("p");
  const startMs = world.clock.now();
  const checkPacer = new CheckPacer();
  const went: { who: number; atMs: number }[] = [];
  for (const [who, comeMs] of comeAfterMs.entries()) {
    world.clock.after(comeMs, () => {
      void checkPacer.pass(world.clock).then(() => went.push({ who, atMs: world.clock.now() - startMs }));
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

describe("those that come back to a kernel", () => {
  test("go at once when they come alone", async () => {
    const times = every(EASE_MS + 1, 20);
    expect((await play(times)).map(({ atMs }) => atMs)).toEqual(times);
  });

  test("wait about as long as it takes to even them out, when they come in a stream", async () => {
    const went = await play(every(10, 1_000));
    const delays = went.slice(200).map(({ who, atMs }) => atMs - who * 10);
    const mean = delays.reduce((sum, delayMs) => sum + delayMs, 0) / delays.length;
    expect(mean).toBeGreaterThan(EASE_MS / 2);
    expect(mean).toBeLessThan(EASE_MS * 1.5);
  });

  test("stay apart when the process stood still", async () => {
    const went = await play(every(10, 500), [{ fromMs: 1_000, lastsMs: 200 }]);
    expect(went).toHaveLength(500);
    // Four within 40 ms were meant; all at once they would be 24.
    expect(
      densest(
        went.map(({ atMs }) => atMs),
        40,
      ),
    ).toBeLessThanOrEqual(9);
  });

  test("go in the order in which they came, none of them early, all of them soon, however they come", async () => {
    const halt = fc.record({ fromMs: fc.nat(2_000), lastsMs: fc.integer({ min: 1, max: 900 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(2_000), { maxLength: 400 }),
        fc.array(halt, { maxLength: 3 }),
        async (unsorted, halts) => {
          const times = unsorted.toSorted((a, b) => a - b);
          const went = await play(times, halts);
          expect(went.map(({ who }) => who)).toEqual([...times.keys()]);
          const haltedMs = halts.reduce((sum, { lastsMs }) => sum + lastsMs, 0);
          for (const { who, atMs } of went) {
            expect(atMs).toBeGreaterThanOrEqual(times[who] ?? 0);
            expect(atMs).toBeLessThanOrEqual((times[who] ?? 0) + haltedMs + 8 * EASE_MS);
          }
        },
      ),
      { numRuns: 50 },
    );
  });

  test("are not held up by it where they are very many", async () => {
    const went = await play(every(0, 10 * WAITING_MAX));
    expect(went.filter(({ atMs }) => atMs === 0)).toHaveLength(9 * WAITING_MAX);
  });
});

/** 500 jobs wait for a kernel that is away; it comes back, and the process stands still three times. */
async function halting(policy: string): Promise<number[]> {
  const settings = defaultSettings();
  const { budget } = settings.retry.safety_unavailable;
  const retry = { ...settings.retry, safety_unavailable: { policy: parsePolicy(policy), budget } };
  const harness = new Harness({ ...settings, retry });
  harness.kernel.health = "refuses";
  const { engine } = await harness.control("c1", "remote");
  const checked = checkSubmission({ topic: "demo.echo" });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  await harness.run(Promise.all(Array.from({ length: 500 }, () => admitJob(engine, checked.submission))));
  await harness.pass(20_000);
  harness.kernel.health = "up";
  while (engine.safety.breaker.kind !== "closed") await harness.pass(10);
  const asked: number[] = [];
  harness.kernel.onRequest = () => asked.push(harness.sim.net.timeline.nowMs);
  await harness.pass(100);
  for (let count = 0; count < 3; count++) {
    harness.process("c1").pause();
    await harness.pass(300);
    harness.process("c1").resume();
    await harness.pass(250);
  }
  await harness.pass(10_000);
  return asked;
}

test("a control process that stands still does not bring jobs that wait for the kernel back as a wave", async () => {
  const asked = await halting("full:1s:4s");
  expect(asked.length).toBeGreaterThan(400);
  // Some 70 come due in each of the halts, and 5 in 20 ms else.
  expect(densest(asked, 20)).toBeLessThanOrEqual(16);
});

test("where no policy has spread them they come as the wave that they are", async () => {
  expect(densest(await halting("fixed:3s"), 20)).toBeGreaterThan(100);
});
