import { describe, expect, test } from "vitest";
import { calibrate, fitLatency } from "../../src/lab/calibration.ts";

describe("the latency with which the simulation takes as long as live", () => {
  /** 40 turns of 5 ms and three ways each. */
  const simulated = async (latencyMs: number): Promise<number> => 40 * (5 + 3 * latencyMs);

  test("is found between the ping's and a hundred times that", async () => {
    for (const trueMs of [0.11, 0.5, 0.9, 6]) {
      const found = await fitLatency(await simulated(trueMs), 0.1, simulated);
      expect(Math.abs(found / trueMs - 1)).toBeLessThan(0.03);
    }
  });

  test("is never less than the ping's, and has an end where nothing fits", async () => {
    expect(await fitLatency(100, 0.1, simulated)).toBe(0.1);
    let asked = 0;
    const never = async (): Promise<number> => asked++ && 0;
    expect(await fitLatency(100, 0.1, never)).toBeLessThanOrEqual(20);
    expect(asked).toBeLessThan(20);
  });
});

test("what a small row kept the processes busy for is shared among its steps; the rest was on the way", async () => {
  const tried: number[] = [];
  /** 40 turns of 5 ms, each with three ways and two of its five steps. */
  const simulated = async ({ latencyMs, stepMs }: { latencyMs: number; stepMs: number }) => {
    tried.push(stepMs);
    return { tookMs: 40 * (5 + 3 * latencyMs + 2 * stepMs), steps: 200 };
  };
  const { tookMs } = await simulated({ latencyMs: 0.5, stepMs: 0.4 });
  tried.length = 0;
  const found = await calibrate({ tookMs, busyMs: 80, pingedMs: 0.1 }, simulated);
  expect(found.stepMs).toBe(0.4);
  expect(Math.abs(found.latencyMs / 0.5 - 1)).toBeLessThan(0.03);
  // Nothing is counted twice: what was work is not looked for on the way.
  expect(new Set(tried)).toEqual(new Set([0, 0.4]));
});

test("where nothing can be shared, all of it was on the way", async () => {
  const simulated = async ({ latencyMs }: { latencyMs: number }) => ({ tookMs: 100 * latencyMs, steps: 0 });
  const { latencyMs, stepMs } = await calibrate({ tookMs: 40, busyMs: 5, pingedMs: 0.1 }, simulated);
  expect(stepMs).toBe(0);
  expect(Math.abs(latencyMs / 0.4 - 1)).toBeLessThan(0.03);
});
