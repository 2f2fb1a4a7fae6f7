import type { JobResult } from "../../protocol/packet.ts";
import { type Amounts, addAmounts, BUDGET_UNITS, type BudgetHold, dayOf } from "../model/budgets/hold.ts";
import { appendHistory, type Job } from "../model/job.ts";
import type { BudgetTerms } from "../policy/decision.ts";
import { type DecisionContext, endJob, historyLine } from "./transitions.ts";

/**
 * Budgets of a job: reserved with each dispatch, settled with each result.
 *
 * 1. A reservation is the most that the request allows (`budget.max_total_tokens`), else what the rule reserves.
 * 2. A success spends the reported usage, or without a report the reservation. A failed attempt spends what it reports,
 *    and a lost one nothing: its reservation ends with its state.
 * 3. Usage above the reservation counts in full, so that the next reservation is refused.
 */
export function reserveBudgets(job: Job, nowMs: number): readonly BudgetHold[] | undefined {
  const terms = job.safety?.budgets;
  if (terms === undefined) return job.budgets?.map((hold) => ({ ...hold, reserved: {} }));
  const ruleId = job.safety?.ruleId ?? "";
  const current = terms.map((budget): BudgetHold => {
    const { per } = budget;
    const key = keyOf(job, budget, nowMs);
    const known = job.budgets?.find((hold) => hold.ruleId === ruleId && hold.per === per && hold.key === key);
    return { ruleId, per, key, limit: limitOf(budget), reserved: estimateOf(job, budget), spent: known?.spent ?? {} };
  });
  // Earlier days and policies: what was spent stays.
  const earlier = (job.budgets ?? []).filter(
    (hold) =>
      hasSpent(hold) &&
      !current.some((one) => one.ruleId === hold.ruleId && one.per === hold.per && one.key === hold.key),
  );
  return [...current, ...earlier.slice(-EARLIER_MAX).map((hold) => ({ ...hold, reserved: {} }))];
}

/** The budgets after a result; undefined if the job has none. */
export function settleBudgets(
  { budgets }: Job,
  { usage, status }: Pick<JobResult, "usage" | "status">,
): readonly BudgetHold[] | undefined {
  return budgets?.map((hold) => {
    const used: { tokens?: number; microUsd?: number } = {};
    const isReserved = hold.reserved.tokens !== undefined || hold.reserved.microUsd !== undefined;
    for (const unit of BUDGET_UNITS) {
      if (!isReserved || hold.limit[unit] === undefined) continue;
      const spent = usageOf(usage)[unit] ?? (status === "succeeded" ? hold.reserved[unit] : undefined);
      if (spent !== undefined) used[unit] = spent;
    }
    return { ...hold, spent: addAmounts(hold.spent, used), reserved: {} };
  });
}

/** The job has no room in a budget: it ends, and is never retried. */
export function exhaustBudget(job: Job, why: string, context: DecisionContext): Job {
  const history = appendHistory(job, historyLine(job, "failed", why, context.nowMs));
  const error = { name: BUDGET_EXHAUSTED, message: why, code: "budget_exhausted", retryNever: true } as const;
  return Object.assign(endJob(job, "FAILED", context), { error, history });
}

export const BUDGET_EXHAUSTED = "BudgetExhausted";

/** `usedAmount` includes the reservations of other jobs. */
export function exhaustedText(
  { ruleId, per, key }: Pick<BudgetHold, "ruleId" | "per" | "key">,
  unit: "tokens" | "microUsd",
  { needed, used, limit }: { readonly needed: number; readonly used: number; readonly limit: number },
): string {
  const of = per === "tenant" || key === "" ? per : `${per} \`${key}\``;
  return (
    `budget of rule \`${ruleId}\` per ${of} exhausted: ${amountText(unit, needed)} needed, ` +
    `${amountText(unit, Math.max(0, limit - used))} left of ${amountText(unit, limit)}`
  );
}

export const amountText = (unit: "tokens" | "microUsd", amount: number): string =>
  unit === "tokens" ? `${amount} tokens` : `${amount / MICRO} USD`;

function keyOf(job: Job, { per }: BudgetTerms, nowMs: number): string {
  switch (per) {
    case "job":
      return job.id;
    case "run":
      // A job without a run is a run of one.
      return job.step?.runId ?? job.id;
    case "tenant":
      return "";
    case "day":
      return dayOf(nowMs);
    default: {
      const name = per.slice("label:".length);
      return Object.hasOwn(job.labels, name) ? (job.labels[name] ?? "") : "";
    }
  }
}

const limitOf = ({ tokens, usd }: BudgetTerms): Amounts => ({
  ...(tokens === undefined ? {} : { tokens }),
  ...(usd === undefined ? {} : { microUsd: Math.round(usd * MICRO) }),
});

function estimateOf({ details }: Job, { tokens, usd, reserveTokens, reserveUsd }: BudgetTerms): Amounts {
  const asked = requestedTokens(details?.budget);
  return {
    ...(tokens === undefined ? {} : { tokens: asked ?? reserveTokens ?? Math.min(RESERVE_TOKENS, tokens) }),
    ...(usd === undefined ? {} : { microUsd: Math.round((reserveUsd ?? Math.min(RESERVE_USD, usd)) * MICRO) }),
  };
}

/** The most tokens that the request allows; undefined if it states none. */
function requestedTokens(budget: NonNullable<Job["details"]>["budget"]): number | undefined {
  const { maxTotalTokens, maxInputTokens, maxOutputTokens } = budget ?? {};
  const total = Number(maxTotalTokens ?? Number(maxInputTokens ?? 0) + Number(maxOutputTokens ?? 0));
  return total > 0 ? Math.min(total, Number.MAX_SAFE_INTEGER) : undefined;
}

function tokensOf(usage: JobResult["usage"]): number | undefined {
  if (usage === undefined) return undefined;
  const { totalTokens, inputTokens, outputTokens } = usage;
  if (totalTokens === undefined && inputTokens === undefined && outputTokens === undefined) return undefined;
  return totalTokens ?? (inputTokens ?? 0) + (outputTokens ?? 0);
}

const microUsdOf = (usage: JobResult["usage"]): number | undefined =>
  usage?.costUsd === undefined ? undefined : Math.ceil(usage.costUsd * MICRO);

/** The reported usage. */
export function usageOf(usage: JobResult["usage"]): Amounts {
  const [tokens, microUsd] = [tokensOf(usage), microUsdOf(usage)];
  return { ...(tokens === undefined ? {} : { tokens }), ...(microUsd === undefined ? {} : { microUsd }) };
}

const hasSpent = ({ spent }: BudgetHold): boolean => (spent.tokens ?? 0) + (spent.microUsd ?? 0) > 0;

const MICRO = 1_000_000;
const EARLIER_MAX = 8;
/** What a job reserves if neither it nor the rule states it; never more than the budget. */
const RESERVE_TOKENS = 4_096;
const RESERVE_USD = 0.1;
