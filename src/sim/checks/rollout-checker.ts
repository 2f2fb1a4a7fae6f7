import type { Arms } from "../../core/model/arms.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { RUNS, type Run } from "../../core/model/run.ts";
import { armOf } from "../../core/rollout/arm.ts";
import { canMove, isRolloutActive, isRolloutRecord, ROLLOUTS, type Rollout } from "../../core/rollout/rollout.ts";
import { unitKindOf } from "../../core/rollout/subject.ts";
import type { Change } from "../../ports/store.ts";
import type { TableWrite } from "../adapters/memory-store.ts";
import { serverNow } from "../adapters/net.ts";
import type { SimNet } from "../adapters/world.ts";
import { clockToleranceMs } from "../faults.ts";
import type { Plan } from "../workload/plan.ts";
import type { Violations } from "./violations.ts";

/** Checks rollouts, arms, the policies that units use, and measures at the instant of each commit. */
export class RolloutChecker {
  readonly #net: SimNet;
  readonly #violations: Violations;
  readonly #toleranceMs: number;
  readonly #rollouts = new Map<string, Rollout>();
  /** When a rollout left its active states. */
  readonly #stoppedMs = new Map<string, number>();
  /** Values that were promoted at any time. */
  readonly #promoted = new Set<string>();

  constructor(net: SimNet, plan: Plan, violations: Violations) {
    this.#net = net;
    this.#violations = violations;
    this.#toleranceMs = clockToleranceMs(plan.faults.process);
    if (plan.rollouts.length === 0) return;
    const { store } = net;
    store.observeTable(ROLLOUTS, (write) => {
      if (isRolloutRecord(write.id)) this.#checkRollout(write);
    });
    store.observeTable(JOBS, (write) => this.#checkJob(write));
    store.observe((change, before) => {
      for (const [index, { table, id, value }] of change.puts.entries()) {
        if (table !== RUNS.name || value === null) continue;
        const earlier = (before[index]?.value ?? null) as Run | null;
        this.#checkArms(id, earlier, value as Run);
        if (earlier !== null) this.#checkMeasures(change, before, earlier, value as Run);
      }
    });
  }

  #checkRollout({ id, before, after }: TableWrite<Rollout>): void {
    if (after === null) return;
    this.#rollouts.set(after.id, after);
    if (!isRolloutActive(after.state) && !this.#stoppedMs.has(after.id)) {
      this.#stoppedMs.set(after.id, serverNow(this.#net));
    }
    if (after.state === "promoted") this.#promoted.add(`${after.subject} ${after.treatment}`);
    if (before && before.state !== after.state && !canMove(before.state, after.state)) {
      this.#violations.add("rollout", id, `moved from ${before.state} to ${after.state}`);
    }
    if (after.state === "promoted" && after.by === "cordum")
      this.#violations.add("rollout", id, "promoted by no person");
    const active = [...this.#rollouts.values()].filter(
      ({ subject, state }) => subject === after.subject && isRolloutActive(state),
    );
    if (active.length > 1) this.#violations.add("rollout", id, `${active.length} active rollouts of ${after.subject}`);
  }

  #checkJob({ id, before, after }: TableWrite<Job>): void {
    if (after === null) return;
    if (after.step === undefined) this.#checkArms(id, before, after);
    else if (before === null) {
      const run = this.#net.store.load(RUNS, after.step.runId)?.value;
      if (!isEqual(run?.arms, after.arms)) this.#violations.add("arm", id, "its arms are not those of its run");
    }
    if (after.wait !== null && after.wait.untilMs !== before?.wait?.untilMs) this.#checkPolicy(id, after);
  }

  /** A unit keeps its arms, and every process draws the same. */
  #checkArms(id: string, before: Run | Job | null, { arms, createdMs }: Run | Job): void {
    if (before !== null) {
      if (!isEqual(before.arms, arms)) this.#violations.add("arm", id, `arms changed to ${JSON.stringify(arms)}`);
      return;
    }
    for (const [rolloutId, { arm, stage, untilMs }] of Object.entries(arms ?? {})) {
      const rollout = this.#rollouts.get(rolloutId);
      if (rollout === undefined) {
        this.#violations.add("arm", id, `arm of the unknown rollout ${rolloutId}`);
        continue;
      }
      const { subject, shares, horizonMs } = rollout;
      const lateMs = createdMs - (this.#stoppedMs.get(rolloutId) ?? Number.POSITIVE_INFINITY);
      if (lateMs > ROLLBACK_MS + this.#toleranceMs) {
        this.#violations.add("rollback", id, `enrolled ${lateMs} ms after ${rolloutId} stopped`);
      }
      if (unitKindOf(subject) === "org") continue;
      if (untilMs !== undefined && untilMs !== createdMs + horizonMs) {
        this.#violations.add("measure", id, `measured for ${untilMs - createdMs} ms, not for ${horizonMs} ms`);
      }
      const drawn = armOf({ ...rollout, share: shares[stage] ?? 0 }, id, createdMs);
      if (arm !== drawn) this.#violations.add("arm", id, `in ${arm}, not in ${drawn}`);
    }
  }

  /** The delay of a wait is that of the unit's arm, and no treatment is used a minute after its rollout stopped. */
  #checkPolicy(id: string, { wait, arms, updatedMs }: Job): void {
    for (const rollout of this.#rollouts.values()) {
      const { subject, treatment } = rollout;
      if (wait?.retryClass !== subject || wait.setBy !== treatment) continue;
      if (this.#promoted.has(`${subject} ${treatment}`)) return;
      const treated = [...this.#rollouts.values()].filter(
        (other) => other.treatment === treatment && arms?.[other.id]?.arm === "treatment",
      );
      if (treated.length === 0) {
        this.#violations.add("arm", id, `uses ${treatment}, but is not in treatment`);
        return;
      }
      const stoppedMs = Math.max(...treated.map((other) => this.#stoppedMs.get(other.id) ?? Number.POSITIVE_INFINITY));
      if (updatedMs > stoppedMs + ROLLBACK_MS + this.#toleranceMs) {
        this.#violations.add("rollback", id, `used ${treatment} ${updatedMs - stoppedMs} ms after its rollout stopped`);
      }
    }
  }

  /** Each result is counted once, and none after the horizon. */
  #checkMeasures(
    change: Change,
    before: readonly ({ readonly value: unknown } | null)[],
    earlier: Run,
    run: Run,
  ): void {
    for (const [rolloutId, { untilMs }] of Object.entries(run.arms ?? ({} as Arms))) {
      if (untilMs === undefined) continue;
      const counted = countOf(run, rolloutId) - countOf(earlier, rolloutId);
      const results = resultsIn(change, before, run.id);
      const late = results.filter(({ updatedMs }) => updatedMs > untilMs).length;
      const [min, max] = [change.atMs <= untilMs ? results.length : 0, results.length - late];
      if (counted >= min && counted <= max) continue;
      const hint = `${counted} results counted for ${rolloutId}, of ${results.length} of which ${late} are late`;
      this.#violations.add("measure", run.id, hint);
    }
  }
}

const countOf = ({ measures }: Run, rolloutId: string): number => measures?.[rolloutId]?.latenciesMs.count ?? 0;

/** Jobs of the run whose workers succeed with this commit. */
function resultsIn(
  change: Change,
  before: readonly ({ readonly value: unknown } | null)[],
  runId: string,
): readonly Job[] {
  return change.puts.flatMap(({ table, value }, index) => {
    const job = value as Job | null;
    const earlier = (before[index]?.value ?? null) as Job | null;
    if (table !== JOBS.name || job?.step?.runId !== runId || job.step.kind !== "worker") return [];
    const hasEnded = earlier !== null && !isFinal(earlier.state) && job.state === "SUCCEEDED";
    return hasEnded && earlier.dispatchedMs !== null ? [job] : [];
  });
}

const isEqual = (a: Arms | undefined, b: Arms | undefined): boolean => JSON.stringify(a) === JSON.stringify(b);

const ROLLBACK_MS = 60_000;
