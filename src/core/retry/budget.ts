/**
 * How much patience there is, and how much of it is used up.
 *
 * 1. Each class has its own account. Spending from one never changes another: a lock that is busy for minutes leaves
 *    the count of undecodable deliveries where it was.
 * 2. Every budget ends: waiting for a deadline, too, where the record has none (see `DEADLINE_MS_DEFAULT`).
 * 3. The accounts stand on the record that the message is about; the broker's delivery count is not one of them.
 */
import type { RetryClass } from "./classes.ts";
import { formatDuration, parseDuration, quote } from "./duration.ts";

export type Budget =
  /** So many tries may fail. */
  | { readonly kind: "count"; readonly max: number }
  /** Tries may fail for so long, beginning with the first failure. */
  | { readonly kind: "duration"; readonly ms: number }
  /** Tries may fail until the deadline of the job itself. */
  | { readonly kind: "until_deadline" };

/** What one class has used. */
export interface RetryUsage {
  /** How many tries have failed. */
  readonly count: number;
  /** When the first of them failed. */
  readonly sinceMs: number;
  /** The delay given after the last of them. */
  readonly lastDelayMs: number;
}

/** The accounts of one record. A class that is not there has used nothing. */
export type RetryState = Readonly<Partial<Record<RetryClass, RetryUsage>>>;

export const BUDGET_LIMITS = { countMax: 10_000, durationMsMax: 30 * 24 * 3_600_000 } as const;

/** How long a class waits for a deadline where the record has none of its own: a job's default life. */
export const DEADLINE_MS_DEFAULT = 24 * 3_600_000;

/** Books one failed try and the delay that it is given. */
export function recordFailure(
  retryState: RetryState,
  retryClass: RetryClass,
  nowMs: number,
  delayMs: number,
): RetryState {
  const before = retryState[retryClass];
  const spent: RetryUsage = {
    count: (before?.count ?? 0) + 1,
    sinceMs: before?.sinceMs ?? nowMs,
    lastDelayMs: delayMs,
  };
  return { ...retryState, [retryClass]: spent };
}

/**
 * Whether one more try is not allowed. To be asked after the failed try was booked with `spend`:
 *
 * - `count` 3: three tries fail, then the budget is spent.
 * - `duration` 10 min: spent once 10 minutes have passed since the first failure. A try that was planned before then
 *   still takes place, so the last one may come late by its own delay.
 * - `until_deadline`: spent once the deadline is reached. `deadlineMs` null means that the record has none.
 */
export function isBudgetExhausted(
  budget: Budget,
  spent: RetryUsage | undefined,
  nowMs: number,
  deadlineMs: number | null,
): boolean {
  const sinceMs = spent?.sinceMs ?? nowMs;
  switch (budget.kind) {
    case "count":
      return (spent?.count ?? 0) >= budget.max;
    case "duration":
      return nowMs - sinceMs >= budget.ms;
    case "until_deadline":
      return nowMs >= (deadlineMs ?? sinceMs + DEADLINE_MS_DEFAULT);
    default:
      return budget satisfies never;
  }
}

/** Reads the config syntax: `3` tries, `10m` of trying, or `deadline`. */
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

/** Writes the config syntax; `parseBudget` reads it back to the same budget. */
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
  throw new Error(`retry budget ${quote(digits)}: the number of tries is from 1 to ${BUDGET_LIMITS.countMax}`);
}
