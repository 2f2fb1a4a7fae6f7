import { type Bypass, type Job, moveJob } from "../model/job.ts";
import type { Decision } from "../policy/decision.ts";
import { chooseDelay, type DecisionContext, waitFor } from "./transitions.ts";

/**
 * After a bypass (see `bypassSafety` in `lifecycle.ts`).
 *
 * 1. The fail-open lease was the permission. A job that is still unsent when the lease ends is checked again, and so is
 *    a job that needs another attempt.
 * 2. A review records what the policy says about a bypassed job. It does not change the job's state.
 */
export function recheckJob(job: Job, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "safety_unavailable", undefined, context);
  const reason = `safety unavailable: the fail-open lease \`${job.bypass?.leaseId}\` has ended`;
  const facts = waitFor(job, "safety_unavailable", "unavailable", reason, delayMs, setBy, context);
  return Object.assign(moveJob(job, "PENDING", context.nowMs), { ...facts, safety: null });
}

/** `null` if the job was not bypassed or was already reviewed. */
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

/** The labels as submitted: policy decisions must not depend on labels that the bypass added. */
export function withoutBypassLabels(labels: Job["labels"]): Job["labels"] {
  const { safety_bypassed: _, safety_bypass_reason: __, ...submitted } = labels;
  return submitted;
}
