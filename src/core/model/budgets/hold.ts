/**
 * What a job reserves of the budgets of its rule, and what it has spent.
 *
 * 1. The counters of a budget follow from the records: what jobs spent, and what those with workers reserve. A reservation
 *    ends with the state, so it cannot leak, and a guard of the dispatching commit keeps the total within the limit.
 * 2. Money is counted in millionths of a dollar: sums are exact.
 */
import { createHash } from "node:crypto";
import type { Count, CounterName, Placement, Table } from "../table.ts";

export const BUDGET_UNITS = ["tokens", "microUsd"] as const;
export type BudgetUnit = (typeof BUDGET_UNITS)[number];
/** Absent: the budget does not limit the unit. */
export type Amounts = Readonly<Partial<Record<BudgetUnit, number>>>;

export type BudgetPer = "job" | "run" | "tenant" | "day" | `label:${string}`;

export interface BudgetHold {
  readonly ruleId: string;
  readonly per: BudgetPer;
  /** The value of `per`: an id, a day such as `2026-01-31`, a label. */
  readonly key: string;
  readonly limit: Amounts;
  /** For the last attempt; counts while it is with a worker. */
  readonly reserved: Amounts;
  readonly spent: Amounts;
}

/** Budgets of single jobs and runs are apart: they are many, and no list shows them. */
export const budgetGroup = (unit: BudgetUnit, org: string, per?: BudgetPer): string =>
  `budget_${unit}${per === "job" || per === "run" ? "_each" : ""}/${org}`;

/** Keys are chosen by clients: long ones are replaced by their digest. */
export function budgetName({ ruleId, per, key }: Pick<BudgetHold, "ruleId" | "per" | "key">): string {
  const short =
    key.length <= KEY_LENGTH_MAX ? key : `sha256:${createHash("sha256").update(key).digest("base64url").slice(0, 32)}`;
  return JSON.stringify([ruleId, per, short]);
}

export const budgetCounter = (unit: BudgetUnit, org: string, hold: Pick<BudgetHold, "ruleId" | "per" | "key">) =>
  ({ group: budgetGroup(unit, org, hold.per), name: budgetName(hold) }) satisfies CounterName;

/** The name of a counter, read back. */
export function budgetNamed(name: string): Pick<BudgetHold, "ruleId" | "per" | "key"> {
  const [ruleId, per, key] = JSON.parse(name) as [string, BudgetPer, string];
  return { ruleId, per, key };
}

/** Tenants with budgets in use, for gauges. */
export const BUDGET_ORGS_GROUP = "budget_orgs";

/** `counters` with those of the budgets. */
export function withBudgets(
  counters: readonly Count[],
  org: string,
  holds: readonly BudgetHold[] | undefined,
  isWithWorker: boolean,
): readonly Count[] {
  if (holds === undefined || holds.length === 0) return counters;
  const all: Count[] = [...counters, { group: BUDGET_ORGS_GROUP, name: org }];
  for (const hold of holds) {
    for (const unit of BUDGET_UNITS) {
      const by = (hold.spent[unit] ?? 0) + (isWithWorker ? (hold.reserved[unit] ?? 0) : 0);
      if (hold.limit[unit] !== undefined && by > 0) all.push({ ...budgetCounter(unit, org, hold), by });
    }
  }
  return all;
}

/** What removed jobs spent of a budget. Kept for a day for budgets by day, and without end for tenants and labels. */
export interface SpentRecord {
  readonly org: string;
  readonly ruleId: string;
  readonly per: BudgetPer;
  readonly key: string;
  readonly spent: Amounts;
  readonly dueMs: number | null;
}

/** Counts the records of a tenant. */
export const spentGroup = (org: string): string => `budget_spent/${org}`;

export const SPENT: Table<SpentRecord> = {
  name: "budget_spent",
  placement({ org, spent, dueMs, ...budget }): Placement {
    const counters: Count[] = [
      { group: BUDGET_ORGS_GROUP, name: org },
      { group: spentGroup(org), name: "keys" },
    ];
    for (const unit of BUDGET_UNITS) {
      const by = spent[unit] ?? 0;
      if (by > 0) counters.push({ ...budgetCounter(unit, org, budget), by });
    }
    return { lists: [], queue: null, counters, dueMs };
  },
};

export const spentId = (org: string, hold: BudgetHold): string =>
  createHash("sha256")
    .update(JSON.stringify([org, budgetName(hold)]))
    .digest("base64url")
    .slice(0, 32);

/** The spent amounts of both; units that neither has are absent. */
export function addAmounts(a: Amounts, b: Amounts): Amounts {
  const sum: Partial<Record<BudgetUnit, number>> = {};
  for (const unit of BUDGET_UNITS) {
    const total = (a[unit] ?? 0) + (b[unit] ?? 0);
    if (total > 0) sum[unit] = total;
  }
  return sum;
}

/** The day of a budget, in UTC. */
export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
export const endOfDay = (day: string): number => Date.parse(`${day}T00:00:00Z`) + 24 * 3_600_000;

const KEY_LENGTH_MAX = 128;
