/**
 * Expressions of a workflow: CEL over the run's input, earlier steps, the context, and the item of a `for_each`.
 *
 * 1. Evaluation time and result size are bounded (see `expression/language.ts`). All expressions of a template share
 *    one budget.
 * 2. The variables an expression reads are known before it is evaluated.
 * 3. The result is plain JSON (see `json-value.ts`). JSON numbers and CEL integers can be mixed: `input.n + 1`.
 */
import type { Environment, ParseResult } from "@marcbachmann/cel-js";
import type { StepBudget } from "../../expression/budget.ts";
import { DocumentSize, faultOf, Language, WORKFLOW_DOCUMENT_LIMITS } from "../../expression/language.ts";
import { Meter } from "../../expression/meter.ts";
import { OutputBudget, toJson } from "./json-value.ts";
import type { Evaluated, Expression, Scope } from "./plan.ts";
import { type Reads, readsOf } from "./references.ts";

/** Per expression, or per template: enough for a pass over 10,000 items, some tens of milliseconds. */
export const COST_MAX = 400_000;

/** The required type of the result. */
export type ResultType = "boolean" | "list" | "any";

export interface CompiledExpression extends Expression {
  readonly refs: Reads;
  /** Evaluates as part of a template, sharing its budget. Throws a readable error. */
  evaluatePart(scope: Scope, room: OutputBudget): unknown;
}

export type ExpressionResult =
  | { readonly kind: "ok"; readonly expression: CompiledExpression }
  | { readonly kind: "bad"; readonly problem: string };

/** Compiles the expressions of one workflow. Not reentrant. */
export class Expressions {
  readonly #meter = new Meter("the expression", COST_MAX);
  readonly size = new DocumentSize(WORKFLOW_DOCUMENT_LIMITS);
  readonly #known = new Map<string, ExpressionResult>();
  readonly #languages = new Map<string, Language>();

  /** Results are cached by text. */
  compile(text: string, extra: ExtraVariables, expected: ResultType = "any"): ExpressionResult {
    const key = `${extra.item} ${extra.step === true} ${expected} ${text}`;
    const known = this.#known.get(key) ?? this.#compile(text, extra, expected);
    this.#known.set(key, known);
    return known;
  }

  #compile(text: string, extra: ExtraVariables, expected: ResultType): ExpressionResult {
    const compiled = this.#language(extra).compile(text);
    if (compiled.kind === "bad") return { kind: "bad", problem: withHint(compiled.problem, extra) };
    const { run, type, ast } = compiled;
    const problem = typeProblem(type, expected);
    if (problem !== null) return { kind: "bad", problem };
    const found = readsOf(ast, extra.step);
    if (found.kind === "bad") return { kind: "bad", problem: found.why };
    return { kind: "ok", expression: this.#expression(run, found.reads, expected) };
  }

  /** The budget of the request that is being evaluated. */
  get budget(): StepBudget | null {
    return this.#meter.budget;
  }

  /** Runs `work` within the budget of a request. */
  within<T>(budget: StepBudget, work: () => T): T {
    return this.#meter.within(budget, work);
  }

  /** Steps since the last reset. */
  get steps(): number {
    return this.#meter.steps;
  }

  /** Call before a template is rendered. */
  reset(): void {
    this.#meter.reset();
  }

  #expression(run: ParseResult, refs: Reads, expected: ResultType): CompiledExpression {
    const evaluatePart = (scope: Scope, room: OutputBudget): unknown => {
      const before = room.bytes;
      const value = toJson(this.#run(run, scope), room);
      if (refs.item) room.itemBytes += room.bytes - before;
      if (expected === "boolean" && typeof value !== "boolean") throw new Error("is not a boolean");
      if (expected === "list" && !Array.isArray(value)) throw new Error("is not a list");
      return value;
    };
    let steps = 0;
    const evaluate = (scope: Scope): Evaluated => {
      this.reset();
      const evaluated = tryEvaluate(() => evaluatePart(scope, new OutputBudget()));
      steps = this.steps;
      return evaluated;
    };
    return { refs, evaluate, evaluatePart, stepsOfLast: () => steps };
  }

  #run(run: ParseResult, scope: Scope): unknown {
    try {
      const value: unknown = run(viewOf(scope));
      if (!this.#meter.isOver) return value;
    } catch (error) {
      if (!this.#meter.isOver) throw error;
    }
    throw new Error(this.#meter.fault);
  }

  #language({ item, step = false }: ExtraVariables): Language {
    const key = `${item} ${step}`;
    const known = this.#languages.get(key);
    if (known !== undefined) return known;
    const variables = { ...VARIABLES, ...(item && ITEM_VARIABLES), ...(step && STEP_VARIABLES) };
    const made = new Language({ ...OPTIONS, variables }, this.#meter, this.size);
    this.#languages.set(key, made);
    return made;
  }
}

/** Variables that exist only in some places. */
export interface ExtraVariables {
  /** `item` and `index`. */
  readonly item: boolean;
  /** `step`. */
  readonly step?: boolean;
}

export function tryEvaluate(evaluate: () => unknown): Evaluated {
  try {
    return { kind: "ok", value: evaluate() };
  } catch (error) {
    return { kind: "bad", problem: faultOf(error) };
  }
}

const VARIABLES = {
  input: "dyn",
  steps: "map<string, dyn>",
  context: "dyn",
  run: "map<string, string>",
  // Reads outside of a loop are refused by `rules.ts`.
  iteration: "int",
  previous: "map<string, dyn>",
} as const;

const ITEM_VARIABLES = { item: "dyn", index: "int" } as const;
const STEP_VARIABLES = { step: "map<string, dyn>" } as const;

const OPTIONS = {
  variables: VARIABLES,
  what: "the expression",
  stepsMax: COST_MAX,
  whenTooLong: "move a part of it to a `transform` step",
  isMixed: true,
  extend: addMixedArithmetic,
} as const;

/** JSON numbers are CEL doubles, literals are ints: allow arithmetic between them. */
function addMixedArithmetic(environment: Environment): void {
  const operations = {
    "+": (a: number, b: number) => a + b,
    "-": (a: number, b: number) => a - b,
    "*": (a: number, b: number) => a * b,
    "/": (a: number, b: number) => a / b,
    "%": (a: number, b: number) => a % b,
  };
  for (const [operator, calculate] of Object.entries(operations)) {
    const mixed = (a: number | bigint, b: number | bigint) => calculate(Number(a), Number(b));
    environment.registerOperator(`double ${operator} int: double`, mixed);
    environment.registerOperator(`int ${operator} double: double`, mixed);
    if (operator === "%") environment.registerOperator("double % double: double", mixed);
  }
}

function viewOf(scope: Scope): Record<string, unknown> {
  const { input, steps, context, run, item, index, iteration, previous, step } = scope;
  return {
    input: input ?? null,
    steps: steps ?? {},
    context: context ?? {},
    run,
    item: item ?? null,
    index: BigInt(index ?? 0),
    step: step ?? {},
    iteration: BigInt(iteration ?? 0),
    previous: previous ?? {},
  };
}

function typeProblem(type: string, expected: ResultType): string | null {
  if (expected === "any" || type === "dyn") return null;
  if (expected === "boolean") return type === "bool" ? null : `has type \`${type}\`, but must be a boolean`;
  return type.startsWith("list") ? null : `has type \`${type}\`, but must be a list`;
}

function withHint(problem: string, { item, step = false }: ExtraVariables): string {
  if (!item && /unknown variable: (item|index)\b/.test(problem))
    return `${problem}; \`item\` and \`index\` exist only in steps with \`for_each\``;
  if (!step && /unknown variable: step\b/.test(problem)) return `${problem}; \`step\` exists only in a \`compensate\``;
  return problem;
}
