import { appendHistory, type HistoryLine, type Job, type JobEvent, moveJob } from "../model/job.ts";
import type { StepRetry } from "../model/job-details.ts";
import type { Writable } from "../model/table.ts";
import { recordFailure } from "../retry/budget.ts";
import { delayFor } from "../retry/failure.ts";
import { formatPolicy } from "../retry/policies.ts";
import type { RetryClass } from "../retry/retry-classes.ts";
import type { Settings } from "../settings.ts";

/** Inputs shared by all decisions about a job. */
export interface DecisionContext {
  readonly nowMs: number;
  readonly settings: Settings;
  readonly random: () => number;
}

/** The delay requested by the worker, else the one of the class's policy. */
export function chooseDelay(
  job: Job,
  retryClass: RetryClass,
  requestedMs: number | undefined,
  context: DecisionContext,
) {
  if (requestedMs !== undefined) {
    return { delayMs: Math.max(0, Math.min(requestedMs, REQUESTED_MS_MAX)), setBy: "worker" };
  }
  const { retry } = context.settings;
  if (retryClass === "unclassified" && job.step?.retry) {
    const attempt = (job.patience.unclassified?.count ?? 0) + 1;
    return { delayMs: backoffOf(job.step.retry, attempt, context.random), setBy: "the step's `retry`" };
  }
  const delayMs = delayFor(retryClass, { settings: retry, retryState: job.patience, random: context.random });
  return { delayMs, setBy: formatPolicy(retry[retryClass].policy) };
}

/** Beyond any deadline of a job: `wait.untilMs` stays a time that can be shown. */
const REQUESTED_MS_MAX = 366 * 86_400_000;

/** Delay of a step's own `retry`; attempts count from 1. Jitter also applies at the cap. */
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

/** The fields of a job that waits for its next attempt. */
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

/** Hot path: object literals are much faster than spreading optional fields. */
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

/** Final states are kept for the retention time. */
export function endJob(job: Job, state: End, { nowMs, settings }: DecisionContext): Writable<Job> {
  const ended = moveJob(job, state, nowMs);
  ended.patience = {};
  ended.dueMs = nowMs + settings.retention.jobsMs;
  return ended;
}
