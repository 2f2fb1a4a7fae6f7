import { reviewJob } from "../../core/jobs/bypass.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import { put } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import { loadTenantJob } from "../dispatch/index.ts";
import type { Needs } from "../engine.ts";
import { previewLimits } from "../limits/index.ts";
import { policyRequestOf } from "./check-job.ts";
import { askKernel } from "./circuit-breaker.ts";

/**
 * Reviews a job that was dispatched under a fail-open lease: the current decision is put beside its bypass and into the
 * audit log. The work is not undone.
 */
export interface ReviewRequest {
  readonly org: string;
  readonly jobId: string;
  readonly by: string;
  readonly note?: string;
}

export type Reviewed =
  | { readonly kind: "reviewed"; readonly job: Job; readonly verdict: Decision }
  | { readonly kind: "not_found" | "not_bypassed" }
  | { readonly kind: "reviewed_already"; readonly job: Job }
  | { readonly kind: "unavailable"; readonly reason: string };

export function reviewBypass(
  engine: Needs<"world" | "settings" | "commit" | "tasks" | "audit" | "safety">,
  request: ReviewRequest,
): Promise<Reviewed> {
  return retryOnConflict<Reviewed>(`job \`${request.jobId}\``, async () => {
    const found = await loadTenantJob(engine, request);
    if (!found) return { kind: "not_found" };
    const { bypass } = found.value;
    if (!bypass) return { kind: "not_bypassed" };
    if (bypass.reviewedMs !== undefined) return { kind: "reviewed_already", job: found.value };
    // The time of the dispatch: the reviewer asks whether it would have been permitted then.
    const checked = await askKernel(engine, policyRequestOf(found.value, bypass.atMs));
    if (checked.kind === "unavailable") return checked;
    const { decision } = await previewLimits(engine, found.value.org, checked.decision);
    const job = reviewJob(found.value, request.by, decision, request.note, decisionContext(engine, found.value));
    if (job === null) return { kind: "not_bypassed" };
    const { effect, ruleId, snapshot } = decision;
    const facts = { job: job.id, topic: job.topic, lease: bypass.leaseId, verdict: effect, rule: ruleId, snapshot };
    const line = auditPut(engine, { org: job.org, kind: "fail_open", who: request.by, what: "reviewed", facts });
    const committed = await engine.commit({ org: job.org, puts: [put(JOBS, found.id, found, job), line] });
    return committed.kind === "committed" ? { kind: "reviewed", job, verdict: decision } : "stale";
  });
}
