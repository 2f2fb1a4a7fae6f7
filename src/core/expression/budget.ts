/**
 * Evaluation steps of one request, over all its expressions, conditions and schemas. Each of them also has a limit of
 * its own; without a common one a request could repeat the most expensive of them a thousand times (L60).
 */
export class StepBudget {
  readonly #what: string;
  readonly #max: number;
  #left: number;

  /** `what` is the subject of the error: `the simulation`. */
  constructor(what: string, max: number) {
    this.#what = what;
    this.#max = max;
    this.#left = max;
  }

  get left(): number {
    return Math.max(0, this.#left);
  }

  get spent(): number {
    return this.#max - this.#left;
  }

  get isOver(): boolean {
    return this.#left < 0;
  }

  get fault(): string {
    return `${this.#what} exceeded the limit of ${this.#max} evaluation steps`;
  }

  spend(steps: number): void {
    this.#left -= steps;
  }
}

/** Thrown where a budget ends a request as a whole. */
export class BudgetError extends Error {
  override readonly name = "BudgetError";
}
