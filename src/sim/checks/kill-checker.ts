import { JOBS, type Job } from "../../core/model/job.ts";
import { EVERY_SCOPE, isKillId, KILLS, type Kill } from "../../core/model/kill-switch.ts";
import type { SimNet } from "../adapters/world.ts";
import type { Plan } from "../workload/plan.ts";
import type { Violations } from "./violations.ts";

/** Checks that kill switches stop dispatch, and that only jobs of their scopes are killed. */
export class KillChecker {
  readonly #net: SimNet;
  readonly #violations: Violations;
  /** Virtual times by scope. */
  readonly #engagedMs = new Map<string, number>();
  readonly #releasedMs = new Map<string, number>();

  constructor(net: SimNet, plan: Plan, violations: Violations) {
    this.#net = net;
    this.#violations = violations;
    if (plan.kills.length === 0) return;
    net.store.observeTable(KILLS, ({ id, before, after }) => {
      if (isKillId(id)) this.#checkKill(before, after);
    });
    net.store.observeTable(JOBS, ({ before, after }) => {
      if (after) this.#checkJob(before, after);
    });
  }

  /** Whether a kill switch stops the tenant, or did a minute ago: processes learn of a release one after another. */
  wasKilled(org: string): boolean {
    const { nowMs } = this.#net.timeline;
    return [EVERY_SCOPE, org].some((scope) => {
      const releasedMs = this.#releasedMs.get(scope);
      return this.#engagedMs.has(scope) || (releasedMs !== undefined && nowMs - releasedMs < SPREAD_MS);
    });
  }

  #checkKill(before: Kill | null, after: Kill | null): void {
    const { nowMs } = this.#net.timeline;
    if (after === null) {
      if (before === null) return;
      this.#engagedMs.delete(before.scope);
      this.#releasedMs.set(before.scope, nowMs);
    } else if (before === null) this.#engagedMs.set(after.scope, nowMs);
    else this.#violations.add("kill", after.scope, "replaced without a release");
  }

  #checkJob(before: Job | null, job: Job): void {
    if (isKilled(job) && before?.state !== "CANCELLED" && !this.wasKilled(job.org)) {
      this.#violations.add("kill", job.id, `killed, but no kill switch stops ${job.org}`);
    }
    const isDispatched = job.step === undefined || job.step.kind === "worker";
    if (!isDispatched || job.attempt <= (before?.attempt ?? 0)) return;
    for (const scope of [EVERY_SCOPE, job.org]) {
      const forMs = this.#net.timeline.nowMs - (this.#engagedMs.get(scope) ?? this.#net.timeline.nowMs);
      if (forMs > SPREAD_MS)
        this.#violations.add("kill", job.id, `dispatched ${Math.round(forMs)} ms after the kill of ${scope}`);
    }
  }
}

/** Whether a kill switch cancelled the job. */
export const isKilled = ({ state, history }: Job): boolean =>
  state === "CANCELLED" && (history.at(-1)?.why?.startsWith("killed: ") ?? false);

/** Twice what is promised: a refresh may be lost, or its process be paused. */
const SPREAD_MS = 60_000;
