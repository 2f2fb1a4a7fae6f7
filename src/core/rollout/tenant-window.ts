/**
 * The units of a rollout of `admission.polled.policy`: a tenant during one window, which is as long as the horizon.
 *
 * 1. All starts of a tenant in a window have one arm, because they compete for one lock. They are one unit: their waits are
 *    not independent.
 * 2. Arms of different windows are independent draws. The waits of a tenant may be correlated over any number of windows:
 *    the judgement needs random arms, not independent units (`judgement.ts`, 1).
 * 3. A window begins under the lock of the one before. Starts wait `max_wait_ms` at most, so those in the first and in the
 *    last `max_wait_ms` of a window are not measured: each measured start competes with starts of its own window only, and
 *    its wait ends in it.
 */
import type { Arms, EnrolledArm, Measures } from "../model/arms.ts";
import { armOf } from "./arm.ts";
import { NO_MEASURE, observe, type UnitMeasure } from "./measure.ts";
import type { Rollout } from "./rollout.ts";
import type { MeasuredUnit } from "./score.ts";

/** Where the window of a time begins. */
export const windowOf = (ms: number, windowMs: number): number => Math.floor(ms / windowMs) * windowMs;

/** The arm of a tenant's start at `nowMs`. */
export function tenantArm(
  rollout: Pick<Rollout, "salt" | "shares" | "stage" | "stagedMs" | "startedMs" | "switchMs" | "horizonMs">,
  org: string,
  nowMs: number,
  maxWaitMs: number,
): EnrolledArm {
  const { salt, shares, switchMs, horizonMs, stagedMs, startedMs } = rollout;
  const startMs = windowOf(nowMs, horizonMs);
  const untilMs = startMs + horizonMs;
  const knownMs = startMs - KNOWN_MS;
  const stage = stagedMs > knownMs ? Math.max(0, rollout.stage - 1) : rollout.stage;
  const arm = armOf({ salt, share: shares[stage] ?? 0, switchMs }, unitId(org, startMs, horizonMs), startMs);
  const isMeasured = startedMs <= knownMs && nowMs >= startMs + maxWaitMs && nowMs < untilMs - maxWaitMs;
  return isMeasured ? { arm, stage, untilMs } : { arm, stage };
}

/** A run with the arms that it was admitted with. */
export interface AdmittedRun {
  readonly org: string;
  readonly createdMs: number;
  readonly arms?: Arms;
  readonly measures?: Measures;
}

/** The units of some windows, in the order of the runs. `runs`: all measured ones that were created in these windows. */
export function tenantUnits(
  { id: rolloutId, horizonMs }: Pick<Rollout, "id" | "horizonMs">,
  runs: readonly AdmittedRun[],
): readonly MeasuredUnit[] {
  const units = new Map<string, MeasuredUnit>();
  for (const { org, createdMs, arms, measures } of runs) {
    const own = arms?.[rolloutId];
    if (own?.untilMs === undefined) continue;
    const startMs = own.untilMs - horizonMs;
    // Stored after its window, which may be judged by now.
    if (createdMs >= own.untilMs) continue;
    const id = unitId(org, startMs, horizonMs);
    const known = units.get(id);
    const measure = withAdmissions(known?.measure ?? NO_MEASURE, measures?.[rolloutId]);
    units.set(id, { id, startMs, arm: own.arm, stage: own.stage, deadByBudget: 0, measure });
  }
  return [...units.values()];
}

/** What the admitted run does later is not an effect of its admission. */
function withAdmissions(measure: UnitMeasure, added: UnitMeasure | undefined): UnitMeasure {
  const waits = added?.admissionWaitsMs.values ?? [];
  return waits.reduce((sum, waitedMs) => observe(sum, { kind: "admitted", waitedMs }), measure);
}

const unitId = (org: string, startMs: number, windowMs: number): string => `${org}@${startMs / windowMs}`;

/** Every process that applies a treatment knows a start or a new stage of a rollout after this time. */
export const KNOWN_MS = 45_000;
