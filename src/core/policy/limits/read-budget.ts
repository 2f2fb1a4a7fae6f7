/** Reads `budget` of a rule. */
import { isScalar, isSeq, type Node } from "yaml";
import type { BudgetPer } from "../../model/budgets/hold.ts";
import type { BudgetTerms } from "../decision.ts";
import { optionalField, present, type YamlFields } from "../yaml-fields.ts";

const BUDGET_KEYS = ["tokens", "usd", "per", "reserve_tokens", "reserve_usd"] as const;
const PER = ["job", "run", "tenant", "day"] as const;
const BOUNDS = { tokens: 1e12, usd: 1e9, budgets: 8 } as const;

/** One budget, or a list of them: each must have room. */
export function readBudgets(yaml: YamlFields, node: Node): readonly BudgetTerms[] {
  if (!isSeq(node)) return [readBudget(yaml, node)];
  if (node.items.length === 0) yaml.problem(node, "`budget` is an empty list; remove it");
  return yaml.list(node, "budget", BOUNDS.budgets).map((item) => readBudget(yaml, item));
}

function readBudget(yaml: YamlFields, node: Node): BudgetTerms {
  const fields = yaml.map(node, BUDGET_KEYS, "`budget` is a map, such as `{tokens: 100000, per: day}`");
  const number = (key: Exclude<(typeof BUDGET_KEYS)[number], "per">, isTokens: boolean) =>
    optionalField(fields, key, (value) => readAmount(yaml, value, key, isTokens));
  const [tokens, usd] = [number("tokens", true), number("usd", false)];
  const [reserveTokens, reserveUsd] = [number("reserve_tokens", true), number("reserve_usd", false)];
  if (tokens === undefined && usd === undefined) yaml.problem(node, "`budget` needs `tokens` or `usd`");
  if (reserveTokens !== undefined && tokens === undefined)
    yaml.problem(fields.get("reserve_tokens"), "`reserve_tokens` requires `tokens`");
  if (reserveUsd !== undefined && usd === undefined)
    yaml.problem(fields.get("reserve_usd"), "`reserve_usd` requires `usd`");
  return { per: readPer(yaml, node, fields.get("per")), ...present({ tokens, usd, reserveTokens, reserveUsd }) };
}

function readPer(yaml: YamlFields, budget: Node, node: Node | undefined): BudgetPer {
  if (node === undefined) {
    yaml.problem(budget, "`budget` needs `per`: `job`, `run`, `tenant`, `day` or `label:NAME`");
    return "tenant";
  }
  const text = yaml.text(node, "per");
  if (/^label:./.test(text)) return text as BudgetPer;
  return yaml.choice(node, "per", [...PER, "label:NAME" as const], "tenant");
}

function readAmount(yaml: YamlFields, node: Node, key: string, isTokens: boolean): number {
  const value = isScalar(node) ? node.value : undefined;
  const max = isTokens ? BOUNDS.tokens : BOUNDS.usd;
  // The smallest amount of money that is counted.
  const min = isTokens ? 1 : 0.000_001;
  const isGood = typeof value === "number" && value >= min && value <= max && (!isTokens || Number.isInteger(value));
  if (isGood) return value;
  yaml.problem(node, `\`${key}\` must be ${isTokens ? "an integer" : "a number"} from ${min} to ${max}`);
  return 1;
}
