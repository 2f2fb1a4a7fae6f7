import { appendHistory, type HistoryLine, type Job, type JobEvent } from "../model/job.ts";
import { moveJob } from "../model/move-job.ts";
import type { StepRetry } from "../model/step-ref.ts";
import type { Writable } from "../model/writable.ts";
import { recordFailure } from "../retry/budget.ts";
import type { RetryClass } from "../retry/classes.ts";
import { delayFor } from "../retry/failure.ts";
import { formatPolicy } from "../retry/policies.ts";
import type { Settings } from "../settings.ts";

/** What the decisions about a job share: what they are given, how a wait and an end are written down. */
export interface DecisionContext {
  readonly nowMs: number;
  readonly settings: Settings;
  readonly random: () => number;
}

/** How long to wait: as the worker asked, or as the policy of the class says. */
export function chooseDelay(job: Job, retryClass: RetryClass, askedMs: number | undefined, context: DecisionContext) {
  if (askedMs !== undefined) return { delayMs: askedMs, setBy: "worker" };
  const { retry } = context.settings;
  if (retryClass === "unclassified" && job.step?.retry) {
    const attempt = (job.patience.unclassified?.count ?? 0) + 1;
    return { delayMs: backoffOf(job.step.retry, attempt, context.random), setBy: "the step's `retry`" };
  }
  const delayMs = delayFor(retryClass, { settings: retry, retryState: job.patience, random: context.random });
  return { delayMs, setBy: formatPolicy(retry[retryClass].policy) };
}

/** What a step's own `retry` says; attempts count from 1. Jitter spreads at the cap as well. */
export function backoffOf(retry: StepRetry, attempt: number, random: () => number): number {
  const backoffMs = Math.min(retry.maxMs, retry.initialMs * retry.multiplier ** (attempt - 1));
  switch (retry.jitter) {
    case "full":
      return backoffMs * random();
    case "equal":
      return backoffMs * (0.5 + random() / 2);
    case "none":
      return backoffMs;
    default:
      return retry.jitter satisfies never;
  }
}

/** The facts of a job that waits for its next try. */
export function waitFor(
  job: Job,
  retryClass: RetryClass,
  event: JobEvent,
  reason: string,
  delayMs: number,
  setBy: string,
  context: DecisionContext,
) {
  const untilMs = Math.ceil(context.nowMs + delayMs);
  return {
    patience: recordFailure(job.patience, retryClass, context.nowMs, delayMs),
    wait: { retryClass, reason, untilMs, setBy },
    dueMs: Math.min(untilMs, job.deadlineMs),
    updatedMs: context.nowMs,
    history: appendHistory(job, {
      ...historyLine(job, event, reason, context.nowMs),
      retry: { retryClass, delayMs, setBy },
    }),
  };
}

/** Written out: spreading what may be absent takes longer than all the rest of a move. */
export function historyLine(
  { attempt }: Job,
  event: JobEvent,
  why: string | undefined,
  atMs: number,
  who?: string,
): HistoryLine {
  if (who === undefined) return why === undefined ? { atMs, event, attempt } : { atMs, event, attempt, why };
  return why === undefined ? { atMs, event, attempt, who } : { atMs, event, attempt, why, who };
}

type End = "SUCCEEDED" | "FAILED" | "CANCELLED" | "TIMEOUT" | "DENIED";

/** A final state: kept for the retention time, then removed. */
export function endJob(job: Job, state: End, { nowMs, settings }: DecisionContext): Writable<Job> {
  const ended = moveJob(job, state, nowMs);
  ended.patience = {};
  ended.dueMs = nowMs + settings.retention.jobsMs;
  return ended;
}
