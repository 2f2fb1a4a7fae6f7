/** Budgets of the policy: on a job, and by tenant. Money is in dollars. */
import { Type } from "typebox";
import type { Amounts, BudgetHold, BudgetUnit } from "../../core/model/budgets/hold.ts";
import type { Job } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { type BudgetUse, shareOf } from "../../engine/limits/index.ts";
import { USAGE_MAX } from "../../protocol/usage.ts";

const COUNT = Type.Optional(Type.Integer({ minimum: 0, maximum: USAGE_MAX.tokens }));

export const USAGE = Type.Object(
  {
    input_tokens: COUNT,
    output_tokens: COUNT,
    total_tokens: Type.Optional(
      Type.Integer({ minimum: 0, maximum: USAGE_MAX.tokens, description: "Default: the sum of the other two." }),
    ),
    cost_usd: Type.Optional(Type.Number({ minimum: 0, maximum: USAGE_MAX.usd })),
  },
  { title: "Usage", description: "What the attempt used; settles the budgets of the policy." },
);

const BUDGET_ID = {
  rule_id: Type.String(),
  per: Type.String({ description: "`job`, `run`, `tenant`, `day` or `label:NAME`." }),
  key: Type.String({ description: "The job, run, day (UTC) or label; empty for a tenant." }),
};
const held = () => Type.Optional(Type.Object({ limit: Type.Number(), reserved: Type.Number(), spent: Type.Number() }));
export const BUDGET_HOLD = Type.Object({ ...BUDGET_ID, tokens: held(), usd: held() }, { title: "JobBudget" });

const used = () => Type.Optional(Type.Object({ limit: Type.Number(), used: Type.Number(), remaining: Type.Number() }));
export const BUDGET_USE = Type.Object(
  {
    tenant: Type.String(),
    ...BUDGET_ID,
    tokens: used(),
    usd: used(),
    share: Type.Number({
      description: "The used share of the unit that is used most; above 1 if a report exceeded it.",
    }),
  },
  { title: "BudgetUse" },
);

export function holdView(job: Job, { ruleId, per, key, limit, reserved, spent }: BudgetHold): object {
  const isReserving = job.state === "DISPATCHED" || job.state === "RUNNING";
  const of = (unit: BudgetUnit) => {
    const [max, kept] = [amountIn(limit, unit), isReserving ? amountIn(reserved, unit) : 0];
    return max === undefined ? undefined : { limit: max, reserved: kept ?? 0, spent: amountIn(spent, unit) ?? 0 };
  };
  return { rule_id: ruleId, per, key: per === "job" ? clientJobId(job.org, key) : key, ...unitsOf(of) };
}

export function budgetUseView(use: BudgetUse): object {
  const of = (unit: BudgetUnit) => {
    const [max, spent] = [amountIn(use.limit, unit), amountIn(use.used, unit) ?? 0];
    return max === undefined ? undefined : { limit: max, used: spent, remaining: Math.max(0, rounded(max - spent)) };
  };
  const { org, ruleId, per, key } = use;
  return { tenant: org, rule_id: ruleId, per, key, ...unitsOf(of), share: Math.round(shareOf(use) * 1e4) / 1e4 };
}

function unitsOf(of: (unit: BudgetUnit) => object | undefined): object {
  const [tokens, usd] = [of("tokens"), of("microUsd")];
  return { ...(tokens === undefined ? {} : { tokens }), ...(usd === undefined ? {} : { usd }) };
}

function amountIn(amounts: Amounts, unit: BudgetUnit): number | undefined {
  const amount = amounts[unit];
  return amount === undefined || unit === "tokens" ? amount : rounded(amount / 1e6);
}

const rounded = (amount: number): number => Math.round(amount * 1e6) / 1e6;
