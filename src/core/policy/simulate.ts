import type { Snapshot } from "./compile.ts";
import { type Decision, EFFECTS, type Effect, type PolicyRequest } from "./decision.ts";
import { evaluate } from "./evaluate.ts";

/** What a policy would have decided about requests; nothing is done about them. */
export interface Simulation {
  readonly snapshot: string;
  /** In the order of the requests. */
  readonly decisions: readonly Decision[];
  readonly byEffect: Readonly<Record<Effect, number>>;
  /** Every rule of the policy in its order, those that decided nothing too, and null for the default. */
  readonly byRule: readonly { readonly ruleId: string | null; readonly count: number }[];
}

export function simulate(snapshot: Snapshot, requests: readonly PolicyRequest[]): Simulation {
  const decisions = requests.map((request) => evaluate(snapshot, request));
  const byRule = new Map<string | null, number>(snapshot.document.rules.map(({ id }) => [id, 0]));
  byRule.set(null, 0);
  for (const { ruleId } of decisions) byRule.set(ruleId, (byRule.get(ruleId) ?? 0) + 1);
  const countOf = (effect: Effect) => decisions.filter((decision) => decision.effect === effect).length;
  return {
    snapshot: snapshot.hash,
    decisions,
    byEffect: Object.fromEntries(EFFECTS.map((effect) => [effect, countOf(effect)])) as Record<Effect, number>,
    byRule: [...byRule].map(([ruleId, count]) => ({ ruleId, count })),
  };
}
