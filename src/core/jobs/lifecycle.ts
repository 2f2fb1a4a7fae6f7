import { appendHistory, isFinal, type Job, type Payload, REDRIVABLE } from "../model/job.ts";
import { moveJob } from "../model/move-job.ts";
import type { Writable } from "../model/writable.ts";
import type { Decision } from "../policy/decision.ts";
import type { WireError } from "../retry/intent.ts";
import { requestApproval } from "./approval.ts";
import type { Submission } from "./submission.ts";
import { chooseDelay, type DecisionContext, endJob, historyLine, waitFor } from "./transitions.ts";

/**
 * What becomes of a job before and beside its attempts (those are in `attempt.ts`), as plain functions of the job, the
 * news, and the time.
 *
 * 1. Waiting for one thing never uses up the patience for another: a move forward clears the patience of its class.
 * 2. A verdict once given stands on the job; one that was done without is marked on it for good.
 */
export function newJob(
  submission: Submission,
  ids: { jobId: string; traceId: string },
  input: Payload,
  context: DecisionContext,
): Writable<Job> {
  const { nowMs, settings } = context;
  const job: Writable<Job> = {
    id: ids.jobId,
    org: submission.org,
    topic: submission.topic,
    priority: submission.priority,
    state: "PENDING",
    createdMs: nowMs,
    updatedMs: nowMs,
    deadlineMs: nowMs + settings.job.deadlineMs,
    dueMs: nowMs + Math.min(settings.job.deadlineMs, settings.dispatch.deadlineMs),
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
  };
  const { submittedBy, actorType, packId, traceparent } = submission;
  if (submittedBy !== null) job.submittedBy = submittedBy;
  if (actorType !== null) job.actorType = actorType;
  if (packId !== null) job.packId = packId;
  if (traceparent !== null) job.traceparent = traceparent;
  return job;
}

/** The kernel has spoken: into the backlog, to a human, later, or denied for good. */
export function decideSafety(job: Job, safety: Decision, context: DecisionContext): Job {
  switch (safety.effect) {
    case "allow":
    case "allow_with_constraints":
      return allowed(job, safety, context);
    case "require_approval":
      return requestApproval(job, safety, context);
    case "throttle": {
      const { delayMs, setBy } = chooseDelay(job, "throttled", undefined, context);
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

function allowed(job: Job, safety: Decision, { nowMs }: DecisionContext): Job {
  const next = moveJob(job, "SCHEDULED", nowMs);
  next.safety = safety;
  next.patience = {};
  next.dueMs = job.deadlineMs;
  return next;
}

/** No verdict, but a lease that lets it go all the same: that is said on the job for good. */
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

/** The kernel did not answer: wait, and say until when. */
export function waitForSafety(job: Job, reason: string, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "safety_unavailable", undefined, context);
  return { ...job, ...waitFor(job, "safety_unavailable", "unavailable", reason, delayMs, setBy, context) };
}

/** Somebody does not want it any more. `null` when it has ended already. */
export function cancelJob(job: Job, who: string, why: string, context: DecisionContext): Job | null {
  if (isFinal(job.state)) return null;
  const history = appendHistory(job, historyLine(job, "cancelled", why, context.nowMs, who));
  return Object.assign(endJob(job, "CANCELLED", context), { error: { name: "Cancelled", message: why }, history });
}

/**
 * A second life for a job that ended in the dead letters: it is checked and tried as if it were new. A verdict that was
 * not a plain permission stays on it until the next one: no lease lets out what a human was to decide about.
 */
export function redriveJob(job: Job, who: string, context: DecisionContext): Job | null {
  if (!REDRIVABLE.includes(job.state)) return null;
  const { nowMs, settings } = context;
  const { leaseId: _, progress: __, approval: ___, failures: ____, ...kept } = job;
  const isAllowed = job.safety?.effect === "allow" || job.safety?.effect === "allow_with_constraints";
  return {
    ...kept,
    state: "PENDING",
    safety: isAllowed ? null : job.safety,
    error: null,
    wait: null,
    patience: {},
    updatedMs: nowMs,
    deadlineMs: nowMs + settings.job.deadlineMs,
    dueMs: nowMs + Math.min(settings.job.deadlineMs, settings.dispatch.deadlineMs),
    history: appendHistory(job, historyLine(job, "revived", undefined, nowMs, who)),
  };
}

/** Labels are bounded for everybody. */
const LABEL_LENGTH_MAX = 256;
