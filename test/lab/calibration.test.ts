import { describe, expect, test } from "vitest";
import { calibrate, fitLatency } from "../../src/lab/calibration.ts";

describe("fitLatency", () => {
  /** 40 turns of 5 ms and three hops each. */
  const simulated = async (latencyMs: number): Promise<number> => 40 * (5 + 3 * latencyMs);

  test("finds a latency of up to 100 times the ping", async () => {
    for (const trueMs of [0.11, 0.5, 0.9, 6]) {
      const found = await fitLatency(await simulated(trueMs), 0.1, simulated);
      expect(Math.abs(found / trueMs - 1)).toBeLessThan(0.03);
    }
  });

  test("returns at least the ping, and stops when no latency fits", async () => {
    expect(await fitLatency(100, 0.1, simulated)).toBe(0.1);
    let calls = 0;
    const never = async (): Promise<number> => calls++ && 0;
    expect(await fitLatency(100, 0.1, never)).toBeLessThanOrEqual(20);
    expect(calls).toBeLessThan(20);
  });
});

test("divides the busy time by the steps and attributes the rest to the latency", async () => {
  const tried: number[] = [];
  /** 40 turns of 5 ms, each with three hops and two of its five steps. */
  const simulated = async ({ latencyMs, stepMs }: { latencyMs: number; stepMs: number }) => {
    tried.push(stepMs);
    return { tookMs: 40 * (5 + 3 * latencyMs + 2 * stepMs), steps: 200 };
  };
  const { tookMs } = await simulated({ latencyMs: 0.5, stepMs: 0.4 });
  tried.length = 0;
  const found = await calibrate({ tookMs, busyMs: 80, pingedMs: 0.1 }, simulated);
  expect(found.stepMs).toBe(0.4);
  expect(Math.abs(found.latencyMs / 0.5 - 1)).toBeLessThan(0.03);
  // The latency is fitted with the step time, so no time counts twice.
  expect(new Set(tried)).toEqual(new Set([0, 0.4]));
});

test("attributes all time to the latency without steps", async () => {
  const simulated = async ({ latencyMs }: { latencyMs: number }) => ({ tookMs: 100 * latencyMs, steps: 0 });
  const { latencyMs, stepMs } = await calibrate({ tookMs: 40, busyMs: 5, pingedMs: 0.1 }, simulated);
  expect(stepMs).toBe(0);
  expect(Math.abs(latencyMs / 0.4 - 1)).toBeLessThan(0.03);
});
