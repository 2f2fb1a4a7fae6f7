import { describe, expect, it } from "vitest";
import { NO_MEASURE, type Observation, observe, SAMPLE_MAX } from "../../../src/core/rollout/measure.ts";

const measured = (observations: readonly Observation[]) => observations.reduce(observe, NO_MEASURE);
const result = (latencyMs: number): Observation => ({ kind: "result", latencyMs });

describe("measure of a unit", () => {
  it("counts retries, refused events and first-retry successes", () => {
    const acquired = (busyTimes: number): Observation => ({ kind: "acquired", waitedMs: 500 * busyTimes, busyTimes });
    expect(measured([0, 1, 3].map(acquired))).toEqual({
      ...NO_MEASURE,
      ...{ busyRetries: 4, busyEvents: 2, firstRetrySuccesses: 1 },
      lockWaitsMs: { count: 3, values: [0, 500, 1_500] },
    });
  });

  it("keeps latencies and admission waits apart, in whole milliseconds from 0", () => {
    const { latenciesMs, admissionWaitsMs } = measured([result(1.6), result(-3), { kind: "admitted", waitedMs: 7 }]);
    expect([latenciesMs.values, admissionWaitsMs.values]).toEqual([[2, 0], [7]]);
  });

  it("keeps a bounded sample that represents all observations, the same in every process", () => {
    const all = Array.from({ length: 5_000 }, (_, at) => result(at));
    const { count, values } = measured(all).latenciesMs;
    expect([count, values.length]).toEqual([5_000, SAMPLE_MAX]);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    // The standard error of the mean of 32 uniform values is 255.
    expect(Math.abs(mean - 2_500)).toBeLessThan(765);
    expect(measured(all)).toEqual(measured(all));
  });

  it("does not change the measure that it is given", () => {
    const before = measured([result(1)]);
    observe(before, result(2));
    expect(before.latenciesMs.values).toEqual([1]);
  });
});
