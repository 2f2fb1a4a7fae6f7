import { describe, expect, test } from "vitest";
import { FairnessThrottle } from "../../src/engine/fairness-throttle.ts";
import { forMs, ThrottleScenario } from "./throttle-scenario.ts";

describe("one thread shared by a wide run and small runs", () => {
  // Without the throttle, small runs take 10 times as long in one process and 6 times as long in four processes.
  test.each([
    { processes: 1, timesMax: 2 },
    { processes: 4, timesMax: 3.5 },
  ])(
    "small runs take at most $timesMax times as long beside a wide run, in $processes processes",
    async ({ processes, timesMax }) => {
      const scenario = await ThrottleScenario.open(processes);
      const baseline = p95(await scenario.runSmall(forMs(scenario, 2_500)));
      await scenario.startWide(ITEMS);
      const contended = await scenario.runSmall(() => scenario.isWideOpen);
      expect(contended.length).toBeGreaterThan(20);
      expect(p95(contended)).toBeLessThan(timesMax * baseline);
      expect(scenario.wideRun.results).toBe(ITEMS);
      expect(scenario.wideRun.locks / ITEMS).toBeLessThan(0.1);
    },
    60_000,
  );

  test("a wide run without competitors keeps the thread busy", async () => {
    const scenario = await ThrottleScenario.open(1);
    const fromBusyMs = scenario.thread.busyMs;
    await scenario.startWide(ITEMS);
    while (scenario.isWideOpen) await scenario.harness.pass(10);
    const busyMs = scenario.thread.busyMs - fromBusyMs;
    expect(busyMs / scenario.wideTookMs).toBeGreaterThan(0.95);
  }, 60_000);
});

describe("pause of a wide run", () => {
  test("lasts twice the duration of its turn while another run is active", () => {
    const throttle = throttleAfterWideTurn();
    expect(throttle.pauseMs("wide", 1_000)).toBe(0);
    throttle.begin("other", 1_000);
    expect(throttle.pauseMs("wide", 1_000)).toBe(8);
    expect(throttle.pauseMs("wide", 1_005)).toBe(3);
    expect(throttle.pauseMs("wide", 1_008)).toBe(0);
  });

  test("ends soon after the other runs stop", () => {
    const throttle = throttleAfterWideTurn();
    throttle.begin("other", 990);
    throttle.end("other", 995);
    expect(throttle.pauseMs("wide", 1_000)).toBe(8);
    expect(throttle.pauseMs("wide", 1_006)).toBe(0);
    expect(throttle.isAlone("wide", 1_006)).toBe(false);
    expect(throttle.isAlone("wide", 1_300)).toBe(true);
  });

  test("also applies after recent activity when locks are shared between processes", () => {
    const throttle = throttleAfterWideTurn(new FairnessThrottle(true));
    throttle.begin("other", 900);
    throttle.end("other", 900);
    expect(throttle.pauseMs("wide", 1_000)).toBe(8);
  });

  test("applies neither to small runs nor between wide runs", () => {
    const throttle = throttleAfterWideTurn();
    throttle.charge("small", 3, 400, 1_000);
    throttle.begin("small", 1_000);
    throttle.end("small", 1_000);
    throttle.begin("wide", 1_000);
    expect(throttle.pauseMs("small", 1_000)).toBe(0);
    const wide = throttleAfterWideTurn();
    wide.charge("wide 2", 64, 4, 1_000);
    wide.begin("wide 2", 1_000);
    expect(wide.pauseMs("wide", 1_000)).toBe(0);
  });

  test("adds up over turns and is capped", () => {
    const throttle = throttleAfterWideTurn();
    throttle.begin("other", 1_000);
    throttle.charge("wide", 64, 4, 1_000);
    expect(throttle.pauseMs("wide", 1_000)).toBe(16);
    throttle.charge("wide", 64, 30_000, 1_000);
    expect(throttle.pauseMs("wide", 1_000)).toBe(20);
  });
});

function throttleAfterWideTurn(throttle = new FairnessThrottle(false)): FairnessThrottle {
  throttle.begin("wide", 996);
  throttle.end("wide", 1_000);
  throttle.charge("wide", 64, 4, 1_000);
  return throttle;
}

function p95(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.95) - 1] ?? Number.NaN;
}

const ITEMS = 2_000;
