import { BudgetError, type StepBudget } from "../expression/budget.ts";
import type { Snapshot } from "./compile.ts";
import type { Decision, PolicyRequest } from "./decision.ts";
import { evaluate, withinBudget } from "./evaluate.ts";
import type { PolicyCase } from "./read-tests.ts";

/** A case with its request as the kernel reads it. */
export interface PreparedCase extends Omit<PolicyCase, "given"> {
  readonly request: PolicyRequest;
  /** The case names the time. */
  readonly isTimeGiven: boolean;
}

export interface TestedCase {
  readonly name: string;
  readonly line: number;
  readonly expect: PolicyCase["expect"];
  readonly decision: Decision;
  /** Why the case fails; null if it passes. */
  readonly failure: string | null;
}

/** Throws a `BudgetError` if the cases together exceed the budget. */
export function testPolicy(
  snapshot: Snapshot,
  cases: readonly PreparedCase[],
  budget: StepBudget,
): readonly TestedCase[] {
  return withinBudget(snapshot, budget, () =>
    cases.map((one) => {
      const decision = decisionFor(snapshot, one);
      budget.spend(1 + snapshot.rules.length / 10);
      if (budget.left === 0) throw new BudgetError(budget.fault);
      const { name, line, expect } = one;
      return { name, line, expect, decision, failure: failureOf(one, decision) };
    }),
  );
}

function decisionFor(snapshot: Snapshot, { request, beyond }: PreparedCase): Decision {
  const decision = evaluate(snapshot, request);
  return decision.limits?.find(({ ruleId }) => beyond.includes(ruleId))?.exceeded ?? decision;
}

function failureOf({ expect, isTimeGiven }: PreparedCase, decision: Decision): string | null {
  if (decision.isTimed && !isTimeGiven) return "the decision depends on the time; add `now` to `given`";
  const { effect, ruleId } = expect;
  const isSameRule = ruleId === undefined || ruleId === decision.ruleId;
  if (effect !== decision.effect || !isSameRule) {
    const expected = ruleId === undefined ? effect : `${effect} by ${ruleText(ruleId)}`;
    return `expected ${expected}, got ${decision.effect} by ${ruleText(decision.ruleId)}: ${decision.reason}`;
  }
  const shadow = (decision.shadow ?? []).map((verdict) => verdict.ruleId);
  if (expect.shadow === undefined || expect.shadow.join("\n") === shadow.join("\n")) return null;
  return `expected ${shadowText(expect.shadow)}, got ${shadowText(shadow)}`;
}

const ruleText = (ruleId: string | null): string => (ruleId === null ? "the default" : `rule \`${ruleId}\``);
const shadowText = (ids: readonly string[]): string =>
  ids.length === 0 ? "no shadow rule" : `the shadow rules ${ids.map((id) => `\`${id}\``).join(", ")}`;
