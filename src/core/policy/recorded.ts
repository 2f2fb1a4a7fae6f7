/**
 * Recorded decisions that a policy would flip.
 *
 * 1. A recorded decision is the last one about a job: its request as the kernel saw it, for the recorded time.
 * 2. A decision flips if its effect changes. Another rule, reason or constraint with the same effect is no flip.
 * 3. The counts of the past are not known. A rule that decided beyond its limit is taken to be beyond it again, if the
 *    policy has a limit in the rule of that id; other limits are not exceeded.
 */
import { BudgetError, type StepBudget } from "../expression/budget.ts";
import type { Snapshot } from "./compile.ts";
import type { Decision, Effect, PolicyRequest } from "./decision.ts";
import { evaluate, withinBudget } from "./evaluate.ts";

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

/** Throws a `BudgetError` if the records together exceed the budget. */
export function flipsOf(snapshot: Snapshot, records: readonly RecordedDecision[], budget: StepBudget): readonly Flip[] {
  return withinBudget(snapshot, budget, () =>
    records.flatMap(({ request, decided }, at) => {
      const { effect, ruleId } = beyondAsThen(evaluate(snapshot, request), decided);
      budget.spend(1 + snapshot.rules.length / 10);
      if (budget.left === 0) throw new BudgetError(budget.fault);
      return effect === decided.effect ? [] : [{ at, to: { effect, ruleId } }];
    }),
  );
}

function beyondAsThen(decision: Decision, { ruleId }: DecidedBy): Decision {
  return decision.limits?.find((limit) => limit.ruleId === ruleId)?.exceeded ?? decision;
}

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
