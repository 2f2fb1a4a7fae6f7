import { describe, expect, test } from "vitest";
import { FairnessThrottle } from "../../src/engine/fairness-throttle.ts";
import { forMs, ThrottleScenario } from "./throttle-scenario.ts";

describe("on one thread, first come first served", () => {
  // Without rests the others take 10 times as long in one process, and 6 times in four that share the thread.
  test.each([
    { processes: 1, timesMax: 2 },
    { processes: 4, timesMax: 3 },
  ])(
    "other runs take at most $timesMax times as long beside a wide one, in $processes processes",
    async ({ processes, timesMax }) => {
      const scene = await ThrottleScenario.open(processes);
      const quiet = p95(await scene.others(forMs(scene, 2_500)));
      await scene.startWide(ITEMS);
      const meanwhile = await scene.others(() => scene.isWideOpen);
      expect(meanwhile.length).toBeGreaterThan(20);
      expect(p95(meanwhile)).toBeLessThan(timesMax * quiet);
      expect(scene.wide.results).toBe(ITEMS);
      expect(scene.wide.locks / ITEMS).toBeLessThan(0.1);
    },
    60_000,
  );

  test("a wide run that is alone leaves the thread no rest", async () => {
    const scene = await ThrottleScenario.open(1);
    const fromBusyMs = scene.thread.busyMs;
    await scene.startWide(ITEMS);
    while (scene.isWideOpen) await scene.harness.pass(10);
    const busyMs = scene.thread.busyMs - fromBusyMs;
    expect(busyMs / scene.wideTookMs).toBeGreaterThan(0.95);
  }, 60_000);
});

describe("who rests", () => {
  test("what is wide, for as long as it took and as long again, while others are at work here", () => {
    const throttle = paceAfterWideTurn();
    expect(throttle.pauseMs("wide", 1_000)).toBe(0);
    throttle.begin("other", 1_000);
    expect(throttle.pauseMs("wide", 1_000)).toBe(8);
    expect(throttle.pauseMs("wide", 1_005)).toBe(3);
    expect(throttle.pauseMs("wide", 1_008)).toBe(0);
  });

  test("nobody, once others have gone for more than a moment", () => {
    const throttle = paceAfterWideTurn();
    throttle.begin("other", 990);
    throttle.end("other", 995);
    expect(throttle.pauseMs("wide", 1_000)).toBe(8);
    expect(throttle.pauseMs("wide", 1_006)).toBe(0);
    expect(throttle.isAlone("wide", 1_006)).toBe(false);
    expect(throttle.isAlone("wide", 1_300)).toBe(true);
  });

  test("where others are in other processes too, who came by lately stands for those who are not seen", () => {
    const throttle = paceAfterWideTurn(new FairnessThrottle(true));
    throttle.begin("other", 900);
    throttle.end("other", 900);
    expect(throttle.pauseMs("wide", 1_000)).toBe(8);
  });

  test("not those who have a step now and then, and not the wide for each other", () => {
    const throttle = paceAfterWideTurn();
    throttle.charge("small", 3, 400, 1_000);
    throttle.begin("small", 1_000);
    throttle.end("small", 1_000);
    throttle.begin("wide", 1_000);
    expect(throttle.pauseMs("small", 1_000)).toBe(0);
    const wide = paceAfterWideTurn();
    wide.charge("wide too", 64, 4, 1_000);
    wide.begin("wide too", 1_000);
    expect(wide.pauseMs("wide", 1_000)).toBe(0);
  });

  test("however long a turn took, not for long; and two debts are paid one after the other", () => {
    const throttle = paceAfterWideTurn();
    throttle.begin("other", 1_000);
    throttle.charge("wide", 64, 4, 1_000);
    expect(throttle.pauseMs("wide", 1_000)).toBe(16);
    throttle.charge("wide", 64, 30_000, 1_000);
    expect(throttle.pauseMs("wide", 1_000)).toBe(20);
  });
});

function paceAfterWideTurn(throttle = new FairnessThrottle(false)): FairnessThrottle {
  throttle.begin("wide", 996);
  throttle.end("wide", 1_000);
  throttle.charge("wide", 64, 4, 1_000);
  return throttle;
}

function p95(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.95) - 1] ?? Number.NaN;
}

const ITEMS = 2_000;
