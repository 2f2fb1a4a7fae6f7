/** Counts what expressions do: a step is about what one node of an expression costs, a twentieth of a microsecond. */
import type { ASTNode, Environment } from "@marcbachmann/cel-js";

/** An error carries a trace. */
const ERROR_STEPS = 100;

export class Meter {
  /** Made once and thrown as it is: a trace for each would cost more than the step that was refused. */
  readonly #over: Error;
  readonly #stepsMax: number;
  #left: number;

  /** `what` is spoken of when there were too many: `the conditions`. */
  constructor(what: string, stepsMax: number) {
    this.#over = new Error(`${what} took more than ${stepsMax} steps`);
    this.#stepsMax = stepsMax;
    this.#left = stepsMax;
  }

  reset(): void {
    this.#left = this.#stepsMax;
  }

  /** Since the last reset. */
  get steps(): number {
    return this.#stepsMax - this.#left;
  }

  /** Stays so until the next reset: `all`, `exists`, `||` and `&&` swallow errors. */
  get isOver(): boolean {
    return this.#left < 0;
  }

  get fault(): string {
    return this.#over.message;
  }

  charge(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw this.#over;
  }

  /** Gives an environment the functions that `meteredSource` writes. */
  register(environment: Environment): Environment {
    const each = ({ args: [value, steps] }: Call) =>
      metered(value, (list) => this.charge(lengthOf(list) * Number(steps?.args)));
    const whole = ({ args: [value, factor] }: Call) =>
      metered(value, (all) => this.charge(this.#weightOf(all) * Number(factor?.args)));
    // Whether a map has a key is seen at once; a list is compared with element by element.
    const sought = ({ args: [value] }: Call) =>
      metered(value, (among) => this.charge(Array.isArray(among) ? this.#weightOf(among) : 1));
    const tried = ({ args: [value] }: Call): Macro => ({
      ...metered(value, () => {}),
      evaluate: (evaluator, _macro, context) => {
        // The loop goes on after an error, so it must become cheap to go on.
        if (this.isOver) throw this.#over;
        let isAnswer = false;
        try {
          const answer = evaluator.run(value, context);
          isAnswer = typeof answer === "boolean";
          return answer;
        } finally {
          // What is neither true nor false becomes an error as well, outside.
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

  /** Stops counting once the answer is clear: the value may be large, and counting is work as well. */
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

/** Its argument as it is, after its value has been charged for. */
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

/** Elements of a list, entries of a map, 32 letters of a text. */
function lengthOf(value: unknown): number {
  if (typeof value === "string") return value.length / 32;
  if (Array.isArray(value)) return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return value instanceof Uint8Array ? value.length / 32 : Object.keys(value).length;
}
