import type { Arms, EnrolledArm } from "../../core/model/arms.ts";
import { type Arm, armOf, isMeasured } from "../../core/rollout/arm.ts";
import { MeasuredUnits } from "../../core/rollout/measured-units.ts";
import { isRolloutActive, type Rollout } from "../../core/rollout/rollout.ts";
import { type UnitKind, unitKindOf, withValue } from "../../core/rollout/subject.ts";
import { KNOWN_MS, tenantArm } from "../../core/rollout/tenant-window.ts";
import type { LiveSettings, Settings } from "../../core/settings.ts";
import type { Labels } from "../../ports/metrics.ts";
import type { World } from "../../ports/world.ts";

/** Settings in force, with the values of rollouts. */
export interface UnitSettings extends LiveSettings {
  /** The configuration with promoted values: for work that belongs to no unit, and for units without arms. */
  readonly current: Settings;
  /** The settings of a unit with these arms. */
  for(arms: Arms | undefined): Settings;
  /** Metric labels with `arm` if the unit takes part in an active rollout: `treatment` if it is treated in any of them. */
  labelled(labels: Labels, arms: Arms | undefined): Labels;
}

/**
 * This process's copy of the rollouts in force.
 *
 * 1. The copy is read with the pools: on a change broadcast and every few seconds (`workers/worker-pools.ts`).
 * 2. A copy older than `KNOWN_MS` applies no treatment and enrols no unit, so a process that cannot read the store or was
 *    suspended does not use a treatment that was rolled back a minute ago.
 * 3. Arms are decided once, when a unit is created, and stored with it. A unit of a rollout that is not in force uses the
 *    settings of the control arm.
 * 4. Without rollouts in force every method returns after one comparison and allocates nothing.
 */
export class RolloutRegistry implements UnitSettings {
  readonly #base: LiveSettings;
  readonly #world: Pick<World, "clock" | "log">;
  readonly #listeners = new Set<() => void>();
  /** In order of promotion: the last one wins. */
  #promoted: readonly Rollout[] = NONE;
  #active: readonly Rollout[] = NONE;
  #enrolling: readonly Rollout[] = NONE;
  #readMs = Number.NEGATIVE_INFINITY;
  readonly #measured = new MeasuredUnits();
  #derived: DerivedSettings | null = null;

  constructor(base: LiveSettings, world: Pick<World, "clock" | "log">) {
    this.#base = base;
    this.#world = world;
  }

  get current(): Settings {
    const base = this.#base.current;
    return this.#promoted.length === 0 ? base : this.#derivedFrom(base).control;
  }

  for(arms: Arms | undefined): Settings {
    if (arms === undefined || this.#active.length === 0) return this.current;
    let treated = 0;
    for (const [at, { id }] of this.#active.entries()) if (arms[id]?.arm === "treatment") treated |= 1 << at;
    return treated === 0 || !this.#isFresh ? this.current : this.#derivedFrom(this.#base.current).of(treated);
  }

  labelled(labels: Labels, arms: Arms | undefined): Labels {
    if (arms === undefined || this.#active.length === 0) return labels;
    let arm: Arm | undefined;
    for (const { id } of this.#active) {
      const own = arms[id]?.arm;
      if (own !== undefined && arm !== "treatment") arm = own;
    }
    return arm === undefined ? labels : { ...labels, arm };
  }

  /** Rollouts that are running, paused or proved. */
  get active(): readonly Rollout[] {
    return this.#active;
  }

  /** Promoted rollouts; the last one of a subject is in force. */
  get promoted(): readonly Rollout[] {
    return this.#promoted;
  }

  /** Rollouts whose treatment value this process cannot apply, with the error. */
  get broken(): readonly (readonly [rollout: Rollout, error: string])[] {
    if (this.#active.length === 0) return NONE;
    return this.#derivedFrom(this.#base.current).broken;
  }

  /** The arms of a new run. */
  enrolRun(org: string, runId: string, nowMs: number): Arms | undefined {
    return this.#enrolling.length === 0 ? undefined : this.#enrol(RUN_KINDS, org, runId, nowMs);
  }

  /** The arms of a new job without a run. */
  enrolJob(org: string, jobId: string, nowMs: number): Arms | undefined {
    return this.#enrolling.length === 0 ? undefined : this.#enrol(JOB_KINDS, org, jobId, nowMs);
  }

  /** The arms of a tenant at its polled admission lock. They are stored with the run that is admitted. */
  enrolOrg(org: string): Arms | undefined {
    return this.#enrolling.length === 0 ? undefined : this.#enrol(ORG_KINDS, org, org, this.#world.clock.now());
  }

  /** No rollout is in force. */
  get isEmpty(): boolean {
    return this.#active.length + this.#promoted.length === 0;
  }

  /** Replaces the copy. `readMs`: when the read began; null: not known, the copy counts as old. */
  apply(inForce: readonly Rollout[], readMs: number | null): void {
    if (inForce.length === 0 && this.isEmpty) return;
    this.#readMs = readMs ?? Number.NEGATIVE_INFINITY;
    const sorted = [...inForce].sort((a, b) => a.updatedMs - b.updatedMs || (a.id < b.id ? -1 : 1));
    this.#promoted = sorted.filter(({ state }) => state === "promoted");
    this.#active = sorted.filter(({ state }) => isRolloutActive(state)).slice(0, ACTIVE_MAX);
    this.#enrolling = this.#active.filter(({ state }) => state !== "paused");
    this.#derived = null;
    for (const listener of this.#listeners) listener();
  }

  /** Called after every read while rollouts are or were in force. */
  onApply(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get #isFresh(): boolean {
    return Math.abs(this.#world.clock.now() - this.#readMs) < KNOWN_MS;
  }

  #enrol(kinds: readonly UnitKind[], org: string, unit: string, nowMs: number): Arms | undefined {
    if (!this.#isFresh) return undefined;
    let arms: Record<string, EnrolledArm> | undefined;
    let measuredShare: number | undefined;
    for (const rollout of this.#enrolling) {
      const { id, subject, orgs, endsMs } = rollout;
      if (!kinds.includes(unitKindOf(subject)) || nowMs >= endsMs) continue;
      if (orgs.length > 0 && !orgs.includes(org)) continue;
      arms ??= {};
      if (kinds === ORG_KINDS) {
        arms[id] = tenantArm(rollout, org, nowMs, this.current.admission.polled.maxWaitMs);
        continue;
      }
      measuredShare ??= this.#measured.shareAt(nowMs);
      arms[id] = enrolled(rollout, unit, nowMs, measuredShare);
    }
    return arms;
  }

  #derivedFrom(base: Settings): DerivedSettings {
    if (this.#derived?.base !== base) {
      this.#derived = new DerivedSettings(base, this.#promoted, this.#active, (rollout, error) =>
        this.#world.log.write("error", "rollout_value_invalid", { rollout: rollout.id, error }),
      );
    }
    return this.#derived;
  }
}

function enrolled(rollout: Rollout, unit: string, nowMs: number, measuredShare: number): EnrolledArm {
  const { salt, shares, stagedMs, switchMs, horizonMs } = rollout;
  // A clock that is behind that of the process which began the stage.
  const stage = nowMs < stagedMs ? Math.max(0, rollout.stage - 1) : rollout.stage;
  const arm = armOf({ salt, share: shares[stage] ?? 0, switchMs }, unit, nowMs);
  return isMeasured({ salt }, unit, measuredShare) ? { arm, stage, untilMs: nowMs + horizonMs } : { arm, stage };
}

/** Settings for each combination of treatments, built on first use. */
class DerivedSettings {
  readonly base: Settings;
  /** The base with promoted values. */
  readonly control: Settings;
  readonly broken: readonly (readonly [rollout: Rollout, error: string])[];
  readonly #active: readonly Rollout[];
  readonly #byTreated = new Map<number, Settings>();

  constructor(
    base: Settings,
    promoted: readonly Rollout[],
    active: readonly Rollout[],
    onError: (rollout: Rollout, error: string) => void,
  ) {
    this.base = base;
    this.#active = active;
    const broken: (readonly [Rollout, string])[] = [];
    let control = base;
    for (const rollout of promoted) {
      const applied = applyValue(control, rollout);
      if (typeof applied === "string") onError(rollout, applied);
      else control = applied;
    }
    for (const rollout of active) {
      const applied = applyValue(control, rollout);
      if (typeof applied === "string") broken.push([rollout, applied]);
    }
    this.control = control;
    this.broken = broken;
  }

  /** `treated`: bit n is set if the unit is in the treatment arm of the nth active rollout. */
  of(treated: number): Settings {
    const known = this.#byTreated.get(treated);
    if (known !== undefined) return known;
    let settings = this.control;
    for (const [at, rollout] of this.#active.entries()) {
      if ((treated & (1 << at)) === 0) continue;
      const applied = applyValue(settings, rollout);
      if (typeof applied !== "string") settings = applied;
    }
    this.#byTreated.set(treated, settings);
    return settings;
  }
}

/** A text is the error of a value that this version cannot apply. */
function applyValue(settings: Settings, { subject, treatment }: Rollout): Settings | string {
  try {
    return withValue(settings, subject, treatment);
  } catch (error) {
    return String(error);
  }
}

const RUN_KINDS: readonly UnitKind[] = ["run_or_job", "run"];
const JOB_KINDS: readonly UnitKind[] = ["run_or_job"];
const ORG_KINDS: readonly UnitKind[] = ["org"];
const NONE: readonly never[] = [];
/** One per subject; there are fewer subjects. */
const ACTIVE_MAX = 30;
