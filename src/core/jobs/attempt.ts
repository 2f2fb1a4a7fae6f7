import type { JobResult } from "../../protocol/packet.ts";
import { appendHistory, isFinal, type Job, type JobEvent, type JobState, moveJob, type Payload } from "../model/job.ts";
import { type ProgressDetails, resultDetailsOf } from "../model/job-details.ts";
import { countedBytes } from "../model/quota.ts";
import type { Writable } from "../model/table.ts";
import { type Budget, isBudgetExhausted } from "../retry/budget.ts";
import type { WireError } from "../retry/intent.ts";
import type { RetryClass } from "../retry/retry-classes.ts";
import { reserveBudgets, settleBudgets } from "./budget.ts";
import { chooseDelay, type DecisionContext, endJob, historyLine, waitFor } from "./transitions.ts";

/**
 * Decisions about attempts, from the backlog to a result.
 *
 * 1. The first valid result ends the job, whichever attempt it is from. Later results change nothing.
 * 2. A failure counts only for the current attempt.
 * 3. A job that ends as FAILED or TIMEOUT carries its last error. The engine writes the dead letter in the same commit.
 */
export function dispatchJob(job: Job, context: DecisionContext, sentTo?: string): Job {
  const { nowMs, settings } = context;
  const sent = moveJob(withoutHolder(job), "DISPATCHED", nowMs);
  if (sentTo !== undefined) sent.sentTo = sentTo;
  const budgets = reserveBudgets(job, nowMs);
  if (budgets !== undefined) sent.budgets = budgets;
  sent.attempt = job.attempt + 1;
  sent.dispatchedMs = nowMs;
  sent.dueMs = attemptDueMs(job, nowMs, settings.dispatch.deadlineMs, nowMs);
  return sent;
}

/** Dispatch to a worker that polls over HTTP. */
export function leaseJob(job: Job, workerId: string, leaseId: string, context: DecisionContext): Job {
  const sent = dispatchJob(job, context);
  return Object.assign(moveJob(sent, "RUNNING", context.nowMs), { workerId, leaseId });
}

/** Extends the attempt's deadline and stores the reported progress. `null` if the job has no running attempt. */
export function recordProgress(
  job: Job,
  report: {
    workerId: string;
    percent: number | null;
    message: string | null;
    extendMs: number | null;
    details?: ProgressDetails | undefined;
  },
  context: DecisionContext,
): Job | null {
  if ((job.state !== "DISPATCHED" && job.state !== "RUNNING") || !isForWorkers(job)) return null;
  const { nowMs, settings } = context;
  const { percent, message, workerId, details } = report;
  const dueMs = attemptDueMs(job, nowMs, report.extendMs ?? settings.dispatch.deadlineMs, job.dispatchedMs ?? nowMs);
  const isEmpty = percent === null && message === null && details === undefined;
  const reported = { percent, message, atMs: nowMs, ...(details === undefined ? {} : { details }) };
  const progress = isEmpty ? {} : { progress: reported };
  const facts = { workerId, dueMs: Math.max(dueMs, job.dueMs), ...progress };
  if (job.state === "RUNNING") return { ...job, ...facts, updatedMs: nowMs };
  return Object.assign(moveJob(job, "RUNNING", nowMs), facts);
}

/** Drops the holder and the progress of the previous attempt, so that it cannot report on the next one. */
function withoutHolder(job: Job): Job {
  if (job.leaseId === undefined && job.progress === undefined && job.sentTo === undefined) return job;
  const { leaseId: _, progress: __, sentTo: ___, ...rest } = job;
  return rest;
}

/** When an attempt counts as lost, bounded by the job's deadline and by the rule's `max_runtime`. */
function attemptDueMs(job: Job, nowMs: number, forMs: number, beganMs: number): number {
  const runtimeMs = job.safety?.constraints?.budgets?.maxRuntimeMs ?? Number.POSITIVE_INFINITY;
  return Math.min(nowMs + forMs, job.deadlineMs, beganMs + runtimeMs);
}

/** Returns an undelivered job to its place in the backlog. It counts neither as a failure nor as an attempt. */
export function requeueJob(job: Job, context: DecisionContext): Job {
  return Object.assign(moveJob(job, "SCHEDULED", context.nowMs), { dueMs: job.deadlineMs, attempt: job.attempt - 1 });
}

/** The rule's concurrency limit is reached: the job leaves the backlog and is retried later. */
export function waitForRule(job: Job, limit: number, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "throttled", undefined, context);
  const reason = `rule \`${job.safety?.ruleId}\` allows ${limit} concurrent jobs`;
  return Object.assign(
    moveJob(job, "RETRYING", context.nowMs),
    waitFor(job, "throttled", "throttled", reason, delayMs, setBy, context),
  );
}

/** A retry is due: the job returns to the backlog, in order of its age. */
export function resumeJob(job: Job, context: DecisionContext): Job {
  return Object.assign(moveJob(job, "SCHEDULED", context.nowMs), { dueMs: job.deadlineMs });
}

/** `null` if the result changes nothing. */
export function applyResult(job: Job, result: JobResult, output: Payload | null, context: DecisionContext): Job | null {
  // A job that was never sent has no result. (A PENDING job may have been sent before, under a fail-open lease or
  // before a redrive.)
  if (isFinal(job.state) || job.attempt === 0 || !isForWorkers(job)) return null;
  if (result.status === "succeeded") {
    const done = endJob(job, "SUCCEEDED", context);
    done.output = output;
    const bytes = countedBytes(output);
    if (bytes > 0) done.bytes = (job.bytes ?? 0) + bytes;
    done.error = null;
    done.workerId = result.workerId;
    done.history = appendHistory(job, historyLine(job, "succeeded", undefined, context.nowMs, result.workerId));
    setResultDetails(done, result);
    if (job.budgets !== undefined) done.budgets = settleBudgets(job, result) ?? [];
    return done;
  }
  if (!isWithWorker(job.state) || (result.attempt !== undefined && result.attempt !== job.attempt)) return null;
  const error = result.error ?? { name: "WorkerError", message: result.errorMessage ?? result.status };
  const reported: Writable<Job> = { ...job, workerId: result.workerId };
  if (job.budgets !== undefined) reported.budgets = settleBudgets(job, result) ?? [];
  setResultDetails(reported, result);
  if (FATAL.has(result.status)) {
    const history = appendHistory(job, historyLine(job, "failed", error.message, context.nowMs, result.workerId));
    return Object.assign(endJob(reported, "FAILED", context), { error: { ...error, retryNever: true }, history });
  }
  const retryClass = result.retryClass ?? "unclassified";
  const outcome = (result.isWaiting && WAIT_EVENTS[retryClass]) || "failed";
  return retryOrEnd(reported, outcome, error, retryClass, result.retryAfterMs, context);
}

/** Replaces the details of an earlier result. */
function setResultDetails(job: Writable<Job>, result: JobResult): void {
  const details = resultDetailsOf(result);
  if (details !== undefined) job.resultDetails = details;
  else if (job.resultDetails !== undefined) delete job.resultDetails;
}

/** Waits that are not failures of the work. A worker that tried and failed has failed, whatever class it names. */
const WAIT_EVENTS: Readonly<Partial<Record<RetryClass, JobEvent>>> = {
  no_worker: "no_worker",
  store_unavailable: "unavailable",
};

/** Statuses after which the job is not retried. */
const FATAL: ReadonlySet<JobResult["status"]> = new Set(["failed_fatal", "cancelled", "denied"]);

/**
 * Ends the job at its deadline and the attempt at its own. `null` if neither has passed; timers of other states are
 * handled by `onDue`.
 */
export function expireJob(job: Job, context: DecisionContext): Job | null {
  if (isFinal(job.state)) return null;
  if (context.nowMs >= job.deadlineMs) {
    const error = job.error ?? {
      name: "DeadlineExceeded",
      message: `job deadline exceeded in state ${job.state}`,
    };
    const history = appendHistory(job, historyLine(job, "timed_out", error.message, context.nowMs));
    return Object.assign(endJob(job, "TIMEOUT", context), { error, history });
  }
  if (!isWithWorker(job.state) || context.nowMs < job.dueMs) return null;
  const error = { name: "AttemptLost", message: `no result of attempt ${job.attempt} before the dispatch deadline` };
  return retryOrEnd(job, "lost", error, "unclassified", undefined, context);
}

/** Steps that wait for an approval, a delay or a sub-run are never sent to workers. */
const isForWorkers = ({ step }: Job): boolean => step === undefined || step.kind === "worker";

const isWithWorker = (state: JobState): boolean => state === "DISPATCHED" || state === "RUNNING";

export function retryOrEnd(
  job: Job,
  outcome: JobEvent,
  error: WireError,
  retryClass: RetryClass,
  requestedMs: number | undefined,
  context: DecisionContext,
): Job {
  const { delayMs, setBy } = chooseDelay(job, retryClass, requestedMs, context);
  const isFailure = outcome === "failed" || outcome === "lost";
  const failures = (job.failures ?? 0) + 1;
  const counted = isFailure ? { failures } : {};
  const facts = { error, ...counted, ...waitFor(job, retryClass, outcome, error.message, delayMs, setBy, context) };
  const usage = facts.patience[retryClass];
  const isOver = usage && isBudgetExhausted(budgetOf(job, retryClass, context), usage, context.nowMs, job.deadlineMs);
  if (isOver || (isFailure && failures > retriesMaxOf(job))) {
    const history = appendHistory(job, historyLine(job, outcome, error.message, context.nowMs));
    return Object.assign(endJob(job, outcome === "failed" ? "FAILED" : "TIMEOUT", context), {
      error,
      ...counted,
      history,
    });
  }
  // A job that has not started keeps its state.
  const isBegun = job.state !== "PENDING" && job.state !== "RETRYING";
  return Object.assign(isBegun ? moveJob(job, "RETRYING", context.nowMs) : { ...job }, facts);
}

/** A step's own `retry` replaces the budget of `unclassified`. Other classes keep theirs. */
function budgetOf({ step }: Job, retryClass: RetryClass, { settings }: DecisionContext): Budget {
  if (retryClass === "unclassified" && step?.retry) return { kind: "count", max: step.retry.retriesMax + 1 };
  return settings.retry[retryClass].budget;
}

/**
 * The smaller of the step's `retry` limit and the rule's `max_retries`. Counted since the last redrive; waits do not
 * count.
 */
function retriesMaxOf({ step, safety }: Job): number {
  const ofRule = safety?.constraints?.budgets?.maxRetries ?? Number.POSITIVE_INFINITY;
  return Math.min(ofRule, step?.retry?.retriesMax ?? Number.POSITIVE_INFINITY);
}

/**
 * A `subworkflow` step that cannot start its run yet. Freed slots wake it. The timer is a fallback in case the process
 * that should wake it crashes. The delay is capped because younger waiters queue behind this step.
 */
export function waitForSlot(job: Job, reason: string, context: DecisionContext): Job {
  const next = waitToStart(job, reason, context);
  return { ...next, wait: next.wait === null ? null : { ...next.wait, forSlot: true } };
}

/** Waits for something other than a slot; does not block other waiters. */
export function waitToStart(job: Job, reason: string, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "throttled", undefined, context);
  const soonMs = Math.min(delayMs, SLOT_RETRY_MS_MAX);
  return { ...job, ...waitFor(job, "throttled", "throttled", reason, soonMs, setBy, context) };
}

/** Slot deadlock: all open runs wait for a slot. This step fails so that the others can continue. */
export function refuseSlot(job: Job, openRuns: number, context: DecisionContext): Job {
  const runs = openRuns === 1 ? "the only open run" : `all ${openRuns} open runs`;
  const message =
    `slot deadlock: ${runs} of tenant \`${job.org}\` ${openRuns === 1 ? "waits" : "wait"} for a sub-workflow slot; ` +
    "raise `limits.max_concurrent_runs` or nest fewer workflows";
  return retryOrEnd(job, "failed", { name: "SubworkflowRefused", message }, "unclassified", undefined, context);
}

const SLOT_RETRY_MS_MAX = 30_000;
