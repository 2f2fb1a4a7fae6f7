import type { Bypass, Job } from "../model/job.ts";
import { moveJob } from "../model/move-job.ts";
import type { Decision } from "../policy/decision.ts";
import { chooseDelay, type DecisionContext, waitFor } from "./transitions.ts";

/**
 * After a bypass (see `bypassSafety` in `life.ts`).
 *
 * 1. The lease was the permission: a job that has not been sent when it ends asks for a verdict like any other, and so
 *    does one that comes back for another attempt.
 * 2. Whoever looks at a bypassed job again writes down what the policy says to it; the job itself stays as it is.
 */
export function askAgain(job: Job, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "safety_unavailable", undefined, context);
  const reason = `safety unavailable: the fail-open lease \`${job.bypass?.leaseId}\` has ended`;
  const facts = waitFor(job, "safety_unavailable", "unavailable", reason, delayMs, setBy, context);
  return Object.assign(moveJob(job, "PENDING", context.nowMs), { ...facts, safety: null });
}

/** `null` when it was not bypassed, or was reviewed already. */
export function reviewJob(
  job: Job,
  by: string,
  verdict: Decision,
  note: string | undefined,
  context: DecisionContext,
): Job | null {
  if (!job.bypass || job.bypass.reviewedMs !== undefined) return null;
  const { effect, ruleId, reason, snapshot } = verdict;
  const bypass: Bypass = {
    ...job.bypass,
    reviewedBy: by,
    reviewedMs: context.nowMs,
    verdict: { effect, ruleId, reason, snapshot },
    ...(note === undefined ? {} : { note }),
  };
  return { ...job, bypass };
}

/** As it was submitted: what a policy says must not depend on the labels that the bypass has left. */
export function withoutBypassLabels(labels: Job["labels"]): Job["labels"] {
  const { safety_bypassed: _, safety_bypass_reason: __, ...submitted } = labels;
  return submitted;
}
