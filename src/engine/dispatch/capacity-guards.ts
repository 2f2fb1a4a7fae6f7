import { endedOf, isFailOpenOnly } from "../../core/model/fail-open.ts";
import { inFlightOf, type Job, limitOfRule, RUNNING_GROUP, runningOf, underRule } from "../../core/model/job.ts";
import type { Settings } from "../../core/settings.ts";
import type { Guard } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";
import { budgetGuards, isBudgetGuard } from "../limits/index.ts";

/**
 * Limits of jobs in flight, for the job as dispatched: its budgets, the topic's window, the tenant's limit, the limit of the rule that allowed the job, and the
 * fail-open grant of a job without a decision. Each is a guard of the commit that dispatches the job, so no race
 * exceeds it (L25).
 */
export function capacityGuards(job: Job, settings: Settings, window: number): readonly Guard[] {
  const guards: Guard[] = [{ kind: "counter", counter: inFlightOf(job.topic), max: window }];
  const ofOrg = jobLimitOf(settings, job.org);
  if (ofOrg !== null) guards.push({ kind: "counter", counter: runningOf(job.org), max: ofOrg });
  const ofRule = limitOfRule(job);
  if (ofRule !== null) guards.push({ kind: "counter", counter: underRule(job), max: ofRule });
  if (job.budgets !== undefined) guards.push(...budgetGuards(job));
  if (isFailOpenOnly(job)) guards.push(failOpenGuard(job.bypass?.leaseId ?? ""));
  return guards;
}

export function jobLimitOf(settings: Settings, org: string): number | null {
  return settings.orgs[org]?.limits?.concurrentJobsMax ?? settings.limits.concurrentJobsMax;
}

/** Refuses a dispatch that relies on a fail-open grant that has ended. */
export function failOpenGuard(leaseId: string): Guard {
  return { kind: "counter", counter: endedOf(leaseId), max: 0 };
}

/** The limit behind a refused guard. */
export function limitOfGuard(guard: Guard, job: Job): "window" | "org" | "rule" | "lease" | "budget" {
  if (guard.kind !== "counter") return "window";
  if (isBudgetGuard(guard)) return "budget";
  if (guard.counter.group === endedOf("").group) return "lease";
  if (guard.counter.group === RUNNING_GROUP) return "org";
  return limitOfRule(job) !== null && guard.counter.group === underRule(job).group ? "rule" : "window";
}

/** How many waiting jobs may be dispatched per org. Tenants at their limit or behind a kill switch get none. */
export async function allowedPerOrg(
  engine: Needs<"world" | "settings" | "pools">,
  waiting: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  const settings = engine.settings.current;
  const isLimited = [...waiting.keys()].some(
    (org) => jobLimitOf(settings, org) !== null || engine.pools.isBlocked(org),
  );
  if (!isLimited) return waiting;
  const running = await engine.world.store.counts(RUNNING_GROUP, ORGS_MAX);
  const allowed = new Map<string, number>();
  for (const [org, count] of waiting) {
    if (engine.pools.isBlocked(org)) continue;
    const room = (jobLimitOf(settings, org) ?? Number.POSITIVE_INFINITY) - (running.get(org) ?? 0);
    if (room > 0) allowed.set(org, Math.min(count, room));
  }
  return allowed;
}

const ORGS_MAX = 10_000;
