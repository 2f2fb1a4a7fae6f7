import { type Attempt, isFinal, type Job, moveJob, type Payload, remember } from "../model/job.ts";
import type { Decision } from "../policy/decision.ts";
import { isSpent, spend } from "../retry/budget.ts";
import type { RetryClass } from "../retry/classes.ts";
import type { WireError } from "../retry/contract.ts";
import { delayFor } from "../retry/failure.ts";
import { formatPolicy } from "../retry/policies.ts";
import type { Settings } from "../settings.ts";
import type { JobResult } from "../wire/packet.ts";
import type { Submission } from "./submission.ts";

/**
 * What becomes of a job: every decision of its life, as plain functions of the job, the news, and the time.
 *
 * 1. Waiting for one thing never uses up the patience for another: a move forward clears the patience of its class.
 * 2. The first valid result ends a job, whichever attempt it is from; a second one changes nothing.
 * 3. A job that ends unhappily has its last error on it; the flow writes the dead letter in the same commit.
 */
export interface Given {
  readonly nowMs: number;
  readonly settings: Settings;
  readonly random: () => number;
}

export function newJob(
  submission: Submission,
  ids: { jobId: string; traceId: string },
  input: Payload,
  given: Given,
): Job {
  const { nowMs, settings } = given;
  return {
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
}

/** The kernel has spoken: into the backlog, or denied for good. */
export function decideSafety(job: Job, safety: Decision, given: Given): Job {
  const { nowMs } = given;
  if (safety.effect === "allow")
    return moveJob(job, "SCHEDULED", nowMs, { safety, patience: {}, dueMs: job.deadlineMs });
  const error: WireError = { name: "Denied", message: safety.reason };
  return end(job, "DENIED", { safety, error }, given);
}

/** The kernel did not answer: wait, and say until when. */
export function waitForSafety(job: Job, reason: string, given: Given): Job {
  const { delayMs, setBy } = chooseDelay(job, "safety_unavailable", undefined, given);
  return { ...job, ...waiting(job, "safety_unavailable", "unavailable", reason, delayMs, setBy, given) };
}

export function dispatchJob(job: Job, given: Given): Job {
  const { nowMs, settings } = given;
  return moveJob(job, "DISPATCHED", nowMs, {
    attempt: job.attempt + 1,
    dispatchedMs: nowMs,
    dueMs: Math.min(nowMs + settings.dispatch.deadlineMs, job.deadlineMs),
  });
}

/** Nobody serves the topic: back to its place in the backlog. It counts as no failure of the job. */
export function giveBack(job: Job, given: Given): Job {
  return moveJob(job, "SCHEDULED", given.nowMs, { dueMs: job.deadlineMs });
}

/** A retry is due: the job joins the backlog again, at the place that its age gives it. */
export function resume(job: Job, given: Given): Job {
  return moveJob(job, "SCHEDULED", given.nowMs, { dueMs: job.deadlineMs });
}

/** A worker has answered. `null` when the answer changes nothing. */
export function applyResult(job: Job, result: JobResult, output: Payload | null, given: Given): Job | null {
  if (isFinal(job.state) || job.state === "PENDING") return null;
  if (result.status === "succeeded") {
    const history = remember(job, line(job, "succeeded", null, given.nowMs));
    return end(job, "SUCCEEDED", { output, error: null, workerId: result.workerId, history }, given);
  }
  // A failure only speaks for the attempt that is out now.
  if (job.state !== "DISPATCHED" || (result.attempt !== undefined && result.attempt !== job.attempt)) return null;
  const error = result.error ?? { name: "WorkerError", message: result.errorMessage ?? result.status };
  const named = { ...job, workerId: result.workerId };
  if (FATAL.has(result.status)) {
    const history = remember(job, line(job, "failed", error.message, given.nowMs));
    return end(named, "FAILED", { error: { ...error, retryNever: true }, history }, given);
  }
  const retryClass = result.retryClass ?? "unclassified";
  return retryOrEnd(named, OUTCOME_OF[retryClass] ?? "failed", error, retryClass, result.retryAfterMs, given);
}

/** What was waited for is no failure of the work. */
const OUTCOME_OF: Readonly<Partial<Record<RetryClass, Attempt["outcome"]>>> = {
  no_worker: "no_worker",
  store_unavailable: "unavailable",
};

/** The worker's last word: no attempt follows. */
const FATAL: ReadonlySet<JobResult["status"]> = new Set(["failed_fatal", "cancelled", "denied"]);

/** Time has passed. `null` when there is nothing to do but what the state itself asks for (see `wake`). */
export function passTime(job: Job, given: Given): Job | null {
  if (isFinal(job.state)) return null;
  if (given.nowMs >= job.deadlineMs) {
    const error = job.error ?? {
      name: "DeadlineExceeded",
      message: `not finished within its own deadline, last ${job.state}`,
    };
    return end(job, "TIMEOUT", { error }, given);
  }
  if (job.state !== "DISPATCHED" || given.nowMs < job.dueMs) return null;
  const error = { name: "AttemptLost", message: `no result of attempt ${job.attempt} within the dispatch deadline` };
  return retryOrEnd(job, "lost", error, "unclassified", undefined, given);
}

function retryOrEnd(
  job: Job,
  outcome: Attempt["outcome"],
  error: WireError,
  retryClass: RetryClass,
  askedMs: number | undefined,
  given: Given,
): Job {
  const { delayMs, setBy } = chooseDelay(job, retryClass, askedMs, given);
  const facts = { error, ...waiting(job, retryClass, outcome, error.message, delayMs, setBy, given) };
  const spent = facts.patience[retryClass];
  if (spent && isSpent(given.settings.retry[retryClass].budget, spent, given.nowMs, job.deadlineMs)) {
    const history = remember(job, line(job, outcome, error.message, given.nowMs));
    return end(job, outcome === "failed" ? "FAILED" : "TIMEOUT", { error, history }, given);
  }
  return moveJob(job, "RETRYING", given.nowMs, facts);
}

function chooseDelay(job: Job, retryClass: RetryClass, askedMs: number | undefined, given: Given) {
  if (askedMs !== undefined) return { delayMs: askedMs, setBy: "worker" };
  const { retry } = given.settings;
  const delayMs = delayFor(retryClass, { settings: retry, patience: job.patience, random: given.random });
  return { delayMs, setBy: formatPolicy(retry[retryClass].policy) };
}

function waiting(
  job: Job,
  retryClass: RetryClass,
  outcome: Attempt["outcome"],
  reason: string,
  delayMs: number,
  setBy: string,
  given: Given,
) {
  const untilMs = Math.ceil(given.nowMs + delayMs);
  return {
    patience: spend(job.patience, retryClass, given.nowMs, delayMs),
    wait: { retryClass, reason, untilMs, setBy },
    dueMs: Math.min(untilMs, job.deadlineMs),
    updatedMs: given.nowMs,
    history: remember(job, { ...line(job, outcome, reason, given.nowMs), retryClass, delayMs, setBy }),
  };
}

function line(job: Job, outcome: Attempt["outcome"], error: string | null, atMs: number): Attempt {
  return { attempt: job.attempt, atMs, outcome, error, retryClass: null, delayMs: null, setBy: null };
}

/** A final state: kept for the retention time, then removed. */
function end(job: Job, state: "SUCCEEDED" | "FAILED" | "TIMEOUT" | "DENIED", facts: Partial<Job>, given: Given): Job {
  return moveJob(job, state, given.nowMs, {
    patience: {},
    ...facts,
    dueMs: given.nowMs + given.settings.retention.jobsMs,
  });
}
