import { BudgetError, type StepBudget } from "../../expression/budget.ts";
import type { Plan, PlanStep, Scope } from "../definition/plan.ts";
import { inputProblems } from "./open-run.ts";

/** The input of a step as far as it follows from the run's input. */
export interface DryInput {
  readonly value: unknown;
  readonly isKnown: boolean;
  /** Why the step would fail in any case. */
  readonly problem?: string;
}

export type DryInputs =
  | { readonly kind: "ok"; readonly inputs: Readonly<Record<string, DryInput>> }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

/** The inputs of all steps by id, or the problems of the run's input. Throws a `BudgetError` beyond the budget. */
export function dryInputs(plan: Plan, input: unknown, run: Scope["run"], budget: StepBudget): DryInputs {
  const within = <T>(work: () => T): T => {
    const done = plan.within(budget, work);
    if (budget.left === 0) throw new BudgetError(budget.fault);
    return done;
  };
  const problems = within(() => inputProblems(plan, input));
  if (problems.length > 0) return { kind: "bad", problems };
  const inputs: Record<string, DryInput> = {};
  for (const step of plan.steps.values()) inputs[step.id] = within(() => inputOf(step, input, run));
  return { kind: "ok", inputs };
}

function inputOf(step: PlanStep, input: unknown, run: Scope["run"]): DryInput {
  // The compiler adds the item to steps that need one; other children get it here.
  if (!step.input) return { value: null, isKnown: !step.forEach };
  const { steps, context, iteration, previous } = step.input.refs;
  const needsOthers = steps.size > 0 || context || iteration || previous.size > 0;
  if (step.forEach || needsOthers) return { value: null, isKnown: false };
  const rendered = step.input.render({ input, run });
  if (rendered.kind === "bad") return { value: null, isKnown: false, problem: `\`input\`: ${rendered.problem}` };
  const problems = step.inputSchema?.problemsOf(rendered.value) ?? [];
  const known = { value: rendered.value, isKnown: true };
  return problems.length === 0 ? known : { ...known, problem: problems.join("; ") };
}
