/** Counts evaluation cost. One step is about one AST node, some 50 ns. */
import type { ASTNode, Environment } from "@marcbachmann/cel-js";
import type { StepBudget } from "./budget.ts";

/** Errors capture a stack trace. */
const ERROR_STEPS = 100;

export class Meter {
  /** Created once: a stack trace per error would cost more than the refused step. */
  readonly #over: Error;
  readonly #stepsMax: number;
  /** The request's budget, shared with other meters; null if there is none. */
  #budget: StepBudget | null = null;
  #granted: number;
  #left: number;

  /** `what` is the subject of the error: `the conditions`. */
  constructor(what: string, stepsMax: number) {
    this.#over = new Error(`${what} exceeded the limit of ${stepsMax} evaluation steps`);
    this.#stepsMax = stepsMax;
    this.#granted = stepsMax;
    this.#left = stepsMax;
  }

  reset(): void {
    this.#budget?.spend(this.steps);
    this.#granted = Math.min(this.#stepsMax, this.#budget?.left ?? this.#stepsMax);
    this.#left = this.#granted;
  }

  get budget(): StepBudget | null {
    return this.#budget;
  }

  /** Runs `work` within the budget of a request. */
  within<T>(budget: StepBudget, work: () => T): T {
    const around = this.#budget;
    this.reset();
    this.#budget = budget;
    this.reset();
    try {
      return work();
    } finally {
      this.reset();
      this.#budget = around;
      this.reset();
    }
  }

  /** Since the last reset. */
  get steps(): number {
    return this.#granted - this.#left;
  }

  /** Stays true until the next reset, because `all`, `exists`, `||` and `&&` absorb errors. */
  get isOver(): boolean {
    return this.#left < 0;
  }

  get fault(): string {
    return this.#granted < this.#stepsMax && this.#budget !== null ? this.#budget.fault : this.#over.message;
  }

  charge(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw this.#over;
  }

  /** Registers the functions that `meteredSource` emits. */
  register(environment: Environment): Environment {
    const each = ({ args: [value, steps] }: Call) =>
      metered(value, (list) => this.charge(lengthOf(list) * Number(steps?.args)));
    const whole = ({ args: [value, factor] }: Call) =>
      metered(value, (all) => this.charge(this.#weightOf(all) * Number(factor?.args)));
    // Map lookups are constant time; lists are compared element by element.
    const sought = ({ args: [value] }: Call) =>
      metered(value, (among) => this.charge(Array.isArray(among) ? this.#weightOf(among) : 1));
    const tried = ({ args: [value] }: Call): Macro => ({
      ...metered(value, () => {}),
      evaluate: (evaluator, _macro, context) => {
        // Loops continue after an error, so further iterations must be cheap.
        if (this.isOver) throw this.#over;
        let isAnswer = false;
        try {
          const answer = evaluator.run(value, context);
          isAnswer = typeof answer === "boolean";
          return answer;
        } finally {
          // A non-boolean result also becomes an error in the caller.
          if (!isAnswer) this.charge(ERROR_STEPS);
        }
      },
    });
    return environment
      .registerFunction("tried(ast): dyn", tried, { async: false })
      .registerFunction("each(ast, ast): dyn", each, { async: false })
      .registerFunction("whole(ast, ast): dyn", whole, { async: false })
      .registerFunction("sought(ast): dyn", sought, { async: false });
  }

  /** Stops once the budget is exceeded: the value may be large. */
  #weightOf(value: unknown): number {
    let total = 0;
    const open = [value];
    for (let next = open.pop(); next !== undefined && total <= this.#left; next = open.pop()) {
      total += lengthOf(next) + 1;
      if (typeof next !== "object" || next === null || total > this.#left) continue;
      for (const entry of Object.values(next)) open.push(entry);
    }
    return total;
  }
}

interface Call {
  readonly args: readonly [ASTNode, ASTNode?];
}

interface Checker {
  check(node: ASTNode, context: unknown): unknown;
}

interface Evaluator {
  run(node: ASTNode, context: unknown): unknown;
}

interface Macro {
  readonly async: false;
  typeCheck(checker: Checker, macro: unknown, context: unknown): unknown;
  evaluate(evaluator: Evaluator, macro: unknown, context: unknown): unknown;
}

/** Evaluates the argument unchanged and charges for its value. */
function metered(argument: ASTNode, charge: (value: unknown) => void): Macro {
  return {
    async: false,
    typeCheck: (checker, _macro, context) => checker.check(argument, context),
    evaluate: (evaluator, _macro, context) => {
      const value = evaluator.run(argument, context);
      charge(value);
      return value;
    },
  };
}

/** List elements, map entries, or 32 characters of text. */
function lengthOf(value: unknown): number {
  if (typeof value === "string") return value.length / 32;
  if (Array.isArray(value)) return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return value instanceof Uint8Array ? value.length / 32 : Object.keys(value).length;
}
