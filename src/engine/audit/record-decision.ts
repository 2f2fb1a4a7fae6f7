import type { Job } from "../../core/model/job.ts";
import type { Put } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";
import { auditDecisionPuts, auditPut, decisionLine, recordAudit } from "./audit-log.ts";

/** The audit entries of decisions of the safety kernel, and the count of what shadow rules would have decided. */
export function recordDecision(engine: Needs<"world" | "commit" | "tasks" | "audit">, job: Job): void {
  countShadow(engine, job);
  recordAudit(engine, decisionLine(job));
}

/** The same as part of a change. */
export function decisionPut(engine: Needs<"world" | "audit">, job: Job): Put {
  countShadow(engine, job);
  return auditPut(engine, decisionLine(job));
}

/** The same for the jobs of one tenant that one commit creates. */
export function decisionPuts(engine: Needs<"world" | "audit">, jobs: readonly Job[]): readonly Put[] {
  for (const job of jobs) countShadow(engine, job);
  return auditDecisionPuts(engine, jobs);
}

function countShadow({ world }: Needs<"world">, { safety }: Job): void {
  if (safety?.shadow === undefined) return;
  const enforced = safety.effect.toUpperCase();
  for (const { ruleId: rule, effect } of safety.shadow) {
    world.metrics.add("cordum_policy_shadow_decisions_total", { rule, enforced, shadow: effect.toUpperCase() });
  }
}
