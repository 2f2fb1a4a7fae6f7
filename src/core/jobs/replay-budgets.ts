/**
 * The budgets of a policy over recorded jobs, in order of time.
 *
 * 1. A job reserves when it was dispatched last, and spends when it ended, what the record says: the settled amounts, else
 *    the reported usage, else for a success the reservation.
 * 2. A job that ran under no earlier decision (it was denied, or refused for a budget) spends its reservation at once.
 * 3. Budgets start unspent. A job that has no room spends nothing.
 */
import { BUDGET_UNITS, type BudgetUnit, budgetName } from "../model/budgets/hold.ts";
import { isFinal, type Job } from "../model/job.ts";
import type { ReplayedDecision } from "../policy/limits/replay.ts";
import { BUDGET_EXHAUSTED, reserveBudgets, usageOf } from "./budget.ts";

export interface RecordedSpend {
  readonly ruleId: string;
  readonly per: string;
  /** Of the counter. */
  readonly name: string;
  readonly limit: number;
  readonly reserved: number;
  readonly spent: number;
}

export interface RecordedSpends {
  readonly fromMs: number;
  /** Null: the job is open. */
  readonly untilMs: number | null;
  readonly spends: readonly RecordedSpend[];
}

/** Null if the job reserved nothing: it was not dispatched, or the decision has no budget. */
export function recordedSpends(job: Job, decision: ReplayedDecision, atMs: number): RecordedSpends | null {
  const { budgets, effect, ruleId } = decision;
  const wasRefused = job.state === "DENIED" || job.error?.name === BUDGET_EXHAUSTED;
  if (budgets === undefined || (job.attempt === 0 && !wasRefused)) return null;
  const fromMs = wasRefused ? atMs : Math.max(atMs, job.dispatchedMs ?? atMs);
  const { budgets: _, ...unspent } = job;
  const safety = { effect, ruleId, reason: "", snapshot: "", budgets };
  const spends = (reserveBudgets({ ...unspent, safety }, fromMs) ?? []).flatMap((hold) =>
    BUDGET_UNITS.flatMap((unit): RecordedSpend[] => {
      const [limit, reserved] = [hold.limit[unit], hold.reserved[unit]];
      if (limit === undefined || reserved === undefined) return [];
      const name = `${unit} ${budgetName(hold)}`;
      const spent = wasRefused ? reserved : spentOf(job, unit, reserved);
      return [{ ruleId: hold.ruleId, per: hold.per, name, limit, reserved, spent }];
    }),
  );
  if (spends.length === 0) return null;
  return { fromMs, untilMs: wasRefused ? fromMs : isFinal(job.state) ? Math.max(fromMs, job.updatedMs) : null, spends };
}

function spentOf({ budgets = [], resultDetails, state }: Job, unit: BudgetUnit, reserved: number): number {
  const settled = budgets.flatMap(({ spent }) => spent[unit] ?? []);
  if (settled.length > 0) return Math.max(...settled);
  return usageOf(resultDetails?.usage)[unit] ?? (state === "SUCCEEDED" ? reserved : 0);
}

/** A reservation, or its end. */
export interface BudgetEvent<T> {
  readonly atMs: number;
  readonly job: T & RecordedSpends;
  readonly isEnd: boolean;
}

/** Of the events of one millisecond, ends come first. */
export function budgetEvents<T>(jobs: readonly (T & RecordedSpends)[]): readonly BudgetEvent<T>[] {
  const events = jobs.flatMap((job): BudgetEvent<T>[] => {
    const start = { atMs: job.fromMs, job, isEnd: false };
    return job.untilMs === null ? [start] : [start, { atMs: job.untilMs, job, isEnd: true }];
  });
  return events.sort((a, b) => a.atMs - b.atMs || order(a) - order(b));
}

/** A job that ends in the millisecond of its start reserves first. */
const order = ({ isEnd, job }: BudgetEvent<unknown>): number => (!isEnd ? 1 : job.untilMs === job.fromMs ? 2 : 0);

export class BudgetReplay {
  readonly #used = new Map<string, number>();
  readonly #refused = new WeakSet<RecordedSpends>();

  /** Called in order of time. The budget that has no room for the job; null if all have, and for ends. */
  apply({ job, isEnd }: BudgetEvent<unknown>): RecordedSpend | null {
    if (isEnd) {
      if (this.#refused.has(job)) return null;
      for (const { name, reserved, spent } of job.spends) this.#add(name, spent - reserved);
      return null;
    }
    const full = job.spends.find(({ name, limit, reserved }) => (this.#used.get(name) ?? 0) + reserved > limit);
    if (full !== undefined) {
      this.#refused.add(job);
      return full;
    }
    for (const { name, reserved } of job.spends) this.#add(name, reserved);
    return null;
  }

  #add(name: string, amount: number): void {
    this.#used.set(name, (this.#used.get(name) ?? 0) + amount);
  }
}
