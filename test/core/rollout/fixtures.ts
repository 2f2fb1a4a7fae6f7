import { armOf } from "../../../src/core/rollout/arm.ts";
import { defaultGates } from "../../../src/core/rollout/gate.ts";
import { NO_MEASURE, type UnitMeasure } from "../../../src/core/rollout/measure.ts";
import type { Rollout } from "../../../src/core/rollout/rollout.ts";
import type { MeasuredUnit } from "../../../src/core/rollout/score.ts";
import { SeededRandom } from "../../../src/sim/random.ts";

export const HORIZON_MS = 60_000;
export const LATE_MS = 1e12;

export const rolloutWith = (given: Partial<Rollout> = {}): Rollout => ({
  id: "R1",
  subject: "lock_busy",
  treatment: "bounded:500ms:0.3",
  control: "fixed:500ms",
  salt: "salt",
  shares: [0.5],
  stage: 0,
  orgs: [],
  gates: defaultGates("lock_busy"),
  horizonMs: HORIZON_MS,
  endsMs: LATE_MS,
  switchMs: null,
  alpha: 0.01,
  state: "running",
  startedBy: "ann",
  startedMs: 0,
  stagedMs: 0,
  updatedMs: 0,
  by: "ann",
  reason: "",
  prediction: null,
  ...given,
});

export interface Observed {
  readonly waits?: readonly number[];
  readonly latencies?: readonly number[];
  readonly retries?: number;
}

export function measureOf({ waits = [], latencies = [], retries = 0 }: Observed): UnitMeasure {
  const sample = (values: readonly number[]) => ({ count: values.length, values });
  return { ...NO_MEASURE, busyRetries: retries, lockWaitsMs: sample(waits), latenciesMs: sample(latencies) };
}

/** Units of a rollout whose arms are drawn as in production, one a second. `observe` gets a source of its own per unit. */
export function unitsOf(
  rollout: Rollout,
  count: number,
  seed: number,
  observed: (arm: MeasuredUnit["arm"], random: SeededRandom, at: number) => Observed,
): readonly MeasuredUnit[] {
  const random = new SeededRandom(seed, "units");
  return Array.from({ length: count }, (_, at) => {
    const startMs = 1_000 * at;
    const id = `u${seed}-${String(at).padStart(6, "0")}`;
    const arm = armOf({ ...rollout, share: rollout.shares[rollout.stage]! }, id, startMs);
    return { id, startMs, arm, stage: rollout.stage, measure: measureOf(observed(arm, random, at)), deadByBudget: 0 };
  });
}

/** Latencies with a heavy tail that the observations of one unit share. */
export function correlated(random: SeededRandom, factor = 1): Observed {
  const level = Math.exp(1.2 * (random.next() + random.next() + random.next() - 1.5));
  const count = 1 + Math.floor(10 * random.next());
  const latencies = Array.from({ length: count }, () => 500 * factor * level * (0.5 + random.next()));
  return { latencies, waits: latencies, retries: Math.floor(3 * level * factor * random.next()) };
}
