import { BudgetError, StepBudget } from "../expression/budget.ts";
import type { Writable } from "../model/table.ts";
import { canonicalRequest } from "./canonical-request.ts";
import type { CompiledRule, ShadowRules, Snapshot } from "./compile.ts";
import type { Conditions, Outcome } from "./condition.ts";
import { type Decision, EFFECTS, type Effect, type PolicyRequest, SHADOW_MAX, type ShadowVerdict } from "./decision.ts";
import { type Limit, limitKey } from "./limits/limit.ts";
import { applyInOrder, type SimulatedDecision } from "./limits/simulate-limits.ts";
import { matchesTopic, type NamePatterns, Topic } from "./pattern.ts";
import { labelOf } from "./request-view.ts";
import type { Bucket } from "./rule-index.ts";

/**
 * The safety kernel: the first matching rule decides, else the policy's default.
 *
 * 1. The same snapshot and request give the same decision; the time of the evaluation is part of the request.
 * 2. A failed condition never weakens the outcome. Rules that deny, throttle or require approval count as matching;
 *    `allow` counts as not matching; `allow_with_constraints` denies, because a later rule might allow without
 *    constraints. The reason says so.
 * 3. Conditions are evaluated only if everything else matches and no earlier rule decides.
 * 4. A rule with a limit decides only beyond it. The counts are not known here: the limit is part of the decision.
 * 5. Shadow rules decide nothing. Those that would have decided are recorded; their conditions have a step budget of their
 *    own, so that an expensive or broken one changes no decision.
 */

export function evaluate(snapshot: Snapshot, received: PolicyRequest): Decision {
  const request = canonicalRequest(received);
  const topic = new Topic(request.topic);
  const found: Bucket[] = [];
  snapshot.index.find(request, topic, found);
  const first = firstPlain(snapshot.rules, found, request, topic);
  const candidates = conditionalBefore(first, snapshot.rules, found, request, topic);
  const otherwise = snapshot.rules[first]?.decision ?? snapshot.defaultDecision;
  const { decision, position, limits } =
    candidates === null
      ? { decision: otherwise, position: first, limits: [] }
      : evaluateConditions(snapshot, candidates, request, { decision: otherwise, position: first });
  const isTimed = candidates !== null && snapshot.conditions.isTimed;
  const { shadow } = snapshot;
  const verdicts = shadow === null ? [] : shadowVerdicts(snapshot, shadow, request, topic, position);
  return complete(decision, { nowMs: request.nowMs, isTimed, limits, verdicts });
}

/** Of the rule at a position. */
export interface Placed<T> {
  readonly position: number;
  readonly value: T;
}

/** What is recorded beside a decision. */
interface Circumstances {
  readonly nowMs: number | undefined;
  readonly isTimed: boolean;
  readonly limits: readonly Placed<Limit>[];
  readonly verdicts: readonly Placed<ShadowVerdict>[];
}

export function complete(decision: Decision, { nowMs, isTimed, limits, verdicts }: Circumstances): Decision {
  const record = (one: Decision, before: number): Decision => {
    const shadow = verdicts.filter(({ position }) => position < before).map(({ value }) => value);
    if (nowMs === undefined && shadow.length === 0) return one;
    const copy: Writable<Decision> = { ...one };
    if (nowMs !== undefined) copy.atMs = nowMs;
    if (isTimed) copy.isTimed = true;
    if (shadow.length > 0) copy.shadow = shadow;
    return copy;
  };
  const applied = limits.map(({ position, value }) => ({ ...value, exceeded: record(value.exceeded, position) }));
  return record(withLimits(decision, applied), Number.POSITIVE_INFINITY);
}

/** The shadow rules before the position of the deciding rule that would have decided instead of it. */
function shadowVerdicts(
  { rules }: Snapshot,
  { index, conditions }: ShadowRules,
  request: PolicyRequest,
  topic: Topic,
  before: number,
): readonly Placed<ShadowVerdict>[] {
  const found: Bucket[] = [];
  index.find(request, topic, found);
  const positions = new Set(found.flatMap(({ plain, conditional }) => [...plain, ...conditional]));
  const verdicts: Placed<ShadowVerdict>[] = [];
  conditions.open(request);
  try {
    for (const position of [...positions].sort((a, b) => a - b)) {
      const rule = rules[position];
      if (position >= before || verdicts.length >= SHADOW_MAX || rule === undefined) break;
      const outcome = matches(rule, request, topic) && (rule.when === null || conditions.evaluate(rule.when));
      const decision = decisionAfter(rule, outcome);
      if (decision !== null) verdicts.push({ position, value: shadowVerdict(decision, outcome) });
    }
  } finally {
    conditions.close();
  }
  return verdicts;
}

/** `decision`: of the shadow rule, after the outcome of its condition. */
export function shadowVerdict({ ruleId, effect }: Decision, outcome: Outcome): ShadowVerdict {
  const verdict = { ruleId: ruleId ?? "", effect };
  return typeof outcome === "string" ? { ...verdict, fault: outcome } : verdict;
}

/** The decision of a rule whose other parts match, given the outcome of its condition; null if it does not decide. */
export function decisionAfter({ decision }: CompiledRule, outcome: Outcome, part = "when"): Decision | null {
  if (outcome === true) return decision;
  if (outcome === false) return null;
  const because = `\`${part}\` failed: ${outcome}`;
  switch (decision.effect) {
    case "allow":
      return null;
    case "allow_with_constraints": {
      const { constraints: _, ...rest } = decision;
      return { ...rest, effect: "deny", reason: `denied because ${because}` };
    }
    case "deny":
    case "require_approval":
    case "throttle":
      return { ...decision, reason: `${decision.reason} (counted as matching because ${because})` };
    default:
      return decision.effect satisfies never;
  }
}

/** The position of the first matching rule without a condition; the number of rules if there is none. */
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

/** Positions of earlier rules that match except for their condition; null if none. */
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

interface Decided {
  readonly decision: Decision;
  readonly position: number;
}

function evaluateConditions(
  { rules, conditions }: Snapshot,
  positions: number[],
  request: PolicyRequest,
  otherwise: Decided,
): Decided & { readonly limits: readonly Placed<Limit>[] } {
  if (positions.length > 1) positions.sort((a, b) => a - b);
  conditions.open(request);
  try {
    let previous = -1;
    const limits: Placed<Limit>[] = [];
    for (const position of positions) {
      const rule = rules[position];
      // A rule can be found under several keys.
      if (position === previous || rule === undefined) continue;
      previous = position;
      const decision = decisionAfter(rule, rule.when === null || conditions.evaluate(rule.when));
      const limited = decision === null ? null : limitedBy(rule, decision, request, conditions);
      if (limited === null) continue;
      if (limited.kind === "decides") return { decision: limited.decision, position, limits };
      limits.push({ position, value: limited.limit });
    }
    return { ...otherwise, limits };
  } finally {
    conditions.close();
  }
}

export type Limited =
  | { readonly kind: "decides"; readonly decision: Decision }
  /** The rule decides only beyond its limit. */
  | { readonly kind: "limits"; readonly limit: Limit };

/** What a rule that matches contributes; null for nothing. A `sum` that fails is judged as a failed condition. */
export function limitedBy(
  rule: CompiledRule,
  exceeded: Decision,
  request: PolicyRequest,
  conditions: Conditions,
): Limited | null {
  if (rule.limit === null) return { kind: "decides", decision: exceeded };
  const { kind, by, max, withinMs, sum } = rule.limit;
  const amount = sum === null ? 1 : conditions.number(sum);
  if (typeof amount === "string") {
    const decision = decisionAfter(rule, amount, "sum");
    return decision === null ? null : { kind: "decides", decision };
  }
  if (amount === 0) return null;
  const key = limitKey(by, request);
  const ruleId = rule.rule.id;
  return { kind: "limits", limit: { kind, ruleId, by, key, max, withinMs, amount, isSum: sum !== null, exceeded } };
}

/** A job that is denied in any case does not wait for a slot first. */
function withLimits(decision: Decision, limits: readonly Limit[]): Decision {
  const relevant = decision.effect === "deny" ? limits.filter(({ kind }) => kind !== "throttle") : limits;
  return relevant.length === 0 ? decision : { ...decision, limits: relevant };
}

/** Everything but the condition. `evaluate` stops at the first mismatch; `explain` checks the parts one by one. */
export function matches(rule: CompiledRule, request: PolicyRequest, topic: Topic): boolean {
  return (
    hasName(rule.tenants, request.org) &&
    hasTopic(rule.topics, topic) &&
    hasName(rule.capabilities, request.capability) &&
    hasName(rule.actorIds, request.actorId) &&
    hasName(rule.actorTypes, request.actorType) &&
    hasName(rule.packIds, request.packId) &&
    hasAny(rule.riskTags, request.riskTags) &&
    hasAny(rule.requires, request.requires) &&
    hasLabels(rule.labels, request.labels) &&
    hasMcp(rule.mcp, request.labels)
  );
}

export function hasTopic(expected: CompiledRule["topics"], topic: Topic): boolean {
  if (expected === null || expected.exact.has(topic.bare)) return true;
  for (const pattern of expected.open) if (matchesTopic(pattern, topic.tokens)) return true;
  return false;
}

export function hasName<T extends string>(expected: ReadonlySet<T> | null, name: T | null): boolean {
  return expected === null || (name !== null && expected.has(name));
}

export function hasAny(expected: ReadonlySet<string> | null, names: readonly string[]): boolean {
  if (expected === null) return true;
  for (const name of names) if (expected.has(name)) return true;
  return false;
}

export function hasLabel(labels: PolicyRequest["labels"], key: string, value: string): boolean {
  const label = labelOf(labels, key);
  return label !== undefined && (value === "*" || label === value);
}

export function hasPattern(labels: PolicyRequest["labels"], key: string, patterns: NamePatterns): boolean {
  const label = labelOf(labels, key);
  return label !== undefined && patterns.has(label);
}

function hasLabels(expected: CompiledRule["labels"], labels: PolicyRequest["labels"]): boolean {
  for (const [key, value] of expected) if (!hasLabel(labels, key, value)) return false;
  return true;
}

function hasMcp(expected: CompiledRule["mcp"], labels: PolicyRequest["labels"]): boolean {
  for (const [, key, patterns] of expected) if (!hasPattern(labels, key, patterns)) return false;
  return true;
}

/** The decisions a policy would have made if the requests came in the order of their times, and no others. */
export interface Simulation {
  readonly snapshot: string;
  /** In request order. */
  readonly decisions: readonly Decision[];
  /** The limits of each decision, and how much was used before. */
  readonly limits: readonly SimulatedDecision["limits"][];
  readonly byEffect: Readonly<Record<Effect, number>>;
  /** All rules in document order, including unused ones; null for the default. */
  readonly byRule: readonly { readonly ruleId: string | null; readonly count: number }[];
}

/** Fifty checks that use their whole limit, or thousands of usual ones. */
export const simulationBudget = (): StepBudget => new StepBudget("the simulation", 5_000_000);

/** Runs evaluations of a snapshot within the budget of a request. */
export function withinBudget<T>({ conditions, shadow }: Snapshot, budget: StepBudget, work: () => T): T {
  return conditions.within(budget, () => (shadow === null ? work() : shadow.conditions.within(budget, work)));
}

/** Throws a `BudgetError` if the requests together exceed the budget: a cut-off condition is no decision. */
export function simulate(snapshot: Snapshot, requests: readonly PolicyRequest[], budget: StepBudget): Simulation {
  const evaluated = withinBudget(snapshot, budget, () =>
    requests.map((request) => {
      const decision = evaluate(snapshot, request);
      // At most a tenth of the rules is matched beyond the index; a limit is compared with the uses before.
      budget.spend(1 + snapshot.rules.length / 10 + ((decision.limits?.length ?? 0) * requests.length) / 10);
      if (budget.left === 0) throw new BudgetError(budget.fault);
      return decision;
    }),
  );
  const applied = applyInOrder(requests, evaluated);
  const decisions = applied.map(({ decision }) => decision);
  const byRule = new Map<string | null, number>(snapshot.document.rules.map(({ id }) => [id, 0]));
  byRule.set(null, 0);
  for (const { ruleId } of decisions) byRule.set(ruleId, (byRule.get(ruleId) ?? 0) + 1);
  const countOf = (effect: Effect) => decisions.filter((decision) => decision.effect === effect).length;
  return {
    snapshot: snapshot.hash,
    decisions,
    limits: applied.map(({ limits }) => limits),
    byEffect: Object.fromEntries(EFFECTS.map((effect) => [effect, countOf(effect)])) as Record<Effect, number>,
    byRule: [...byRule].map(([ruleId, count]) => ({ ruleId, count })),
  };
}
