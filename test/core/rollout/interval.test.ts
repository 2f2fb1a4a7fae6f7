import { describe, expect, it } from "vitest";
import { bet, betsUntil, eValueOf, NO_BETS } from "../../../src/core/rollout/e-value.ts";
import { addToHistogram, quantileOf, quantilesOf } from "../../../src/core/rollout/histogram.ts";
import {
  addDifference,
  differenceOf,
  type MeanState,
  NO_MEAN,
  quantileInterval,
} from "../../../src/core/rollout/interval.ts";
import { judge, newJudgement } from "../../../src/core/rollout/judgement.ts";
import { safetyStop } from "../../../src/core/rollout/safety-stop.ts";
import { unpack } from "../../../src/core/rollout/series.ts";
import { summaryOf } from "../../../src/core/rollout/summary.ts";
import { SeededRandom } from "../../../src/sim/random.ts";
import { HORIZON_MS, LATE_MS, rolloutWith, unitsOf } from "./fixtures.ts";

describe("histograms", () => {
  it("give quantiles within 2 %", () => {
    const counts: number[] = [];
    for (let value = 1; value <= 10_000; value += 1) addToHistogram(counts, value, 1);
    for (const share of [0.05, 0.5, 0.95, 0.99]) {
      expect(Math.abs(quantileOf(counts, share)! / (10_000 * share) - 1)).toBeLessThan(0.021);
    }
    expect(counts.length).toBeLessThan(300);
  });

  it("have no quantiles without observations, and a bounded size", () => {
    expect(quantilesOf([])).toBeNull();
    const counts: number[] = [];
    addToHistogram(counts, 1e300, 1);
    addToHistogram(counts, 0, 3);
    expect(counts.length).toBeLessThanOrEqual(540);
    expect(quantilesOf(counts)?.p50).toBe(0);
  });
});

describe("displayed intervals", () => {
  it("have the width of the published bound", () => {
    const counts: number[] = [];
    for (let value = 1; value <= 10_000; value += 1) addToHistogram(counts, value, 1);
    // 1.5 √(q(1 - q)l) + 0.8 l with l = (1.4 ln ln(2.1 n) + ln(10 / α)) / n, for q = 0.5, n = 1,000 and α = 0.05: 0.0742
    const { low, high } = quantileInterval(counts, { share: 0.5, units: 1_000, alpha: 0.05 })!;
    expect(Math.abs(low / 4_258 - 1)).toBeLessThan(0.021);
    expect(Math.abs(high / 5_742 - 1)).toBeLessThan(0.021);
  });

  it.each([
    [0.5, 1],
    [0.5, 30],
    [0.95, 500],
    [0.05, 500],
  ])("are absent if the bound of share %d exceeds the range with %i units", (share, units) => {
    const counts: number[] = [];
    for (let value = 1; value <= 1_000; value += 1) addToHistogram(counts, value, 1);
    expect(quantileInterval(counts, { share, units, alpha: 0.05 })).toBeNull();
    expect(quantileInterval(counts, { share, units: 100_000, alpha: 0.05 })).not.toBeNull();
  });

  it("contain the quantile of an exponential distribution at every inspection", () => {
    let missed = 0;
    for (let seed = 0; seed < 40; seed += 1) {
      const random = new SeededRandom(seed, "interval");
      const counts: number[] = [];
      let isInside = true;
      for (let units = 1; units <= 2_000; units += 1) {
        addToHistogram(counts, -1_000 * Math.log(1 - random.next()), 1);
        const found = units % 20 === 0 ? quantileInterval(counts, { share: 0.95, units, alpha: 0.05 }) : null;
        // A bin is 4 % wide.
        if (found !== null && (found.low > 1.04 * 2_996 || found.high < 2_996 / 1.04)) isInside = false;
      }
      if (!isInside) missed += 1;
    }
    expect(missed).toBeLessThanOrEqual(2);
  });

  it("contain the mean of differences and shrink", () => {
    const widths: number[] = [];
    let missed = 0;
    for (let seed = 0; seed < 40; seed += 1) {
      const random = new SeededRandom(seed, "mean");
      let state: MeanState = NO_MEAN;
      let isInside = true;
      for (let count = 1; count <= 1_000; count += 1) {
        state = addDifference(state, random.next() < 0.6 ? random.next() : -random.next(), 0.05);
        const found = differenceOf(state, 0.05)!;
        if (found.low > 0.1 || found.high < 0.1) isInside = false;
        if (count === 1_000) widths.push(found.high - found.low);
      }
      if (!isInside) missed += 1;
    }
    expect(missed).toBeLessThanOrEqual(2);
    expect(Math.max(...widths)).toBeLessThan(0.35);
    expect(differenceOf(NO_MEAN, 0.05)).toBeNull();
  });
});

describe("e-values", () => {
  it("estimate the bets until a target", () => {
    const capital = [...NO_BETS];
    for (let at = 0; at < 10; at += 1) bet(capital, 0.5);
    const more = betsUntil(capital, 10, 100)!;
    expect(more).toBeGreaterThan(0);
    for (let at = 0; at < more; at += 1) bet(capital, 0.5);
    expect(eValueOf(capital)).toBeGreaterThanOrEqual(100);
    expect(betsUntil(capital, 10 + more, 100)).toBe(0);
  });

  it("expect no decision from losses or without bets", () => {
    const capital = [...NO_BETS];
    expect(betsUntil(capital, 0, 100)).toBeNull();
    bet(capital, -0.5);
    expect(betsUntil(capital, 1, 100)).toBeNull();
  });
});

describe("summary", () => {
  const rollout = rolloutWith();
  const units = unitsOf(rollout, 600, 1, (arm, random) => ({
    ...{ latencies: [100 + 100 * random.next()], waits: [5], retries: arm === "treatment" ? 0 : 2 },
  }));
  const { judgement } = judge(rollout, newJudgement(rollout), units, LATE_MS);
  const summary = summaryOf(rollout, judgement);

  it("has the figures of both arms", () => {
    const { control, treatment } = summary.arms;
    expect(control.units + treatment.units).toBe(600);
    expect([control.retriesPerUnit, treatment.retriesPerUnit]).toEqual([2, 0]);
    expect(control.retriesPerMinute).toBeCloseTo((2 * control.units) / ((599_000 + HORIZON_MS) / 60_000));
    expect(control.latencyMs?.p50).toBeGreaterThan(140);
    expect(control.latencyMs?.p95).toBeLessThan(205);
    expect(control.latencyMs?.intervals.p50?.low).toBeLessThan(150);
    expect(control.firstRetrySuccess).toBeNull();
    expect(control.admissionWaitMs).toBeNull();
  });

  it("expects a proof, with its time", () => {
    expect(summary.decision?.kind).toBe("proved");
    expect(summary.decision?.inMs).toBeGreaterThan(0);
    expect(summary.decision?.inMs).toBeLessThan(3_600_000);
  });

  it("expects nothing before the first block", () => {
    const empty = summaryOf(rollout, newJudgement(rollout));
    expect(empty).toMatchObject({ decision: null, eValue: 1, eValueLimit: 100, blocks: 0 });
    expect(empty.arms.control).toMatchObject({ units: 0, retriesPerUnit: null, latencyMs: null });
  });

  it("has the figures of both arms over time, with intervals once there are enough units", () => {
    const { points } = summary.series;
    const [first, last] = [points[0]!.arms!, points.at(-1)!.arms!];
    expect([unpack(last.control.lockWait!).p95, unpack(last.treatment.lockWait!).p95]).toEqual([
      summary.arms.control.lockWaitMs?.p95,
      summary.arms.treatment.lockWaitMs?.p95,
    ]);
    expect(last.treatment.retriesPerMinute).toBe(0);
    expect(last.control.retriesPerMinute).toBeGreaterThan(0);
    expect(unpack(first.control.latency!).intervals.p99).toBeNull();
    const { p50, intervals } = unpack(last.control.latency!);
    expect(intervals.p50!.low).toBeLessThan(p50);
    expect(intervals.p50!.high).toBeGreaterThan(p50);
  });

  it("has a bounded series that ends with the latest blocks", () => {
    const many = unitsOf(rolloutWith({ alpha: 1e-9 }), 5_000, 2, () => ({ latencies: [1], waits: [1] }));
    const long = judge(rollout, newJudgement(rollout), many, LATE_MS).judgement;
    const { points, stride } = long.series;
    expect(points.length).toBeLessThan(200);
    expect(points.length).toBeGreaterThanOrEqual(100);
    expect(points.at(-1)!.units).toBeGreaterThan(5_000 - 8 * stride);
    expect(points.every(({ atMs }, at) => at === 0 || atMs > points[at - 1]!.atMs)).toBe(true);
    expect(points.every(({ units, arms }) => units === arms!.control.units + arms!.treatment.units)).toBe(true);
  });
});

describe("safety stop", () => {
  const stop = (control: number, treatment: number, share = 0.1, policyErrors = 0) =>
    safetyStop({ shares: [share], stage: 0, alpha: 0.01 }, { deadUnits: { control, treatment }, policyErrors });

  it("needs enough dead units in treatment for the share, and none in control", () => {
    expect(stop(0, 0)).toBeNull();
    expect(stop(0, 1)).toBeNull();
    expect(stop(0, 2)).toBe("dead letters by an exhausted budget: 2 treatment units, no control unit");
    expect(stop(1, 50)).toBeNull();
    expect(stop(0, 6, 0.5)).toBeNull();
    expect(stop(0, 7, 0.5)).not.toBeNull();
  });

  it("uses the largest share so far", () => {
    const ramp = { shares: [0.1, 0.5, 0.9], alpha: 0.01 };
    const deaths = { deadUnits: { control: 0, treatment: 3 }, policyErrors: 0 };
    expect(safetyStop({ ...ramp, stage: 0 }, deaths)).not.toBeNull();
    expect(safetyStop({ ...ramp, stage: 1 }, deaths)).toBeNull();
  });

  it("stops at the first error of the policy", () => {
    expect(stop(0, 0, 0.1, 1)).toBe("the treatment policy failed 1 times");
  });
});
