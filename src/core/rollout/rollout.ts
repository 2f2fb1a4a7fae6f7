import { POOLS, POOLS_LIST } from "../model/kill-switch.ts";
import type { CounterName, Placement, Table } from "../model/table.ts";
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
/** Changes the behaviour of some units. */
export const isRolloutInForce = (state: RolloutState): boolean => isRolloutActive(state) || state === "promoted";

/** Values of `cordum_rollout_state`. */
export const ROLLOUT_LEVEL: Readonly<Record<RolloutState, number>> = {
  running: 1,
  paused: 2,
  proved: 3,
  promoted: 4,
  rolled_back: 5,
  ended: 6,
};

export const canMove = (from: RolloutState, to: RolloutState): boolean =>
  (ROLLOUT_MOVES[from] as readonly RolloutState[]).includes(to);

/** Null if the transition is not legal. */
export function moveRollout(
  rollout: Rollout,
  to: RolloutState,
  { by, reason, nowMs }: { readonly by: string; readonly reason: string; readonly nowMs: number },
): Rollout | null {
  return canMove(rollout.state, to) ? { ...rollout, state: to, by, reason, updatedMs: nowMs } : null;
}

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
  /** Start of the current stage. */
  readonly stagedMs: number;
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

/**
 * A rollout shares the table of pools and kill switches while it is in force (active or promoted), because every process
 * polls these in one read.
 */
export const ROLLOUTS: Table<Rollout> = {
  name: POOLS.name,
  placement: ({ subject, state, startedMs }): Placement => ({
    lists: [
      { name: ROLLOUTS_LIST, score: startedMs },
      ...(isRolloutInForce(state) ? [{ name: POOLS_LIST, score: startedMs }] : []),
    ],
    queue: null,
    counters: isRolloutActive(state) ? [activeRolloutsOf(subject)] : state === "promoted" ? [PROMOTED] : [],
    dueMs: null,
  }),
};

/** Neither a valid pool name nor the id of a kill switch. */
export const rolloutRecordId = (id: string): string => `${PREFIX}${id}`;
export const isRolloutRecord = (recordId: string): boolean => recordId.startsWith(PREFIX);

export const ROLLOUTS_LIST = "rollouts";
/** At most 1: a guard of the commit that starts a rollout. */
export const activeRolloutsOf = (subject: RolloutSubject): CounterName => ({ group: "rollouts", name: subject });
/** At most `PROMOTED_MAX`, so that the records in force fit into one read. */
export const PROMOTED: CounterName = { group: "rollouts", name: "promoted" };
export const PROMOTED_MAX = 50;

const PREFIX = "rollout:";
