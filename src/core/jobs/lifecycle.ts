import { appendHistory, isFinal, type Job, moveJob, type Payload, REDRIVABLE } from "../model/job.ts";
import { budgetMsOf } from "../model/job-details.ts";
import { countedBytes } from "../model/quota.ts";
import type { Writable } from "../model/table.ts";
import type { Decision } from "../policy/decision.ts";
import type { WireError } from "../retry/intent.ts";
import { requestApproval } from "./approval.ts";
import type { Submission } from "./submission.ts";
import { chooseDelay, type DecisionContext, endJob, historyLine, waitFor } from "./transitions.ts";

/**
 * Decisions about a job outside its attempts (those are in `attempt.ts`).
 *
 * 1. Each retry class has its own budget: a move forward clears the retry state.
 * 2. A verdict stays on the job. A bypass is marked on the job permanently.
 */
export function newJob(
  submission: Submission,
  ids: { jobId: string; traceId: string },
  input: Payload,
  context: DecisionContext,
): Writable<Job> {
  const { nowMs, settings } = context;
  const { submittedBy, caller, actorType, packId, idempotencyKey, traceparent, details } = submission;
  const forMs = Math.min(settings.job.deadlineMs, budgetMsOf(details));
  const job: Writable<Job> = {
    id: ids.jobId,
    org: submission.org,
    topic: submission.topic,
    priority: submission.priority,
    state: "PENDING",
    createdMs: nowMs,
    updatedMs: nowMs,
    deadlineMs: nowMs + forMs,
    dueMs: nowMs + Math.min(forMs, settings.dispatch.deadlineMs),
    traceId: ids.traceId,
    actorId: submission.actorId,
    capability: submission.capability,
    riskTags: submission.riskTags,
    requires: submission.requires,
    labels: submission.labels,
    input,
    output: null,
    safety: null,
    attempt: 0,
    dispatchedMs: null,
    workerId: null,
    wait: null,
    patience: {},
    error: null,
    history: [],
    indexed: 1,
  };
  const bytes = countedBytes(input);
  if (bytes > 0) job.bytes = bytes;
  if (submittedBy !== null) job.submittedBy = submittedBy;
  if (caller !== undefined) job.caller = caller;
  if (actorType !== null) job.actorType = actorType;
  if (packId !== null) job.packId = packId;
  if (idempotencyKey !== null) job.idempotencyKey = idempotencyKey;
  if (traceparent !== null) job.traceparent = traceparent;
  if (details !== undefined) job.details = details;
  return job;
}

export function decideSafety(job: Job, safety: Decision, context: DecisionContext): Job {
  switch (safety.effect) {
    case "allow":
    case "allow_with_constraints":
      return allowJob(job, safety, context);
    case "require_approval":
      return requestApproval(job, safety, context);
    case "throttle": {
      const { untilMs, ruleId } = safety;
      const { delayMs, setBy } =
        untilMs === undefined
          ? chooseDelay(job, "throttled", undefined, context)
          : { delayMs: Math.max(0, untilMs - context.nowMs), setBy: `rule \`${ruleId}\`` };
      return { ...job, safety, ...waitFor(job, "throttled", "throttled", safety.reason, delayMs, setBy, context) };
    }
    case "deny": {
      const error: WireError = { name: "Denied", message: safety.reason };
      const history = appendHistory(job, historyLine(job, "denied", safety.reason, context.nowMs));
      return Object.assign(endJob(job, "DENIED", context), { safety, error, history });
    }
    default:
      return safety.effect satisfies never;
  }
}

function allowJob(job: Job, safety: Decision, { nowMs }: DecisionContext): Job {
  const next = moveJob(job, "SCHEDULED", nowMs);
  next.safety = safety;
  next.patience = {};
  next.dueMs = job.deadlineMs;
  return next;
}

/** Dispatches without a verdict, under a fail-open lease. The bypass is recorded on the job. */
export function bypassSafety(job: Job, lease: { readonly id: string }, why: string, context: DecisionContext): Job {
  const { nowMs } = context;
  const reason = `fail-open: safety unavailable -- ${why}`;
  return Object.assign(moveJob(job, "SCHEDULED", nowMs), {
    safety: { effect: "allow", ruleId: null, reason, snapshot: "" },
    bypass: { leaseId: lease.id, reason, atMs: nowMs },
    labels: { ...job.labels, safety_bypassed: "true", safety_bypass_reason: reason.slice(0, LABEL_LENGTH_MAX) },
    patience: {},
    dueMs: job.deadlineMs,
    history: appendHistory(job, historyLine(job, "bypassed", reason, nowMs, `lease ${lease.id}`)),
  });
}

export function waitForSafety(job: Job, reason: string, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "safety_unavailable", undefined, context);
  return { ...job, ...waitFor(job, "safety_unavailable", "unavailable", reason, delayMs, setBy, context) };
}

/** `null` if the job has ended. */
export function cancelJob(job: Job, who: string, why: string, context: DecisionContext): Job | null {
  if (isFinal(job.state)) return null;
  const history = appendHistory(job, historyLine(job, "cancelled", why, context.nowMs, who));
  return Object.assign(endJob(job, "CANCELLED", context), { error: { name: "Cancelled", message: why }, history });
}

/**
 * Redrive of a dead-lettered job: it is checked and run as if it were new. A verdict other than a plain allow stays on
 * the job until the next check, so that a fail-open lease cannot release a job that needs an approval.
 */
export function redriveJob(job: Job, who: string, context: DecisionContext): Job | null {
  if (!REDRIVABLE.includes(job.state)) return null;
  const { nowMs, settings } = context;
  const { leaseId: _, progress: __, approval: ___, failures: ____, sentTo: _____, counted: ______, ...kept } = job;
  const forMs = Math.min(settings.job.deadlineMs, budgetMsOf(job.details));
  const isAllowed = job.safety?.effect === "allow" || job.safety?.effect === "allow_with_constraints";
  return {
    ...kept,
    state: "PENDING",
    safety: isAllowed ? null : job.safety,
    error: null,
    wait: null,
    patience: {},
    updatedMs: nowMs,
    deadlineMs: nowMs + forMs,
    dueMs: nowMs + Math.min(forMs, settings.dispatch.deadlineMs),
    history: appendHistory(job, historyLine(job, "revived", undefined, nowMs, who)),
  };
}

/**
 * An undispatched job whose policy was replaced: it is checked again. A verdict other than a plain allow stays until
 * then, so that a fail-open lease cannot release a job that needs an approval; an approval of the old policy is void.
 */
export function recheckAfterPolicyChange(job: Job, { nowMs }: DecisionContext): Job {
  const { approval, ...kept } = job;
  const isAllowed = job.safety?.effect === "allow" || job.safety?.effect === "allow_with_constraints";
  const line = historyLine(job, "approval_void", "the policy has changed since the approval was given", nowMs);
  return Object.assign(moveJob(kept, "PENDING", nowMs), {
    safety: isAllowed ? null : job.safety,
    dueMs: nowMs + RECHECK_MS,
    history: approval === undefined ? job.history : appendHistory(job, line),
  });
}

/** A remote kernel may adopt the new policy a moment later than this process. */
const RECHECK_MS = 250;
const LABEL_LENGTH_MAX = 256;
