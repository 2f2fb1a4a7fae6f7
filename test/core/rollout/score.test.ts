import { describe, expect, it } from "vitest";
import type { Gate, GateMetric } from "../../../src/core/rollout/gate.ts";
import { NO_MEASURE } from "../../../src/core/rollout/measure.ts";
import { type MeasuredUnit, scaleOf, scoreOf, windowEntryOf } from "../../../src/core/rollout/score.ts";
import { measureOf, type Observed } from "./fixtures.ts";

const unit = (arm: MeasuredUnit["arm"], observed: Observed, deadByBudget = 0): MeasuredUnit => ({
  ...{ id: "u", startMs: 0, arm, stage: 0, deadByBudget },
  measure: measureOf(observed),
});
const gate = (metric: GateMetric, ratio: number): Gate => ({ metric, ratio });
const both = (of: Gate, scale: { threshold: number; cap: number }, observed: Observed) =>
  (["control", "treatment"] as const).map((arm) => scoreOf(of, scale, unit(arm, observed)));

describe("quantile gates", () => {
  const latency = gate("job_result_latency_p95", 1.1);

  it("score the share of observations above the control quantile, times the ratio in treatment", () => {
    const scale = { threshold: 100, cap: 0.5 };
    expect(both(latency, scale, { latencies: [100, 105, 111, 50] })).toEqual([1, 0.5]);
    expect(both(latency, scale, { latencies: [100, 110, 50, 50] })).toEqual([0.5, 0]);
    expect(both(latency, scale, {})).toEqual([0, 0]);
  });

  it("have the p95 of the window as threshold and the p95 of the shares as cap", () => {
    // 90 units with durations 1 to 90 and ten units with one of four above 1,000, six of which are above the p95.
    const window = Array.from({ length: 100 }, (_, at) => (at < 90 ? [at + 1] : [1, 1, 1, 1_000 + at]));
    expect(scaleOf(latency, window)).toEqual({ threshold: 1_093, cap: 0.25 });
  });

  it("have no scale without observations, and a threshold of at least 1 ms", () => {
    expect(scaleOf(latency, [[], []])).toBeNull();
    expect(scaleOf(latency, [[0], [0]])).toEqual({ threshold: 1, cap: 1 / 32 });
  });

  it("keep evenly spaced observations of a unit with many, so that slow ones are not left out", () => {
    const entry = windowEntryOf(latency, unit("control", { latencies: Array.from({ length: 32 }, (_, at) => at) }));
    expect([entry.length, entry[0], entry.at(-1)]).toEqual([16, 1, 31]);
  });
});

describe("count gates", () => {
  it("divide the count of the treatment by the ratio and cap both", () => {
    const retries = gate("lock_busy_retries", 2);
    const scale = scaleOf(
      retries,
      Array.from({ length: 100 }, (_, at) => [at < 90 ? 1 : 8]),
    )!;
    expect(scale.cap).toBe(8);
    expect(both(retries, scale, { retries: 4 })).toEqual([0.5, 0.25]);
    expect(both(retries, scale, { retries: 100 })).toEqual([1, 1]);
    expect(scaleOf(retries, [[0], [0]])?.cap).toBe(1);
  });

  it("see a treatment as bad as control as a breach of a ratio below 1", () => {
    const retries = gate("lock_busy_retries", 0.5);
    const scale = scaleOf(retries, [[4], [4]])!;
    expect(both(retries, scale, { retries: 4 })).toEqual([0.5, 1]);
    expect(scoreOf(retries, scale, unit("treatment", { retries: 2 }))).toBe(0.5);
  });

  it("count dead letters by an exhausted budget", () => {
    const dead = gate("dead_letters", 1);
    expect(scoreOf(dead, { threshold: 0, cap: 2 }, unit("treatment", {}, 1))).toBe(0.5);
    expect(windowEntryOf(dead, unit("control", {}, 3))).toEqual([3]);
  });

  it("find missing results bad", () => {
    const results = gate("results", 0.9);
    const scale = scaleOf(results, [[1], [4], [4], [9]])!;
    const at = (count: number) => both(results, scale, { latencies: Array(count).fill(1) });
    expect(at(0)).toEqual([1, 1]);
    expect(at(4)[0]).toBeCloseTo(0.1);
    expect(at(4)[1]).toBeCloseTo(0);
    // A treatment with 90 % of the results of control has the same score.
    expect(
      scoreOf(results, { threshold: 0, cap: 100 / 0.9 }, unit("treatment", { latencies: Array(90).fill(1) })),
    ).toBeCloseTo(
      scoreOf(results, { threshold: 0, cap: 100 / 0.9 }, unit("control", { latencies: Array(100).fill(1) }))!,
    );
  });
});

describe("first-retry success", () => {
  const withBusy = (arm: MeasuredUnit["arm"], busyEvents: number, firstRetrySuccesses: number): MeasuredUnit => ({
    ...unit(arm, {}),
    measure: { ...NO_MEASURE, busyEvents, firstRetrySuccesses },
  });

  it.each([0.5, 0.9, 1, 1.5])("has equal scores when the treatment meets the ratio %d exactly", (ratio) => {
    const success = gate("first_retry_success", ratio);
    const scale = scaleOf(success, [])!;
    const control = scoreOf(success, scale, withBusy("control", 100, 60));
    expect(scoreOf(success, scale, withBusy("treatment", 100, 60 * ratio))).toBeCloseTo(control!);
    for (const successes of [0, 100]) {
      for (const arm of ["control", "treatment"] as const) {
        const score = scoreOf(success, scale, withBusy(arm, 100, successes))!;
        expect(score >= 0 && score <= 1).toBe(true);
      }
    }
  });

  it("is undefined for a unit without a refused event", () => {
    expect(scoreOf(gate("first_retry_success", 1), { threshold: 0, cap: 1 }, withBusy("control", 0, 0))).toBeNull();
  });
});
