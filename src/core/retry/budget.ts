/**
 * Retry budgets and their usage.
 *
 * 1. Each class is counted separately: minutes of `lock_busy` do not change the count of undecodable deliveries.
 * 2. Every budget ends, also `until_deadline` on records without a deadline (`DEADLINE_MS_DEFAULT`).
 * 3. Usage is stored on the record that the message is about. The broker's delivery count is not used.
 * 4. The time budget of a message counts only while it is retried. Downtime of the control plane, and a jump of the
 *    cluster's time after it, do not exhaust the budget.
 */

import { formatDuration, parseDuration, quote } from "./duration.ts";
import type { RetryClass } from "./retry-classes.ts";

export type Budget =
  /** Maximum number of failed tries. */
  | { readonly kind: "count"; readonly max: number }
  /** Maximum time since the first failure, without idle time. */
  | { readonly kind: "duration"; readonly ms: number }
  /** Until the deadline of the job. */
  | { readonly kind: "until_deadline" };

/** Usage of one class. */
export interface RetryUsage {
  /** Failed tries. */
  readonly count: number;
  /** Time of the first failure. */
  readonly sinceMs: number;
  /** The delay after the latest failure. */
  readonly lastDelayMs: number;
  /** Messages: time of the latest failure. Absent in records of earlier versions. */
  readonly lastMs?: number;
  /** Messages: how much of the time since the first failure does not count (4). Absent: none. */
  readonly idleMs?: number;
}

/** Usage by class; an absent class has no failures. */
export type RetryState = Readonly<Partial<Record<RetryClass, RetryUsage>>>;

export const BUDGET_LIMITS = { countMax: 10_000, durationMsMax: 30 * 24 * 3_600_000 } as const;

/** Deadline for records without one: the default lifetime of a job. */
export const DEADLINE_MS_DEFAULT = 24 * 3_600_000;

/** Counts a failed try and its delay. */
export function recordFailure(
  retryState: RetryState,
  retryClass: RetryClass,
  nowMs: number,
  delayMs: number,
): RetryState {
  const before = retryState[retryClass];
  const usage: RetryUsage = {
    count: (before?.count ?? 0) + 1,
    sinceMs: before?.sinceMs ?? nowMs,
    lastDelayMs: delayMs,
  };
  return { ...retryState, [retryClass]: usage };
}

/** Counts a failed delivery of a message (4). A delivery that is overdue by more than `OVERDUE_MS_MAX` counts that much. */
export function recordDeliveryFailure(
  retryState: RetryState,
  retryClass: RetryClass,
  nowMs: number,
  delayMs: number,
): RetryState {
  const before = retryState[retryClass];
  const next = recordFailure(retryState, retryClass, nowMs, delayMs);
  const overdueMs = before?.lastMs === undefined ? 0 : nowMs - before.lastMs - before.lastDelayMs;
  const idleMs = (before?.idleMs ?? 0) + Math.max(0, overdueMs - OVERDUE_MS_MAX);
  const usage: RetryUsage = { ...next[retryClass]!, lastMs: nowMs, ...(idleMs > 0 && { idleMs }) };
  return { ...next, [retryClass]: usage };
}

/** Twice the default ack wait, after which the broker redelivers the messages of a crashed process. */
export const OVERDUE_MS_MAX = 60_000;

/**
 * Whether no further try is allowed. Call it after the failure is recorded:
 *
 * - `count` 3: exhausted after three failed tries.
 * - `duration` 10 min: exhausted 10 minutes after the first failure, without idle time. A try planned before that still
 *   runs, so the last one may be late by its own delay.
 * - `until_deadline`: exhausted at the deadline. `deadlineMs` is null for records without one: 24 hours after the first
 *   failure, without idle time.
 */
export function isBudgetExhausted(
  budget: Budget,
  usage: RetryUsage | undefined,
  nowMs: number,
  deadlineMs: number | null,
): boolean {
  const elapsedMs = nowMs - (usage?.sinceMs ?? nowMs) - (usage?.idleMs ?? 0);
  switch (budget.kind) {
    case "count":
      return (usage?.count ?? 0) >= budget.max;
    case "duration":
      return elapsedMs >= budget.ms;
    case "until_deadline":
      return deadlineMs === null ? elapsedMs >= DEADLINE_MS_DEFAULT : nowMs >= deadlineMs;
    default:
      return budget satisfies never;
  }
}

/** Parses the config syntax: `3` tries, `10m`, or `deadline`. */
export function parseBudget(text: string): Budget {
  const trimmed = text.trim();
  if (trimmed === "deadline") return { kind: "until_deadline" };
  if (/^\d+$/.test(trimmed)) return { kind: "count", max: parseCount(trimmed) };
  try {
    return { kind: "duration", ms: parseDuration(trimmed, { msMin: 1, msMax: BUDGET_LIMITS.durationMsMax }) };
  } catch (error) {
    const why = (error as Error).message;
    throw new Error(`retry budget ${quote(text)}: ${why}; examples are \`3\` (tries), \`10m\` and \`deadline\``);
  }
}

/** The inverse of `parseBudget`. */
export function formatBudget(budget: Budget): string {
  switch (budget.kind) {
    case "count":
      return String(budget.max);
    case "duration":
      return formatDuration(budget.ms);
    case "until_deadline":
      return "deadline";
    default:
      return budget satisfies never;
  }
}

function parseCount(digits: string): number {
  const max = Number(digits);
  if (max >= 1 && max <= BUDGET_LIMITS.countMax) return max;
  throw new Error(`retry budget ${quote(digits)}: the number of tries must be from 1 to ${BUDGET_LIMITS.countMax}`);
}
