import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { CheckPacer, EASE_MS, WAITING_MAX } from "../../../src/engine/safety/check-pacer.ts";
import { openBench } from "../../sim/harness.ts";
import { Harness } from "../harness.ts";

/** Passes checks at the given times through a process with pauses; returns when each was released. */
async function releaseTimes(
  arrivalsMs: readonly number[],
  pauses: readonly { fromMs: number; lastsMs: number }[] = [],
) {
  const sim = openBench();
  const { process, world } = sim.enter("p");
  const startMs = world.clock.now();
  const checkPacer = new CheckPacer();
  const released: { index: number; atMs: number }[] = [];
  for (const [index, arrivalMs] of arrivalsMs.entries()) {
    world.clock.after(arrivalMs, () => {
      void checkPacer.pass(world.clock).then(() => released.push({ index, atMs: world.clock.now() - startMs }));
    });
  }
  for (const { fromMs, lastsMs } of pauses) {
    sim.net.timeline.after(fromMs, () => process.pause());
    sim.net.timeline.after(fromMs + lastsMs, () => process.resume());
  }
  await sim.pass(60_000);
  return released;
}

const every = (gapMs: number, count: number): number[] => Array.from({ length: count }, (_, index) => index * gapMs);

/** The highest number of times within any window of `withinMs`. */
function maxWithin(timesMs: readonly number[], withinMs: number): number {
  const sorted = timesMs.toSorted((a, b) => a - b);
  return Math.max(
    ...sorted.map((fromMs) => sorted.filter((atMs) => atMs >= fromMs && atMs < fromMs + withinMs).length),
  );
}

describe("check pacer", () => {
  test("releases single checks at once", async () => {
    const times = every(EASE_MS + 1, 20);
    expect((await releaseTimes(times)).map(({ atMs }) => atMs)).toEqual(times);
  });

  test("delays a steady stream by about the smoothing time", async () => {
    const released = await releaseTimes(every(10, 1_000));
    const delays = released.slice(200).map(({ index, atMs }) => atMs - index * 10);
    const mean = delays.reduce((sum, delayMs) => sum + delayMs, 0) / delays.length;
    expect(mean).toBeGreaterThan(EASE_MS / 2);
    expect(mean).toBeLessThan(EASE_MS * 1.5);
  });

  test("keeps checks apart after the process was paused", async () => {
    const released = await releaseTimes(every(10, 500), [{ fromMs: 1_000, lastsMs: 200 }]);
    expect(released).toHaveLength(500);
    // 4 within 40 ms by schedule; 24 if released at once.
    expect(
      maxWithin(
        released.map(({ atMs }) => atMs),
        40,
      ),
    ).toBeLessThanOrEqual(9);
  });

  test("releases checks in order, never early and with bounded delay", async () => {
    const pauseArbitrary = fc.record({ fromMs: fc.nat(2_000), lastsMs: fc.integer({ min: 1, max: 900 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(2_000), { maxLength: 400 }),
        fc.array(pauseArbitrary, { maxLength: 3 }),
        async (unsorted, pauses) => {
          const times = unsorted.toSorted((a, b) => a - b);
          const released = await releaseTimes(times, pauses);
          expect(released.map(({ index }) => index)).toEqual([...times.keys()]);
          const pausedMs = pauses.reduce((sum, { lastsMs }) => sum + lastsMs, 0);
          for (const { index, atMs } of released) {
            expect(atMs).toBeGreaterThanOrEqual(times[index] ?? 0);
            expect(atMs).toBeLessThanOrEqual((times[index] ?? 0) + pausedMs + 8 * EASE_MS);
          }
        },
      ),
      { numRuns: 50 },
    );
  });

  test("does not delay checks beyond its queue limit", async () => {
    const released = await releaseTimes(every(0, 10 * WAITING_MAX));
    expect(released.filter(({ atMs }) => atMs === 0)).toHaveLength(9 * WAITING_MAX);
  });
});

/** 500 jobs wait for an unavailable kernel; it recovers and the process is paused three times. */
async function checkTimesWithPauses(policy: string): Promise<number[]> {
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
  const checkedMs: number[] = [];
  harness.kernel.onRequest = () => checkedMs.push(harness.sim.net.timeline.nowMs);
  await harness.pass(100);
  for (let count = 0; count < 3; count++) {
    harness.process("c1").pause();
    await harness.pass(300);
    harness.process("c1").resume();
    await harness.pass(250);
  }
  await harness.pass(10_000);
  return checkedMs;
}

test("a paused control process does not send waiting checks as one burst", async () => {
  const checkedMs = await checkTimesWithPauses("full:1s:4s");
  expect(checkedMs.length).toBeGreaterThan(400);
  // About 70 become due in each pause; otherwise 5 in 20 ms.
  expect(maxWithin(checkedMs, 20)).toBeLessThanOrEqual(16);
});

test("checks that the policy does not spread arrive as one burst", async () => {
  expect(maxWithin(await checkTimesWithPauses("fixed:3s"), 20)).toBeGreaterThan(100);
});
