import type { Placement, Table } from "../model/table.ts";
import type { Arm } from "./arm.ts";
import type { Gate } from "./gate.ts";
import type { RolloutSubject } from "./subject.ts";

/**
 * A rollout of a retry policy or of a run-lock setting: a share of the units uses the treatment value, the others the
 * setting in force.
 *
 * 1. `ROLLOUT_MOVES` is the only list of legal transitions. At most one active rollout exists per subject.
 * 2. The control plane itself only aborts (`rolled_back`, `ended`) or reports (`proved`). Promotion is a person's action.
 * 3. The treatment value applies while the rollout is `running`, `paused` or `proved` to treatment units, and to every
 *    unit once it is `promoted`.
 */
export const ROLLOUT_MOVES = {
  running: ["paused", "proved", "rolled_back", "promoted", "ended"],
  /** No new units are enrolled. Enrolled units keep their arm and are still measured and judged. */
  paused: ["running", "proved", "rolled_back", "promoted", "ended"],
  /** Every gate is proved. Units are still enrolled, and a later breach still rolls back. */
  proved: ["paused", "rolled_back", "promoted", "ended"],
  /** The treatment value is in force for all units, until it is rolled back. */
  promoted: ["rolled_back"],
  rolled_back: [],
  ended: [],
} as const satisfies Record<string, readonly string[]>;

export type RolloutState = keyof typeof ROLLOUT_MOVES;
export const isRolloutActive = (state: RolloutState): boolean =>
  state === "running" || state === "paused" || state === "proved";

export interface Rollout {
  /** `R1`, `R2`, … */
  readonly id: string;
  readonly subject: RolloutSubject;
  /** The treatment value in config syntax: a policy, a number of milliseconds, `true` or `false`. */
  readonly treatment: string;
  /** The value that was in force when the rollout started; shown, not enforced. */
  readonly control: string;
  /** Random text; the arm of a unit is a hash of it and the unit. */
  readonly salt: string;
  /** Ramp of treatment shares, each in (0, 1). */
  readonly shares: readonly number[];
  /** Index into `shares`. */
  readonly stage: number;
  /** Share of the units that are measured, so that the cost of judging is bounded; in (0, 1]. */
  readonly measuredShare: number;
  /** Tenants that take part; empty: all. */
  readonly orgs: readonly string[];
  readonly gates: readonly Gate[];
  /** A unit is scored by what happened within this time of its start. */
  readonly horizonMs: number;
  /** The rollout ends unproved at this time. */
  readonly endsMs: number;
  /** Arms alternate in time blocks of this length; null: by unit. */
  readonly switchMs: number | null;
  /** Error probability of the whole rollout. */
  readonly alpha: number;
  readonly state: RolloutState;
  readonly startedBy: string;
  readonly startedMs: number;
  readonly updatedMs: number;
  /** The latest transition: who, and why (for a breach: gate, figures and e-value). */
  readonly by: string;
  readonly reason: string;
  /** What the recorded contention predicted at the start; null without a record of contention. */
  readonly prediction: RolloutPrediction | null;
}

/** Figures of one policy on recorded contention. */
export interface PredictedFigures {
  readonly policy: string;
  readonly busyRetries: number;
  readonly firstRetrySuccess: number | null;
  readonly waitMs: Quantiles;
  readonly latencyMs: Quantiles;
}

export interface Quantiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

export interface RolloutPrediction {
  readonly fromMs: number;
  readonly toMs: number;
  readonly acquisitions: number;
  readonly control: PredictedFigures;
  readonly treatment: PredictedFigures;
}

export const ROLLOUTS: Table<Rollout> = {
  name: "rollout",
  placement: ({ subject, state, startedMs }): Placement => ({
    lists: [
      { name: ROLLOUTS_LIST, score: startedMs },
      ...(isRolloutActive(state) || state === "promoted" ? [{ name: ROLLOUTS_IN_FORCE_LIST, score: startedMs }] : []),
    ],
    queue: null,
    counters: isRolloutActive(state) ? [activeRolloutsOf(subject)] : [],
    dueMs: null,
  }),
};

export const ROLLOUTS_LIST = "rollouts";
/** Rollouts that change the behaviour of some units: active or promoted. Every process keeps a copy. */
export const ROLLOUTS_IN_FORCE_LIST = "rollouts/in_force";
/** At most 1: a guard of the commit that starts a rollout. */
export const activeRolloutsOf = (subject: RolloutSubject) => ({ group: "rollouts", name: subject });

/** Arms of a unit by rollout id, stored on the run or job when it is created. */
export type Arms = Readonly<Record<string, EnrolledArm>>;

export interface EnrolledArm {
  readonly arm: Arm;
  /** Not every unit is measured (`measuredShare`). */
  readonly isMeasured: boolean;
  /** The stage whose share decided the arm. */
  readonly stage: number;
}

/** Measured units of a rollout by start time. Runs and jobs have separate lists, because they are separate tables. */
export const unitsOf = (rolloutId: string): string => `rollout/${rolloutId}/units`;
/** Dead letters by an exhausted budget, by arm. */
export const budgetDeathsOf = (rolloutId: string, arm: Arm) => ({ group: `rollout/${rolloutId}/dead`, name: arm });
