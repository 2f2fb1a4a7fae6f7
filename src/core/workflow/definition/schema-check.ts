/** State of one validation: current path, problems, remaining budget. */
import type { StepBudget } from "../../expression/budget.ts";
import { kindOf, partText } from "./fields.ts";

/** Returns whether the value is valid; problems are reported to the run. */
export type Check = (value: unknown, run: SchemaRun) => boolean;

export const SCHEMA_RUN_LIMITS = { problems: 8, steps: 2_000_000, depth: 128 } as const;

export class SchemaRun {
  readonly problems: string[] = [];
  readonly #place: (string | number)[];
  readonly #granted: number;
  #left: number;
  #depth = 0;
  #quiet = 0;
  #isOver = false;

  /** `name`: the root of the reported paths. */
  constructor(name: string, budget: StepBudget | null) {
    this.#place = [name];
    this.#granted = Math.min(SCHEMA_RUN_LIMITS.steps, budget?.left ?? SCHEMA_RUN_LIMITS.steps);
    this.#left = this.#granted;
  }

  get steps(): number {
    return this.#granted - this.#left;
  }

  /** Always false, so that a check can return it. */
  fail(text: string): false {
    if (this.#quiet === 0 && this.problems.length < SCHEMA_RUN_LIMITS.problems) {
      this.problems.push(`${this.#place.map(partText).join("")}: ${text}`);
    }
    return false;
  }

  mismatch(what: string, value: unknown): false {
    return this.fail(`must be ${what}, got ${kindOf(value)}`);
  }

  /** False once the budget is exhausted; the check then stops. */
  charge(steps: number): boolean {
    this.#left -= steps;
    return this.#left >= 0 || this.#stop("is too large to validate");
  }

  get isDone(): boolean {
    return this.#isOver || (this.#quiet === 0 && this.problems.length >= SCHEMA_RUN_LIMITS.problems);
  }

  within(part: string | number, check: Check, value: unknown): boolean {
    this.#place.push(part);
    const isFine = this.check(check, value);
    this.#place.pop();
    return isFine;
  }

  check(check: Check, value: unknown): boolean {
    if (this.isDone || !this.charge(1)) return false;
    if (this.#depth >= SCHEMA_RUN_LIMITS.depth)
      return this.#stop(`is nested more than ${SCHEMA_RUN_LIMITS.depth} deep`);
    this.#depth += 1;
    const isFine = check(value, this);
    this.#depth -= 1;
    return isFine;
  }

  /** Checks without reporting. */
  matches(check: Check, value: unknown): boolean {
    this.#quiet += 1;
    const isFine = this.check(check, value);
    this.#quiet -= 1;
    return isFine;
  }

  /** Reported even in quiet mode: unchecked values count as invalid. */
  #stop(text: string): false {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.problems.unshift(`${partText(this.#place[0] ?? "", 0)}: ${text}`);
    return false;
  }
}
