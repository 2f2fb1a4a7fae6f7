import type { JobResult } from "../../protocol/packet.ts";
import { appendHistory, isFinal, type Job, type JobEvent, type JobState, type Payload } from "../model/job.ts";
import { moveJob } from "../model/move-job.ts";
import { type Budget, isBudgetExhausted } from "../retry/budget.ts";
import type { RetryClass } from "../retry/classes.ts";
import type { WireError } from "../retry/intent.ts";
import { chooseDelay, type DecisionContext, endJob, historyLine, waitFor } from "./transitions.ts";

/**
 * From the backlog to a result: every decision about an attempt, as plain functions of the job, the news, and the time.
 *
 * 1. The first valid result ends a job, whichever attempt it is from; a second one changes nothing.
 * 2. A failure only speaks for the attempt that is out now.
 * 3. A job that ends unhappily has its last error on it; the flow writes the dead letter in the same commit.
 */
export function dispatchJob(job: Job, context: DecisionContext): Job {
  const { nowMs, settings } = context;
  const sent = moveJob(withoutLease(job), "DISPATCHED", nowMs);
  sent.attempt = job.attempt + 1;
  sent.dispatchedMs = nowMs;
  sent.dueMs = attemptDueMs(job, nowMs, settings.dispatch.deadlineMs, nowMs);
  return sent;
}

/** A worker over HTTP takes the job: what others are sent, it has come for. */
export function leaseJob(job: Job, workerId: string, leaseId: string, context: DecisionContext): Job {
  const sent = dispatchJob(job, context);
  return Object.assign(moveJob(sent, "RUNNING", context.nowMs), { workerId, leaseId });
}

/** The worker is still at it, and may have said how far: the attempt's deadline moves on. `null`: not its attempt. */
export function noteProgress(
  job: Job,
  news: { workerId: string; percent: number | null; message: string | null; extendMs: number | null },
  context: DecisionContext,
): Job | null {
  if ((job.state !== "DISPATCHED" && job.state !== "RUNNING") || !isForWorkers(job)) return null;
  const { nowMs, settings } = context;
  const { percent, message, workerId } = news;
  const dueMs = attemptDueMs(job, nowMs, news.extendMs ?? settings.dispatch.deadlineMs, job.dispatchedMs ?? nowMs);
  const progress = percent === null && message === null ? {} : { progress: { percent, message, atMs: nowMs } };
  const facts = { workerId, dueMs: Math.max(dueMs, job.dueMs), ...progress };
  if (job.state === "RUNNING") return { ...job, ...facts, updatedMs: nowMs };
  return Object.assign(moveJob(job, "RUNNING", nowMs), facts);
}

/** What belonged to the attempt before: its holder must not speak for the next one. */
function withoutLease(job: Job): Job {
  if (job.leaseId === undefined && job.progress === undefined) return job;
  const { leaseId: _, progress: __, ...rest } = job;
  return rest;
}

/** When an attempt counts as lost: the job's own end and the runtime that its rule allows come before. */
function attemptDueMs(job: Job, nowMs: number, forMs: number, beganMs: number): number {
  const runtimeMs = job.safety?.constraints?.budgets?.maxRuntimeMs ?? Number.POSITIVE_INFINITY;
  return Math.min(nowMs + forMs, job.deadlineMs, beganMs + runtimeMs);
}

/** Nobody has got it: back to its place in the backlog. It counts as no failure of the job, and as no attempt. */
export function giveBack(job: Job, context: DecisionContext): Job {
  return Object.assign(moveJob(job, "SCHEDULED", context.nowMs), { dueMs: job.deadlineMs, attempt: job.attempt - 1 });
}

/** As many of its rule's jobs run as the rule allows: it comes back later, and does not stand in the way of others. */
export function waitForRule(job: Job, limit: number, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "throttled", undefined, context);
  const reason = `rule \`${job.safety?.ruleId}\` lets ${limit} of its jobs run at once`;
  return Object.assign(
    moveJob(job, "RETRYING", context.nowMs),
    waitFor(job, "throttled", "throttled", reason, delayMs, setBy, context),
  );
}

/** A retry is due: the job joins the backlog again, at the place that its age gives it. */
export function resume(job: Job, context: DecisionContext): Job {
  return Object.assign(moveJob(job, "SCHEDULED", context.nowMs), { dueMs: job.deadlineMs });
}

/** A worker has answered. `null` when the answer changes nothing. */
export function applyResult(job: Job, result: JobResult, output: Payload | null, context: DecisionContext): Job | null {
  // Nobody can have done what was never sent. (Who waits for a verdict may have been sent before, under a lease that has
  // ended or in an earlier life.)
  if (isFinal(job.state) || job.attempt === 0 || !isForWorkers(job)) return null;
  if (result.status === "succeeded") {
    const done = endJob(job, "SUCCEEDED", context);
    done.output = output;
    done.error = null;
    done.workerId = result.workerId;
    done.history = appendHistory(job, historyLine(job, "succeeded", undefined, context.nowMs, result.workerId));
    return done;
  }
  // A failure only speaks for the attempt that is out now.
  if (!isOut(job.state) || (result.attempt !== undefined && result.attempt !== job.attempt)) return null;
  const error = result.error ?? { name: "WorkerError", message: result.errorMessage ?? result.status };
  const named = { ...job, workerId: result.workerId };
  if (FATAL.has(result.status)) {
    const history = appendHistory(job, historyLine(job, "failed", error.message, context.nowMs, result.workerId));
    return Object.assign(endJob(named, "FAILED", context), { error: { ...error, retryNever: true }, history });
  }
  const retryClass = result.retryClass ?? "unclassified";
  const outcome = (result.isWaiting && OUTCOME_OF[retryClass]) || "failed";
  return retryOrEnd(named, outcome, error, retryClass, result.retryAfterMs, context);
}

/** What was waited for is no failure of the work. A worker that has tried it has failed, whatever class it names. */
const OUTCOME_OF: Readonly<Partial<Record<RetryClass, JobEvent>>> = {
  no_worker: "no_worker",
  store_unavailable: "unavailable",
};

/** The worker's last word: no attempt follows. */
const FATAL: ReadonlySet<JobResult["status"]> = new Set(["failed_fatal", "cancelled", "denied"]);

/** Time has passed. `null` when there is nothing to do but what the state itself asks for (see `wake`). */
export function passTime(job: Job, context: DecisionContext): Job | null {
  if (isFinal(job.state)) return null;
  if (context.nowMs >= job.deadlineMs) {
    const error = job.error ?? {
      name: "DeadlineExceeded",
      message: `not finished within its own deadline, last ${job.state}`,
    };
    const history = appendHistory(job, historyLine(job, "timed_out", error.message, context.nowMs));
    return Object.assign(endJob(job, "TIMEOUT", context), { error, history });
  }
  if (!isOut(job.state) || context.nowMs < job.dueMs) return null;
  const error = { name: "AttemptLost", message: `no result of attempt ${job.attempt} within the dispatch deadline` };
  return retryOrEnd(job, "lost", error, "unclassified", undefined, context);
}

/** A step that waits for people, for the clock or for another run was sent to nobody, whatever anybody says. */
const isForWorkers = ({ step }: Job): boolean => step === undefined || step.kind === "worker";

/** With a worker, as far as we know. */
const isOut = (state: JobState): boolean => state === "DISPATCHED" || state === "RUNNING";

export function retryOrEnd(
  job: Job,
  outcome: JobEvent,
  error: WireError,
  retryClass: RetryClass,
  askedMs: number | undefined,
  context: DecisionContext,
): Job {
  const { delayMs, setBy } = chooseDelay(job, retryClass, askedMs, context);
  const isFailure = outcome === "failed" || outcome === "lost";
  const failures = (job.failures ?? 0) + 1;
  const counted = isFailure ? { failures } : {};
  const facts = { error, ...counted, ...waitFor(job, retryClass, outcome, error.message, delayMs, setBy, context) };
  const spent = facts.patience[retryClass];
  const isOver = spent && isBudgetExhausted(budgetOf(job, retryClass, context), spent, context.nowMs, job.deadlineMs);
  if (isOver || (isFailure && failures > retriesMaxOf(job))) {
    const history = appendHistory(job, historyLine(job, outcome, error.message, context.nowMs));
    return Object.assign(endJob(job, outcome === "failed" ? "FAILED" : "TIMEOUT", context), {
      error,
      ...counted,
      history,
    });
  }
  // One that has not begun stays what it is.
  const isBegun = job.state !== "PENDING" && job.state !== "RETRYING";
  return Object.assign(isBegun ? moveJob(job, "RETRYING", context.nowMs) : { ...job }, facts);
}

/** A step that says how often it is tried says so for what states no class; other classes end when theirs does, too. */
function budgetOf({ step }: Job, retryClass: RetryClass, { settings }: DecisionContext): Budget {
  if (retryClass === "unclassified" && step?.retry) return { kind: "count", max: step.retry.retriesMax + 1 };
  return settings.retry[retryClass].budget;
}

/**
 * A step says how often it is tried again, and a rule may allow fewer retries than the budget of the class does: in this
 * life, and what was only waited for is none.
 */
function retriesMaxOf({ step, safety }: Job): number {
  const ofRule = safety?.constraints?.budgets?.maxRetries ?? Number.POSITIVE_INFINITY;
  return Math.min(ofRule, step?.retry?.retriesMax ?? Number.POSITIVE_INFINITY);
}
