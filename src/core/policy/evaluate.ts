/**
 * The safety kernel: the first rule that matches decides; if none does, the policy's default.
 *
 * 1. Same snapshot and request, same decision.
 * 2. A condition that cannot be answered never makes the outcome milder. A rule that denies, throttles or asks for
 *    approval counts as matching; one that allows counts as not matching; one that allows with constraints denies, because
 *    a later rule might allow the same without them. The reason says so.
 * 3. Conditions are asked only where everything else matches and no earlier rule decides.
 */
import type { CompiledRule, Snapshot } from "./compile.ts";
import type { Outcome } from "./condition.ts";
import type { Decision, PolicyRequest } from "./decision.ts";
import { matches } from "./matching.ts";
import type { Bucket } from "./rule-index.ts";
import { Topic } from "./topic.ts";

export function evaluate(snapshot: Snapshot, request: PolicyRequest): Decision {
  const topic = new Topic(request.topic);
  const found: Bucket[] = [];
  snapshot.index.find(request, topic, found);
  const first = firstPlain(snapshot.rules, found, request, topic);
  const asked = conditionalBefore(first, snapshot.rules, found, request, topic);
  const decision = asked === null ? null : askInOrder(snapshot, asked, request);
  return decision ?? snapshot.rules[first]?.decision ?? snapshot.otherwise;
}

/** What a rule decides whose other parts match, given the answer to its condition; null when it does not decide. */
export function decisionAfter({ decision }: CompiledRule, outcome: Outcome): Decision | null {
  if (outcome === true) return decision;
  if (outcome === false) return null;
  const because = `the rule's \`when\` cannot be answered: ${outcome}`;
  switch (decision.effect) {
    case "allow":
      return null;
    case "allow_with_constraints": {
      const { constraints: _, ...rest } = decision;
      return { ...rest, effect: "deny", reason: `denied, because ${because}` };
    }
    case "deny":
    case "require_approval":
    case "throttle":
      return { ...decision, reason: `${decision.reason} (taken as matching, because ${because})` };
    default:
      return decision.effect satisfies never;
  }
}

/** The position of the first rule without a condition that matches; the number of rules when there is none. */
function firstPlain(
  rules: readonly CompiledRule[],
  found: readonly Bucket[],
  request: PolicyRequest,
  topic: Topic,
): number {
  let first = rules.length;
  for (const { plain } of found) {
    for (const position of plain) {
      if (position >= first) break;
      const rule = rules[position];
      if (rule !== undefined && matches(rule, request, topic)) first = position;
    }
  }
  return first;
}

/** The positions of the rules before `first` that wait for their condition only; null when there are none. */
function conditionalBefore(
  first: number,
  rules: readonly CompiledRule[],
  found: readonly Bucket[],
  request: PolicyRequest,
  topic: Topic,
): number[] | null {
  let positions: number[] | null = null;
  for (const { conditional } of found) {
    for (const position of conditional) {
      if (position >= first) break;
      const rule = rules[position];
      if (rule === undefined || !matches(rule, request, topic)) continue;
      positions ??= [];
      positions.push(position);
    }
  }
  return positions;
}

function askInOrder({ rules, conditions }: Snapshot, positions: number[], request: PolicyRequest): Decision | null {
  if (positions.length > 1) positions.sort((a, b) => a - b);
  conditions.open(request);
  try {
    let previous = -1;
    for (const position of positions) {
      const rule = rules[position];
      // A rule may stand under several keys that the request has.
      if (position === previous || rule === undefined || rule.when === null) continue;
      previous = position;
      const decision = decisionAfter(rule, conditions.ask(rule.when));
      if (decision !== null) return decision;
    }
    return null;
  } finally {
    conditions.close();
  }
}
