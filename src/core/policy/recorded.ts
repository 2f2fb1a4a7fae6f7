/**
 * Recorded decisions that a policy would flip.
 *
 * 1. A recorded decision is the last one about a job: its request as the kernel saw it, for the recorded time.
 * 2. A decision flips if its effect changes. Another rule, reason or constraint with the same effect is no flip.
 * 3. Decisions with limits or budgets depend on those before them: they are replayed in order of time
 *    (`limits/replay.ts`).
 */
import { BudgetError, type StepBudget } from "../expression/budget.ts";
import type { Snapshot } from "./compile.ts";
import type { Effect, PolicyRequest } from "./decision.ts";
import { evaluate, withinBudget } from "./evaluate.ts";
import { type LimitedDecision, limitUse, replayed } from "./limits/replay.ts";

export interface RecordedDecision {
  readonly request: PolicyRequest;
  readonly decided: DecidedBy;
}

export interface DecidedBy {
  readonly effect: Effect;
  /** Null: the policy's default. */
  readonly ruleId: string | null;
}

/** A record whose decision would change, by its position. */
export interface Flip {
  readonly at: number;
  readonly to: DecidedBy;
}

export interface EvaluatedRecords {
  readonly flips: readonly Flip[];
  /** Records with limits or budgets, by position. */
  readonly limited: readonly (LimitedDecision & { readonly at: number })[];
}

/** Throws a `BudgetError` if the records together exceed the budget. */
export function evaluateRecords(
  snapshot: Snapshot,
  records: readonly RecordedDecision[],
  budget: StepBudget,
): EvaluatedRecords {
  const flips: Flip[] = [];
  const limited: (LimitedDecision & { readonly at: number })[] = [];
  withinBudget(snapshot, budget, () => {
    for (const [at, { request, decided }] of records.entries()) {
      const decision = evaluate(snapshot, request);
      const { effect, ruleId, limits = [], budgets } = decision;
      budget.spend(1 + snapshot.rules.length / 10 + limits.length * STEPS_OF_LIMIT);
      if (budget.left === 0) throw new BudgetError(budget.fault);
      if (limits.length > 0 || budgets !== undefined) {
        const uses = limits.map((limit) => limitUse(request.org, limit));
        limited.push({ at, otherwise: replayed(decision), limits: uses });
      } else if (effect !== decided.effect) flips.push({ at, to: { effect, ruleId } });
    }
  });
  return { flips, limited };
}

/** A use is kept until the end of the simulation. */
const STEPS_OF_LIMIT = 20;

/** Flips that have decisions, rules and topic in common. */
export interface FlipGroup {
  readonly from: DecidedBy;
  readonly to: DecidedBy;
  readonly topic: string;
  readonly count: number;
  /** Ids of jobs, the newest. */
  readonly examples: readonly string[];
}

/** Groups flips, the largest first. */
export class FlipGroups {
  readonly #groups = new Map<string, FlipGroup & { count: number; readonly examples: string[] }>();

  add(from: DecidedBy, to: DecidedBy, topic: string, jobId: string): void {
    const key = JSON.stringify([from.effect, from.ruleId, to.effect, to.ruleId, topic]);
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = { from, to, topic, count: 0, examples: [] };
      this.#groups.set(key, group);
    }
    group.count += 1;
    if (group.examples.length < EXAMPLES_MAX) group.examples.push(jobId);
  }

  largest(max: number): readonly FlipGroup[] {
    return [...this.#groups.values()].sort((a, b) => b.count - a.count).slice(0, max);
  }
}

export const EXAMPLES_MAX = 5;
