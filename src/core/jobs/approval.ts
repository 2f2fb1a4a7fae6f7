import { createHash } from "node:crypto";
import { type Approval, appendHistory, type Job } from "../model/job.ts";
import { moveJob } from "../model/move-job.ts";
import type { Decision } from "../policy/decision.ts";
import { canonical } from "./idempotency.ts";
import { type DecisionContext, endJob, historyLine } from "./transitions.ts";

/**
 * A human has to decide.
 *
 * 1. What is approved is this very job under this very policy: its hash and the policy's snapshot stand on the request.
 *    If either has changed, the approval is void, says so, and the job is decided on anew.
 * 2. It is good once and until it expires. Who submitted the job may not approve it, unless the policy's rule says so.
 * 3. An approval that nobody gave in time ends the job as TIMEOUT, with a dead letter: it is not forgotten silently.
 */
export function requestApproval(job: Job, safety: Decision, context: DecisionContext): Job {
  const { nowMs, settings } = context;
  const { expiresMs, bySubmitter } = safety.approval ?? { expiresMs: null, bySubmitter: false };
  const untilMs = Math.min(nowMs + (expiresMs ?? settings.approval.expiresMs), job.deadlineMs);
  return Object.assign(moveJob(job, "APPROVAL_REQUIRED", nowMs), {
    safety,
    patience: {},
    dueMs: untilMs,
    approval: {
      jobHash: jobHashOf(job),
      snapshot: safety.snapshot,
      ruleId: safety.ruleId,
      requestedMs: nowMs,
      expiresMs: untilMs,
      bySubmitter,
    },
    history: appendHistory(job, historyLine(job, "approval_required", safety.reason, nowMs)),
  });
}

/** Who decides, and what they say to it. */
export interface Approver {
  readonly by: string;
  readonly note?: string;
}

/** Why somebody may not approve it now, as far as the job alone says; null when nothing is in the way. */
export type Objection = "not_waiting" | "expired" | "own_job";

export function objectionTo(job: Job, by: string, nowMs: number): Objection | null {
  const { approval } = job;
  if (job.state !== "APPROVAL_REQUIRED" || !approval) return "not_waiting";
  if (nowMs >= approval.expiresMs) return "expired";
  return by === job.submittedBy && !approval.bySubmitter ? "own_job" : null;
}

export type Approved =
  | { readonly kind: "approved"; readonly job: Job }
  /** The job as it goes on: decided anew by the caller, from PENDING. */
  | { readonly kind: "void"; readonly job: Job; readonly why: string }
  | { readonly kind: Objection };

/** `present` is the job and the policy as they are now: the input may be kept where others can write. */
export function approveJob(
  job: Job,
  approver: Approver,
  present: { readonly job: Job; readonly decision: Decision },
  context: DecisionContext,
): Approved {
  const { by, note } = approver;
  const { nowMs } = context;
  const objection = objectionTo(job, by, nowMs);
  if (objection !== null || !job.approval) return { kind: objection ?? "not_waiting" };
  const why = changeSince(job.approval, present);
  if (why !== null) {
    const history = appendHistory(job, historyLine(job, "approval_void", why, nowMs, by));
    const { approval: _, ...asked } = present.job;
    return { kind: "void", job: Object.assign(moveJob(asked, "PENDING", nowMs), { history }), why };
  }
  const approval = { ...job.approval, decidedBy: by, decidedMs: nowMs };
  const history = appendHistory(job, historyLine(job, "approved", note, nowMs, by));
  if (job.step?.kind === "approval") {
    // The step is the approval: there is nothing to be sent.
    const value = { approved_by: by, note: note ?? null, decided_at: new Date(nowMs).toISOString() };
    return {
      kind: "approved",
      job: Object.assign(endJob(job, "SUCCEEDED", context), { approval, history, output: { kind: "inline", value } }),
    };
  }
  return {
    kind: "approved",
    job: Object.assign(moveJob(job, "SCHEDULED", nowMs), { approval, history, dueMs: job.deadlineMs }),
  };
}

/** What the approver had before them, where they say so, against what is asked now: null when it is the same. */
export function mistakenFor(approval: Approval, seen: Seen): string | null {
  if (seen.jobHash !== undefined && seen.jobHash !== approval.jobHash)
    return `the job that was looked at has the hash \`${seen.jobHash}\`, this one \`${approval.jobHash}\``;
  if (seen.snapshot !== undefined && seen.snapshot !== approval.snapshot)
    return `the policy that was looked at is \`${seen.snapshot}\`, this approval is asked for by \`${approval.snapshot}\``;
  return null;
}

export interface Seen {
  readonly jobHash?: string;
  readonly snapshot?: string;
}

/** `null` when nobody is asked to decide about it. */
export function rejectJob(job: Job, by: string, why: string, context: DecisionContext): Job | null {
  const { approval } = job;
  if (job.state !== "APPROVAL_REQUIRED" || !approval) return null;
  const { nowMs } = context;
  return Object.assign(endJob(job, "DENIED", context), {
    approval: { ...approval, decidedBy: by, decidedMs: nowMs },
    error: { name: "Rejected", message: why },
    history: appendHistory(job, historyLine(job, "rejected", why, nowMs, by)),
  });
}

export function expireApproval(job: Job, context: DecisionContext): Job {
  const message = "nobody approved it in time";
  const history = appendHistory(job, historyLine(job, "approval_expired", message, context.nowMs));
  return Object.assign(endJob(job, "TIMEOUT", context), { error: { name: "ApprovalExpired", message }, history });
}

/** Of everything that an approver decides about. Two jobs that differ in any of it never have the same hash (L34). */
export function jobHashOf(job: Job): string {
  const { org, topic, priority, capability, riskTags, requires, labels, actorId, actorType, packId } = job;
  const input =
    job.input.kind === "inline" ? { value: job.input.value } : { sha256: job.input.sha256 ?? job.input.ptr };
  const asked = { org, topic, priority, capability, riskTags, requires, labels, actorId, actorType, packId, input };
  return createHash("sha256").update(canonical(asked)).digest("hex").slice(0, 32);
}

function changeSince(approval: Approval, present: { readonly job: Job; readonly decision: Decision }): string | null {
  if (jobHashOf(present.job) !== approval.jobHash) return "the job has changed since the approval was asked for";
  if (present.decision.snapshot !== approval.snapshot) return "the policy has changed since the approval was asked for";
  // The same policy about the same job: only a kernel that also looks at something else could change its mind.
  if (present.decision.effect !== "require_approval") return "the kernel decides otherwise now";
  return null;
}
