import { reserveBudgets } from "../../core/jobs/budget.ts";
import {
  type Amounts,
  BUDGET_ORGS_GROUP,
  BUDGET_UNITS,
  type BudgetPer,
  type BudgetUnit,
  budgetCounter,
  budgetGroup,
  budgetNamed,
  dayOf,
} from "../../core/model/budgets/hold.ts";
import type { Job } from "../../core/model/job.ts";
import type { Needs } from "../engine.ts";

/** The use of one budget by a tenant; reservations count as used. */
export interface BudgetUse {
  readonly org: string;
  readonly ruleId: string;
  readonly per: BudgetPer;
  readonly key: string;
  readonly limit: Amounts;
  readonly used: Amounts;
}

/** Budgets of a tenant by tenant, day and label under the policy in force, the most used first. */
export async function readBudgets(engine: Needs<"world" | "kernel">, org: string): Promise<readonly BudgetUse[]> {
  const limits = limitsInForce(engine);
  if (limits.size === 0) return [];
  const { store, clock } = engine.world;
  const today = dayOf(clock.now());
  const uses = new Map<string, { use: BudgetUse; used: Partial<Record<BudgetUnit, number>> }>();
  const counts = await Promise.all(BUDGET_UNITS.map((unit) => store.counts(budgetGroup(unit, org), COUNTED_MAX)));
  for (const [at, unit] of BUDGET_UNITS.entries()) {
    for (const [name, amount] of counts[at] ?? []) {
      const budget = budgetNamed(name);
      const limit = limits.get(`${budget.per} ${budget.ruleId}`);
      if (limit === undefined || (budget.per === "day" && budget.key !== today)) continue;
      const used: Partial<Record<BudgetUnit, number>> = uses.get(name)?.used ?? {};
      used[unit] = amount;
      uses.set(name, { use: { org, ...budget, limit, used }, used });
    }
  }
  const all = [...uses.values()].map(({ use }) => use);
  return all.sort((a, b) => shareOf(b) - shareOf(a)).slice(0, SHOWN_MAX);
}

/** The budgets that a job counts towards, as they are now; limits are those of its decision. */
export async function budgetsOfJob({ world }: Needs<"world">, job: Job): Promise<readonly BudgetUse[]> {
  const { store, clock } = world;
  const { org } = job;
  const holds = reserveBudgets(job, clock.now()) ?? [];
  if (holds.length === 0) return [];
  const watch = holds.flatMap((hold) => BUDGET_UNITS.map((unit) => budgetCounter(unit, org, hold)));
  const committed = await store.commit({ org, atMs: clock.now(), puts: [], guards: [], sends: [], watch });
  const seen = committed.kind === "committed" ? committed.seen : [];
  return holds.map(({ ruleId, per, key, limit }, at) => {
    const [tokens = 0, microUsd = 0] = seen.slice(at * BUDGET_UNITS.length);
    return { org, ruleId, per, key, limit, used: { tokens, microUsd } };
  });
}

/** Of the tenants that use budgets, at most `TENANTS_MAX`. */
export async function readAllBudgets(engine: Needs<"world" | "kernel">): Promise<readonly BudgetUse[]> {
  if (limitsInForce(engine).size === 0) return [];
  const orgs = await engine.world.store.counts(BUDGET_ORGS_GROUP, TENANTS_MAX);
  const all = await Promise.all([...orgs.keys()].map((org) => readBudgets(engine, org)));
  return all
    .flat()
    .sort((a, b) => shareOf(b) - shareOf(a))
    .slice(0, SHOWN_MAX);
}

/** The used share of the unit that is used most. */
export function shareOf({ limit, used }: Pick<BudgetUse, "limit" | "used">): number {
  return Math.max(0, ...BUDGET_UNITS.map((unit) => (used[unit] ?? 0) / (limit[unit] ?? Number.POSITIVE_INFINITY)));
}

function limitsInForce({ kernel }: Needs<"kernel">): ReadonlyMap<string, Amounts> {
  const limits = new Map<string, Amounts>();
  for (const { id, budget } of kernel.inForce.snapshot.document.rules) {
    for (const { per, tokens, usd } of budget ?? []) {
      if (per === "job" || per === "run") continue;
      limits.set(`${per} ${id}`, {
        ...(tokens === undefined ? {} : { tokens }),
        ...(usd === undefined ? {} : { microUsd: Math.round(usd * 1e6) }),
      });
    }
  }
  return limits;
}

const COUNTED_MAX = 1_000;
const SHOWN_MAX = 100;
const TENANTS_MAX = 50;
