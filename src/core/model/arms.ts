import type { Arm } from "../rollout/arm.ts";
import type { UnitMeasure } from "../rollout/measure.ts";
import type { CounterName, Entry } from "./table.ts";

/**
 * Arms of a unit by rollout id. They are decided when the run or job is created, stored with it, and never changed. The jobs
 * of a run carry the arms of their run.
 */
export type Arms = Readonly<Record<string, EnrolledArm>>;

export interface EnrolledArm {
  readonly arm: Arm;
  /** The stage of the rollout whose share decided the arm. */
  readonly stage: number;
  /** Start + horizon: what happens later is not measured. Absent: the unit is not measured. */
  readonly untilMs?: number;
}

/** Measures of a unit by rollout id. */
export type Measures = Readonly<Record<string, UnitMeasure>>;

/** Measured units of a rollout by start time. Runs and jobs have separate lists, because they are separate tables. */
export const unitsOf = (rolloutId: string): string => `rollout/${rolloutId}/units`;

/** The lists of a unit. */
export function unitLists(arms: Arms, createdMs: number): readonly Entry[] {
  const lists: Entry[] = [];
  for (const id in arms) if (arms[id]?.untilMs !== undefined) lists.push({ name: unitsOf(id), score: createdMs });
  return lists;
}

/** Dead letters of a rollout by an exhausted budget, by arm: their number, and the list of them. */
export const budgetDeathsGroupOf = (rolloutId: string): string => `rollout/${rolloutId}/dead`;
export const budgetDeathsOf = (rolloutId: string, arm: Arm): CounterName => ({
  group: budgetDeathsGroupOf(rolloutId),
  name: arm,
});
export const budgetDeathsIn = (rolloutId: string, arm: Arm): string => `rollout/${rolloutId}/dead/${arm}`;
