import { exhaustedText, reserveBudgets } from "../../core/jobs/budget.ts";
import {
  addAmounts,
  BUDGET_UNITS,
  type BudgetHold,
  type BudgetUnit,
  budgetCounter,
  dayOf,
  endOfDay,
  SPENT,
  type SpentRecord,
  spentGroup,
  spentId,
} from "../../core/model/budgets/hold.ts";
import type { Job } from "../../core/model/job.ts";
import { type Guard, type Put, put } from "../../ports/store.ts";
import type { Needs } from "../engine.ts";

/**
 * Budgets in the store: guards of the dispatching commit, and the spent amounts of removed jobs.
 *
 * A submission that has no room is refused with `BudgetExhausted`; an admitted job ends with its error.
 */
export class BudgetExhausted extends Error {
  override readonly name = "BudgetExhausted";
  /** Of the wire protocol. */
  readonly code = "RESOURCE_EXHAUSTED";
  readonly retryNever = true;
  readonly facts: BudgetFacts;

  constructor(refusal: BudgetRefusal) {
    super(refusal.text);
    this.facts = refusal.facts;
  }
}

export interface BudgetFacts {
  readonly rule_id: string;
  readonly per: string;
  readonly key: string;
  readonly unit: "tokens" | "usd";
  readonly needed: number;
  readonly remaining: number;
  readonly limit: number;
}

export interface BudgetRefusal {
  readonly text: string;
  readonly facts: BudgetFacts;
}

const NONE: readonly Guard[] = [];

/** `sent` is the job as dispatched: its reservations are part of the guarded counters. */
export function budgetGuards({ org, budgets }: Job): readonly Guard[] {
  if (budgets === undefined) return NONE;
  return eachLimit(budgets).map(({ hold, unit, limit }) => ({
    kind: "counter",
    counter: budgetCounter(unit, org, hold),
    max: limit,
  }));
}

/** For a new job that enters the backlog, and reserves only with its dispatch: room for it now. */
export function roomGuards(job: Job, nowMs: number): readonly Guard[] {
  if (job.safety?.budgets === undefined || job.state !== "SCHEDULED") return NONE;
  return eachLimit(reserveBudgets(job, nowMs) ?? []).map(({ hold, unit, limit }) => ({
    kind: "counter",
    counter: budgetCounter(unit, job.org, hold),
    max: limit - (hold.reserved[unit] ?? 0),
  }));
}

/** What a refused guard says about the job that was to be dispatched; null if the guard is of no budget. */
export function budgetRefusal(job: Job, guard: Guard, used: number, nowMs: number): BudgetRefusal | null {
  if (guard.kind !== "counter") return null;
  const { counter } = guard;
  for (const { hold, unit, limit } of eachLimit(reserveBudgets(job, nowMs) ?? [])) {
    const own = budgetCounter(unit, job.org, hold);
    if (own.group !== counter.group || own.name !== counter.name) continue;
    const needed = hold.reserved[unit] ?? 0;
    const scale = unit === "tokens" ? 1 : 1e-6;
    const facts = {
      rule_id: hold.ruleId,
      per: hold.per,
      key: hold.key,
      unit: unit === "tokens" ? ("tokens" as const) : ("usd" as const),
      needed: needed * scale,
      remaining: Math.max(0, limit - used) * scale,
      limit: limit * scale,
    };
    return { text: exhaustedText(hold, unit, { needed, used, limit }), facts };
  }
  return null;
}

export function isBudgetGuard(guard: Guard): boolean {
  return guard.kind === "counter" && BUDGET_UNITS.some((unit) => guard.counter.group.startsWith(`budget_${unit}`));
}

export function countExhausted({ world }: Needs<"world">, { facts }: BudgetRefusal): void {
  world.metrics.add("cordum_budget_exhausted_total", { unit: facts.unit });
}

function eachLimit(holds: readonly BudgetHold[]) {
  const found: { readonly hold: BudgetHold; readonly unit: BudgetUnit; readonly limit: number }[] = [];
  for (const hold of holds) {
    for (const unit of BUDGET_UNITS) {
      const limit = hold.limit[unit];
      if (limit !== undefined && hold.reserved[unit] !== undefined) found.push({ hold, unit, limit });
    }
  }
  return found;
}

/**
 * What a job spent stays counted when the job is removed after its retention: the amounts move to a record in the same
 * commit. Budgets of the job itself, and of days that are over, end with it.
 */
export async function carrySpent(engine: Needs<"world" | "settings">, job: Job): Promise<readonly Put[]> {
  const { budgets = [], org } = job;
  const nowMs = engine.world.clock.now();
  const kept = budgets.filter((hold) => spentOf(hold) > 0 && hold.per !== "job" && !isOver(hold, nowMs));
  if (kept.length === 0) return [];
  const puts = await Promise.all(
    kept.map(async (hold): Promise<Put | null> => {
      const id = spentId(org, hold);
      const found = await engine.world.store.load(SPENT, id);
      if (found === null && (await isFull(engine, org))) return null;
      const { ruleId, per, key } = hold;
      const spent = addAmounts(found?.value.spent ?? {}, hold.spent);
      const value: SpentRecord = { org, ruleId, per, key, spent, dueMs: keptUntil(engine, hold, nowMs) };
      return put(SPENT, id, found, value);
    }),
  );
  return puts.filter((one) => one !== null);
}

const spentOf = ({ spent }: BudgetHold): number => (spent.tokens ?? 0) + (spent.microUsd ?? 0);

const isOver = ({ per, key }: BudgetHold, nowMs: number): boolean => per === "day" && key < dayOf(nowMs);

function keptUntil({ settings }: Needs<"settings">, { per, key }: BudgetHold, nowMs: number): number | null {
  if (per === "day") return endOfDay(key);
  return per === "run" ? nowMs + settings.current.run.deadlineMs : null;
}

/** Labels are chosen by clients: beyond the limit, what removed jobs of further labels spent ends with them. */
async function isFull({ world, settings }: Needs<"world" | "settings">, org: string): Promise<boolean> {
  const counts = await world.store.counts(spentGroup(org), 1);
  return (counts.get("keys") ?? 0) >= settings.current.limits.policyKeysMax;
}
