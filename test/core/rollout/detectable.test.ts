import { describe, expect, it } from "vitest";
import {
  type DetectableRequest,
  detectableDifference,
  detectableEffects,
} from "../../../src/core/rollout/detectable.ts";
import { defaultGates } from "../../../src/core/rollout/gate.ts";
import { judge, newJudgement } from "../../../src/core/rollout/judgement.ts";
import type { SeededRandom } from "../../../src/sim/random.ts";
import { LATE_MS, rolloutWith, unitsOf } from "./fixtures.ts";

const request = (given: Partial<DetectableRequest> = {}): DetectableRequest => ({
  ...{ gates: defaultGates("lock_busy"), share: 0.1, alpha: 0.01, units: 15_000 },
  ...given,
});
const difference = (given: Partial<DetectableRequest>) => detectableDifference(request(given)) ?? Number.NaN;

describe("the smallest detectable effect", () => {
  it("shrinks with more units, a larger error probability and a more even share", () => {
    expect(difference({ units: 30_000 })).toBeLessThan(difference({}));
    expect(difference({ alpha: 0.1 })).toBeLessThan(difference({}));
    expect(difference({ share: 0.5 })).toBeLessThan(difference({}));
    expect(difference({ share: 0.01 })).toBeGreaterThan(difference({}));
  });

  it("is none when the rollout ends before the first blocks", () => {
    expect(detectableDifference(request({ units: 100 }))).toBeNull();
    expect(detectableEffects(request({ units: 300 })).map(({ ratio }) => ratio)).toEqual([null, null, null]);
  });

  it("is beyond the ratio of the gate", () => {
    const gates = [
      { metric: "lock_busy_retries", ratio: 1 },
      { metric: "job_result_latency_p95", ratio: 1.1 },
      { metric: "first_retry_success", ratio: 0.9 },
      { metric: "results", ratio: 0.9 },
      { metric: "dead_letters", ratio: 1 },
    ] as const;
    const [retries, latency, success, results, dead] = detectableEffects(request({ gates }));
    expect(retries?.ratio).toBeGreaterThan(1);
    expect(latency?.ratio).toBeGreaterThan(1.1);
    expect(latency?.ratio).toBeLessThan(1.5);
    expect(success?.ratio).toBeLessThan(0.9);
    expect(results?.ratio).toBeLessThan(0.9);
    expect(dead).toEqual({ gate: "dead_letters<=1.0x", ratio: null });
  });

  it("is detected in most rollouts, and a quarter of it is not", () => {
    const given = { share: 0.5, units: 2_000 };
    const gates = defaultGates("lock_busy");
    const ratio = detectableEffects(request(given))[2]!.ratio!;
    const durations = (random: SeededRandom, factor: number) => {
      const level = 0.5 + random.next();
      return Array.from({ length: 6 }, () => -1_000 * factor * level * Math.log(1 - random.next()));
    };
    const breaches = (factor: number) =>
      Array.from({ length: 25 }, (_, seed) => {
        const rollout = rolloutWith({ salt: `s${seed}`, shares: [given.share], gates });
        const units = unitsOf(rollout, given.units, seed, (arm, random) => ({
          latencies: durations(random, arm === "treatment" ? factor : 1),
          waits: [1],
        }));
        return judge(rollout, newJudgement(rollout), units, LATE_MS).verdict.kind;
      }).filter((kind) => kind === "breach").length;
    expect(breaches(ratio)).toBeGreaterThanOrEqual(20);
    expect(breaches(1.1 + (ratio - 1.1) / 4)).toBeLessThanOrEqual(12);
  });
});
