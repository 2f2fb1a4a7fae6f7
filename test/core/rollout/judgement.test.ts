import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { eValueOf } from "../../../src/core/rollout/e-value.ts";
import {
  blockSizeOf,
  breachEValue,
  type Judgement,
  judge,
  newJudgement,
  verdictOf,
  WINDOW_UNITS,
} from "../../../src/core/rollout/judgement.ts";
import type { Rollout } from "../../../src/core/rollout/rollout.ts";
import type { MeasuredUnit } from "../../../src/core/rollout/score.ts";
import { summaryOf } from "../../../src/core/rollout/summary.ts";
import { correlated, HORIZON_MS, LATE_MS, measureOf, rolloutWith, unitsOf } from "./fixtures.ts";

const judgeAll = (rollout: Rollout, units: readonly MeasuredUnit[]) =>
  judge(rollout, newJudgement(rollout), units, LATE_MS);

const scaled = (unit: MeasuredUnit, factor: number): MeasuredUnit => {
  const { measure } = unit;
  const times = (values: readonly number[]) => values.map((value) => value * factor);
  return {
    ...unit,
    measure: {
      ...measure,
      busyRetries: measure.busyRetries * factor,
      lockWaitsMs: { ...measure.lockWaitsMs, values: times(measure.lockWaitsMs.values) },
      latenciesMs: { ...measure.latenciesMs, values: times(measure.latenciesMs.values) },
    },
  };
};

const onTreatment = (units: readonly MeasuredUnit[], change: (unit: MeasuredUnit) => MeasuredUnit) =>
  units.map((unit) => (unit.arm === "treatment" ? change(unit) : unit));

describe("a hand-computed judgement", () => {
  const rollout = rolloutWith({ gates: [{ metric: "lock_busy_retries", ratio: 2 }] });
  const unit = (at: number, arm: MeasuredUnit["arm"], retries: number): MeasuredUnit => ({
    ...{ id: `u${String(at).padStart(4, "0")}`, startMs: at, arm, stage: 0, deadByBudget: 0 },
    measure: measureOf({ latencies: [10], retries }),
  });
  // The window: 100 control units with 4 retries, so the cap is 4.
  const window = Array.from({ length: WINDOW_UNITS }, (_, at) => unit(at, "control", 4));
  // Scores of treatment: 4/2/4 and (capped) 10/2/4 → 1; of control: 1/4 and 0.
  const block = [
    unit(100, "treatment", 4),
    unit(101, "control", 1),
    unit(102, "control", 0),
    unit(103, "treatment", 10),
  ];

  it("bets the difference of the mean scores of a block", () => {
    const { judgement, verdict } = judgeAll(rollout, [...window, ...block]);
    expect(verdict).toEqual({ kind: "none" });
    const difference = (0.5 + 1) / 2 - (0.25 + 0) / 2;
    const expected = [0.02, 0.05, 0.1, 0.2, 0.4, 0.8].map((rate) => 1 + rate * difference);
    const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const [retries, results] = judgement.gates;
    expect(eValueOf(retries!.breach)).toBeCloseTo(mean(expected), 12);
    const shifted = (0.05 - difference) / 1.05;
    const proof = [0.02, 0.05, 0.1, 0.2, 0.4, 0.8].map((rate) => 1 + rate * shifted);
    expect(eValueOf(retries!.proof)).toBeCloseTo(mean(proof), 12);
    // Every unit has its usual result: 1 - 1 in treatment, 1 - 0.9 in control.
    expect(results).toMatchObject({ gate: "results>=0.9x", blocks: 1 });
    expect(summaryOf(rollout, judgement).gates[1]?.difference?.mean).toBeCloseTo(-0.1, 12);
    expect(breachEValue(judgement)).toBeCloseTo((mean(expected) + eValueOf(results!.breach)) / 2, 12);
  });

  it("gives no verdict on an incomplete block", () => {
    expect(judgeAll(rollout, [...window, ...block.slice(0, 3)]).judgement.blocks).toBe(0);
  });

  it("skips a block without both arms", () => {
    const controls = block.map((one) => ({ ...one, arm: "control" as const }));
    const { judgement } = judgeAll(rollout, [...window, ...controls]);
    expect(judgement.gates.map(({ blocks }) => blocks)).toEqual([0, 0]);
    expect(breachEValue(judgement)).toBe(1);
  });

  it("leaves units before the end of their horizon for a later call", () => {
    const all = [...window, ...block];
    const nowMs = HORIZON_MS + 102;
    const first = judge(rollout, newJudgement(rollout), all, nowMs);
    expect(first.judgement.cursor).toEqual({ startMs: 102, id: "u0102" });
    const second = judge(rollout, first.judgement, all, LATE_MS);
    expect(second).toEqual(judgeAll(rollout, all));
  });
});

describe("properties", () => {
  const seeds = {
    seed: fc.nat(1_000_000),
    count: fc.integer({ min: 0, max: 600 }),
    factor: fc.double({ min: 0.2, max: 4, noNaN: true }),
  };

  it("does not depend on how the units are split into calls", () => {
    const splits = fc.array(fc.integer({ min: 0, max: 90 }), { maxLength: 20 });
    const settings = fc.record({
      ...seeds,
      splits,
      switchMs: fc.constantFrom(null, 7_000),
      share: fc.constantFrom(0.1, 0.5, 0.8),
    });
    fc.assert(
      fc.property(settings, ({ seed, count, factor, splits, switchMs, share }) => {
        const rollout = rolloutWith({ salt: `s${seed}`, switchMs, shares: [share] });
        const units = unitsOf(rollout, count, seed, (arm, random) =>
          correlated(random, arm === "treatment" ? factor : 1),
        );
        let judgement = newJudgement(rollout);
        let at = 0;
        for (const size of [...splits, count]) {
          // The stored form, and a repeated unit after a crash between reading and storing.
          const stored: Judgement = JSON.parse(JSON.stringify(judgement));
          judgement = judge(rollout, stored, units.slice(Math.max(0, at - 1), at + size), LATE_MS).judgement;
          at += size;
        }
        expect(judgement).toEqual(judgeAll(rollout, units).judgement);
      }),
      { numRuns: 60 },
    );
  });

  it("keeps e-values finite and nonnegative and the state small", () => {
    const wild = fc.constantFrom(0, 1e-3, 1, 1e3, 1e9);
    fc.assert(
      fc.property(fc.nat(1_000_000), wild, wild, (seed, control, treatment) => {
        const rollout = rolloutWith({
          salt: `s${seed}`,
          gates: [
            ...rolloutWith().gates,
            { metric: "first_retry_success", ratio: 0.9 },
            { metric: "dead_letters", ratio: 1 },
          ],
        });
        const units = unitsOf(rollout, 1_500, seed, (arm, random) =>
          correlated(random, arm === "treatment" ? treatment : control),
        );
        const { judgement } = judgeAll(rollout, units);
        for (const { breachE, proofE } of summaryOf(rollout, judgement).gates) {
          for (const e of [breachE, proofE]) expect(Number.isFinite(e) && e >= 0).toBe(true);
        }
        expect(JSON.stringify(judgement).length).toBeLessThan(150_000);
      }),
      { numRuns: 25 },
    );
  });

  it("never finds a worse treatment better", () => {
    fc.assert(
      fc.property(fc.nat(1_000_000), fc.double({ min: 1, max: 5, noNaN: true }), (seed, factor) => {
        // Never reached: a breach would end the judgement of the worse treatment early.
        const rollout = rolloutWith({ salt: `s${seed}`, alpha: 1e-300 });
        const units = unitsOf(rollout, 400, seed, (_, random) => correlated(random));
        const better = judgeAll(rollout, units).judgement;
        const worse = judgeAll(
          rollout,
          onTreatment(units, (unit) => scaled(unit, factor)),
        ).judgement;
        for (const [at, test] of worse.gates.entries()) {
          expect(eValueOf(test.breach)).toBeGreaterThanOrEqual(eValueOf(better.gates[at]!.breach));
          expect(eValueOf(test.proof)).toBeLessThanOrEqual(eValueOf(better.gates[at]!.proof));
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe("error rates on exchangeable units whose observations are correlated", () => {
  const trials = 100;
  const breaches = (factor: number, given: Partial<Rollout>, count = 1_200) => {
    let found = 0;
    for (let seed = 0; seed < trials; seed += 1) {
      const rollout = rolloutWith({ salt: `s${seed}`, ...given });
      const units = unitsOf(rollout, count, seed, (_, random) => correlated(random));
      const treated = onTreatment(units, (unit) => scaled(unit, factor));
      if (judgeAll(rollout, treated).verdict.kind === "breach") found += 1;
    }
    return found;
  };

  it("rolls back equal arms at most as often as α", () => {
    const alpha = 0.1;
    expect(
      breaches(1, {
        alpha,
        gates: [
          { metric: "lock_busy_retries", ratio: 1 },
          { metric: "job_result_latency_p95", ratio: 1 },
        ],
      }),
    ).toBeLessThanOrEqual(trials * alpha);
  });
});

describe("stages", () => {
  const rollout = rolloutWith({ shares: [0.5, 0.25], gates: [{ metric: "lock_busy_retries", ratio: 1 }] });
  const better = (arm: MeasuredUnit["arm"]) => ({ latencies: [10], retries: arm === "treatment" ? 0 : 8 });
  const first = unitsOf(rollout, 700, 1, better);
  const second = unitsOf({ ...rollout, stage: 1 }, 700, 2, better).map((unit) => ({
    ...unit,
    startMs: unit.startMs + 1e6,
  }));

  it("restarts the proof in each stage and continues the test for a breach", () => {
    const { judgement, verdict } = judgeAll(rollout, first);
    expect(verdict.kind).toBe("proved");
    const advanced = { ...rollout, stage: 1 };
    expect(verdictOf(advanced, judgement).kind).toBe("none");
    const one = judge(advanced, judgement, second.slice(0, 1), LATE_MS);
    expect(one.verdict.kind).toBe("none");
    expect(one.judgement.gates.map(({ proof, isProved }) => [eValueOf(proof), isProved])).toEqual([
      [1, false],
      [1, false],
    ]);
    expect(one.judgement.gates.map(({ breach }) => breach)).toEqual(judgement.gates.map(({ breach }) => breach));
    expect(judge(advanced, one.judgement, second, LATE_MS).verdict.kind).toBe("proved");
  });

  it("does not score units of an earlier stage that arrive late", () => {
    const advanced = { ...rollout, stage: 1 };
    const late = first.slice(0, 300).map((unit) => ({ ...unit, id: `${unit.id}z`, startMs: unit.startMs + 2e6 }));
    const before = judge(advanced, newJudgement(rollout), [...first.slice(0, 300), ...second.slice(0, 100)], LATE_MS);
    const after = judge(advanced, before.judgement, late, LATE_MS);
    expect(after.judgement.blocks).toBe(before.judgement.blocks);
    expect(after.judgement.arms.control.units).toBeGreaterThan(before.judgement.arms.control.units);
  });

  it("uses blocks with about two units of the smaller arm", () => {
    expect([0.1, 0.3, 0.5, 0.9].map(blockSizeOf)).toEqual([20, 7, 4, 20]);
  });
});

describe("switched rollouts", () => {
  const switchMs = 30_000;

  it("counts the units of one time block as one", () => {
    const rollout = rolloutWith({ switchMs });
    const units = unitsOf(rollout, 30 * 60, 3, (_, random) => correlated(random));
    const { judgement } = judgeAll(rollout, units);
    // 60 time blocks of 30 units; the window takes at least four of them, and the last one is open.
    expect(judgement.blocks).toBeLessThanOrEqual(14);
    expect(judgement.blocks).toBeGreaterThan(8);
  });

  it("does not roll back equal arms although time blocks differ", () => {
    const alpha = 0.1;
    let found = 0;
    for (let seed = 0; seed < 60; seed += 1) {
      const rollout = rolloutWith({
        switchMs,
        alpha,
        salt: `s${seed}`,
        gates: [{ metric: "job_result_latency_p95", ratio: 1 }],
      });
      const busy = (at: number) => 1 + ((Math.floor(at / 30) * 7_919 + seed) % 13) / 4;
      const units = unitsOf(rollout, 30 * 60, seed, (_, random, at) => correlated(random, busy(at)));
      if (judgeAll(rollout, units).verdict.kind === "breach") found += 1;
    }
    expect(found).toBeLessThanOrEqual(6);
  });
});

describe("verdicts", () => {
  it("names the gate, its figures and the e-value of a breach, and keeps it", () => {
    const rollout = rolloutWith();
    const units = unitsOf(rollout, 1_000, 5, (arm) => ({
      latencies: [arm === "treatment" ? 3_000 : 1_000],
      waits: [1],
      retries: 1,
    }));
    const { judgement, verdict } = judgeAll(rollout, units);
    expect(verdict).toMatchObject({ kind: "breach", gate: "job_result_latency_p95<=1.1x" });
    expect(verdict.kind === "breach" && verdict.reason).toMatch(
      /^job_result_latency_p95 is \d+ ms in treatment and \d+ ms in control \(at most 1\.1x\); e-value \d+ ≥ 100 after \d+ treatment and \d+ control units$/,
    );
    const fast = unitsOf(rollout, 1_000, 6, () => ({ latencies: [1] })).map((unit) => ({
      ...unit,
      startMs: unit.startMs + 1e7,
    }));
    expect(judge(rollout, judgement, fast, LATE_MS).verdict).toEqual(verdict);
  });

  it("breaches when the treatment delays results beyond the horizon, although no observation is slow", () => {
    const rollout = rolloutWith();
    const parked = (arm: MeasuredUnit["arm"], random: { next(): number }) =>
      arm === "treatment"
        ? { latencies: [5], waits: [1] }
        : { latencies: [5, 500 + random.next(), 900], waits: [1, 2, 3], retries: 4 };
    const { verdict } = judgeAll(rollout, unitsOf(rollout, 1_500, 7, parked));
    expect(verdict).toMatchObject({ kind: "breach", gate: "results>=0.9x" });
  });

  it("does not prove a gate without observations", () => {
    const rollout = rolloutWith({ gates: [{ metric: "admission_wait_p95", ratio: 2 }] });
    const { judgement, verdict } = judgeAll(
      rollout,
      unitsOf(rollout, 3_000, 8, () => ({ latencies: [10] })),
    );
    expect(verdict.kind).toBe("none");
    expect(judgement.gates.map(({ isProved }) => isProved)).toEqual([false, true]);
  });
});
