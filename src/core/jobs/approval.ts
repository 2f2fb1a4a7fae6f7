import { createHash } from "node:crypto";
import { type Approval, appendHistory, type Job, moveJob } from "../model/job.ts";
import type { Decision } from "../policy/decision.ts";
import { canonical } from "./idempotency.ts";
import { type DecisionContext, endJob, historyLine } from "./transitions.ts";

/**
 * Human approval of a job.
 *
 * 1. An approval is bound to the job's hash and the policy snapshot of the request. If either has changed, the approval
 *    is void and the job is checked again.
 * 2. An approval is used once and expires. Submitters cannot approve their own jobs unless the policy rule allows it:
 *    neither with the key of the submission nor with another key of the same person. If the submitter is a known person, so
 *    must be the approver.
 * 3. An expired approval ends the job as TIMEOUT, with a dead letter.
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

export interface Approver {
  /** A key id. */
  readonly by: string;
  /** The name of the key. */
  readonly name?: string | undefined;
  /** The owner of the key. */
  readonly person?: string | undefined;
  readonly note?: string;
}

/** Why the approver cannot approve the job now, judged from the job record alone; null if the approval is possible. */
export type ApprovalBlock = "not_waiting" | "expired" | "own_job" | "no_person";

export function approvalBlock(job: Job, { by, person }: Approver, nowMs: number): ApprovalBlock | null {
  const { approval, submittedBy, caller } = job;
  if (job.state !== "APPROVAL_REQUIRED" || !approval) return "not_waiting";
  if (nowMs >= approval.expiresMs) return "expired";
  if (approval.bySubmitter) return null;
  if (by === submittedBy || (person !== undefined && person === caller?.person)) return "own_job";
  return caller?.person !== undefined && person === undefined ? "no_person" : null;
}

export type ApprovalResult =
  | { readonly kind: "approved"; readonly job: Job }
  /** The job, back in PENDING; the caller checks it again. */
  | { readonly kind: "void"; readonly job: Job; readonly why: string }
  | { readonly kind: ApprovalBlock };

/** `present` is the job and the policy as they are now. */
export function approveJob(
  job: Job,
  approver: Approver,
  present: { readonly job: Job; readonly decision: Decision },
  context: DecisionContext,
): ApprovalResult {
  const { by, note } = approver;
  const { nowMs } = context;
  const objection = approvalBlock(job, approver, nowMs);
  if (objection !== null || !job.approval) return { kind: objection ?? "not_waiting" };
  const why = voidReason(job.approval, present);
  if (why !== null) {
    const history = appendHistory(job, historyLine(job, "approval_void", why, nowMs, by));
    const { approval: _, ...current } = present.job;
    return { kind: "void", job: Object.assign(moveJob(current, "PENDING", nowMs), { history }), why };
  }
  const approval = decided(job.approval, approver, nowMs, note);
  const history = appendHistory(job, historyLine(job, "approved", note, nowMs, by));
  if (job.step?.kind === "approval") {
    // An approval step sends nothing to workers.
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

/**
 * Compares the hash and the snapshot that the approver saw, if given, with those of the request; null if they match.
 */
export function approvalMismatch(approval: Approval, expected: ApprovalExpectation): string | null {
  if (expected.jobHash !== undefined && expected.jobHash !== approval.jobHash)
    return `job hash mismatch: expected \`${expected.jobHash}\`, is \`${approval.jobHash}\``;
  if (expected.snapshot !== undefined && expected.snapshot !== approval.snapshot)
    return `policy snapshot mismatch: expected \`${expected.snapshot}\`, is \`${approval.snapshot}\``;
  return null;
}

export interface ApprovalExpectation {
  readonly jobHash?: string;
  readonly snapshot?: string;
}

/** `null` if the job is not awaiting approval. */
export function rejectJob(job: Job, approver: Approver, why: string, context: DecisionContext): Job | null {
  const { approval } = job;
  if (job.state !== "APPROVAL_REQUIRED" || !approval) return null;
  const { nowMs } = context;
  return Object.assign(endJob(job, "DENIED", context), {
    approval: decided(approval, approver, nowMs, why),
    error: { name: REJECTED, message: why },
    history: appendHistory(job, historyLine(job, "rejected", why, nowMs, approver.by)),
  });
}

/** The error of a rejected job. */
export const REJECTED = "Rejected";

function decided(approval: Approval, { by, name }: Approver, nowMs: number, note: string | undefined): Approval {
  return {
    ...approval,
    decidedBy: by,
    decidedMs: nowMs,
    ...(name === undefined ? {} : { decidedByName: name }),
    ...(note === undefined ? {} : { note }),
  };
}

export function expireApproval(job: Job, context: DecisionContext): Job {
  const message = "approval expired";
  const history = appendHistory(job, historyLine(job, "approval_expired", message, context.nowMs));
  return Object.assign(endJob(job, "TIMEOUT", context), { error: { name: "ApprovalExpired", message }, history });
}

/** Covers every field an approver decides about: jobs that differ in any of them have different hashes (L34). */
export function jobHashOf(job: Job): string {
  const { org, topic, priority, capability, riskTags, requires, labels, actorId, actorType, packId } = job;
  const input =
    job.input.kind === "inline" ? { value: job.input.value } : { sha256: job.input.sha256 ?? job.input.ptr };
  const base = { org, topic, priority, capability, riskTags, requires, labels, actorId, actorType, packId, input };
  const { details, caller } = job;
  const fields = {
    ...base,
    ...(details === undefined ? {} : { details }),
    ...(caller === undefined ? {} : { caller }),
  };
  return createHash("sha256").update(canonical(fields)).digest("hex").slice(0, 32);
}

function voidReason(approval: Approval, present: { readonly job: Job; readonly decision: Decision }): string | null {
  if (jobHashOf(present.job) !== approval.jobHash) return "the job has changed since the approval was requested";
  if (present.decision.snapshot !== approval.snapshot) return "the policy has changed since the approval was requested";
  // Same job, same policy: a condition that reads the time, or a kernel with inputs of its own.
  if (present.decision.effect !== "require_approval") return "the safety kernel no longer requires approval";
  return null;
}
