import { describe, expect, test } from "vitest";
import { fittedLatency } from "../../src/lab/live-tuning.ts";

describe("the latency with which the simulation takes as long as live", () => {
  /** 40 turns of 5 ms and three ways each. */
  const simulated = async (latencyMs: number): Promise<number> => 40 * (5 + 3 * latencyMs);

  test("is found between the ping's and a hundred times that", async () => {
    for (const trueMs of [0.11, 0.5, 0.9, 6]) {
      const found = await fittedLatency(await simulated(trueMs), 0.1, simulated);
      expect(Math.abs(found / trueMs - 1)).toBeLessThan(0.03);
    }
  });

  test("is never less than the ping's, and has an end where nothing fits", async () => {
    expect(await fittedLatency(100, 0.1, simulated)).toBe(0.1);
    let asked = 0;
    const never = async (): Promise<number> => asked++ && 0;
    expect(await fittedLatency(100, 0.1, never)).toBeLessThanOrEqual(20);
    expect(asked).toBeLessThan(20);
  });
});
