import { reviewJob } from "../../core/jobs/bypass.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import { put } from "../../ports/store.ts";
import { audited } from "../audit/audit-log.ts";
import { apply, untilFresh } from "../commit.ts";
import { type Flow, given } from "../engine.ts";
import { policyRequestOf } from "./check-job.ts";
import { askKernel } from "./circuit-breaker.ts";

/**
 * A job that went out under a fail-open lease is looked at again: what the policy says to it now is written beside its
 * bypass, and into the audit log. What has been done is not undone by that.
 */
export interface ReviewWish {
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

export function reviewBypass(flow: Flow, wish: ReviewWish): Promise<Reviewed> {
  return untilFresh<Reviewed>(`job \`${wish.jobId}\``, async () => {
    const found = await flow.world.store.load(JOBS, wish.jobId);
    if (found?.value.org !== wish.org) return { kind: "not_found" };
    const { bypass } = found.value;
    if (!bypass) return { kind: "not_bypassed" };
    if (bypass.reviewedMs !== undefined) return { kind: "reviewed_already", job: found.value };
    const checked = await askKernel(flow, policyRequestOf(found.value));
    if (checked.kind === "unavailable") return checked;
    const job = reviewJob(found.value, wish.by, checked.decision, wish.note, given(flow));
    if (job === null) return { kind: "not_bypassed" };
    const { effect, ruleId, snapshot } = checked.decision;
    const facts = { job: job.id, topic: job.topic, lease: bypass.leaseId, verdict: effect, rule: ruleId, snapshot };
    const line = audited(flow, { org: job.org, kind: "fail_open", who: wish.by, what: "reviewed", facts });
    const committed = await apply(flow, { org: job.org, puts: [put(JOBS, found.id, found, job), line] });
    return committed.kind === "committed" ? { kind: "reviewed", job, verdict: checked.decision } : "stale";
  });
}
