import { formatDuration } from "../retry/duration.ts";
import { canonicalRequest } from "./canonical-request.ts";
import type { CompiledRule, Snapshot } from "./compile.ts";
import type { Outcome } from "./condition.ts";
import { type Decision, type PolicyRequest, SHADOW_MAX, type ShadowVerdict } from "./decision.ts";
import {
  complete,
  decisionAfter,
  hasAny,
  hasLabel,
  hasName,
  hasPattern,
  hasTopic,
  limitedBy,
  matches,
  type Placed,
  shadowVerdict,
} from "./evaluate.ts";
import type { Limit } from "./limits/limit.ts";
import { Topic } from "./pattern.ts";
import { CallerFields, labelOf } from "./request-view.ts";

/** A decision, and why no earlier rule applied. */
export interface Explanation {
  readonly decision: Decision;
  /** The rules before the deciding one, in document order, at most `TRIED_MAX`. */
  readonly tried: readonly TriedRule[];
  /** The number of rules beyond that. */
  readonly omitted: number;
}

export interface TriedRule {
  readonly ruleId: string;
  /** The parts of `match` that did not match. */
  readonly mismatches: readonly Mismatch[];
}

export interface Mismatch {
  readonly part: string;
  readonly text: string;
}

export const TRIED_MAX = 100;

/** Walks all rules without the index; decides like `evaluate`. */
export function explain(snapshot: Snapshot, received: PolicyRequest): Explanation {
  const request = canonicalRequest(received);
  const topic = new Topic(request.topic);
  const { conditions, shadow } = snapshot;
  const tried: TriedRule[] = [];
  const limits: Placed<Limit>[] = [];
  const verdicts: Placed<ShadowVerdict>[] = [];
  let count = 0;
  const end = (decision: Decision): Explanation => ({
    decision: complete(decision, { nowMs: request.nowMs, isTimed: conditions.isTimed, limits, verdicts }),
    tried,
    omitted: count - tried.length,
  });
  conditions.open(request);
  shadow?.conditions.open(request);
  try {
    for (const [position, rule] of snapshot.rules.entries()) {
      const isMatch = matches(rule, request, topic);
      const isShadow = rule.rule.shadow === true;
      if (isShadow && isMatch && verdicts.length >= SHADOW_MAX) continue;
      const used = isShadow && shadow !== null ? shadow.conditions : conditions;
      const outcome = isMatch && (rule.when === null || used.evaluate(rule.when));
      const matching = decisionAfter(rule, outcome);
      if (isShadow && matching !== null) {
        verdicts.push({ position, value: shadowVerdict(matching, outcome) });
        continue;
      }
      const limited = matching === null ? null : limitedBy(rule, matching, request, conditions);
      if (limited?.kind === "decides") return end(limited.decision);
      if (limited?.kind === "limits") limits.push({ position, value: limited.limit });
      count += 1;
      if (tried.length >= TRIED_MAX) continue;
      const mismatches = limitMismatch(rule, limited?.limit, matching) ?? [
        ...(isMatch ? [unanswered(rule, outcome, request)] : mismatchesOf(rule, request, topic)),
      ];
      tried.push({ ruleId: rule.rule.id, mismatches });
    }
    return end(snapshot.defaultDecision);
  } finally {
    conditions.close();
    shadow?.conditions.close();
  }
}

/** A rule that matches and has a limit; null for others. */
function limitMismatch(
  { limit }: CompiledRule,
  found: Limit | undefined,
  matching: Decision | null,
): Mismatch[] | null {
  if (limit === null || matching === null) return null;
  if (found === undefined) return [{ part: "velocity.sum", text: "the request adds nothing to the sum" }];
  const { kind, max, withinMs, by } = found;
  return [{ part: kind, text: `the rule applies beyond ${max} in ${formatDuration(withinMs)} by ${by}` }];
}

function mismatchesOf(rule: CompiledRule, request: PolicyRequest, topic: Topic): Mismatch[] {
  const { match } = rule.rule;
  const found: Mismatch[] = [];
  const check = (isMatch: boolean, part: string, expected: readonly string[] | undefined, has: string) => {
    if (!isMatch) found.push({ part, text: `${has}; the rule requires ${listed(expected ?? [], "or")}` });
  };
  const name = (what: string, value: string | null) =>
    value === null ? `the request has no ${what}` : `the request's ${what} is ${quoted(value)}`;
  const names = (what: string, values: readonly string[]) =>
    values.length === 0 ? `the request has no ${what}` : `the request's ${what} are ${listed(values, "and")}`;
  check(hasName(rule.tenants, request.org), "tenants", match.tenants, name("tenant", request.org));
  check(hasTopic(rule.topics, topic), "topics", match.topics, name("topic", request.topic));
  check(
    hasName(rule.capabilities, request.capability),
    "capabilities",
    match.capabilities,
    name("capability", request.capability),
  );
  check(hasAny(rule.riskTags, request.riskTags), "risk_tags", match.riskTags, names("risk tags", request.riskTags));
  check(hasAny(rule.requires, request.requires), "requires", match.requires, names("requirements", request.requires));
  check(hasName(rule.actorIds, request.actorId), "actor_ids", match.actorIds, name("actor", request.actorId));
  check(
    hasName(rule.actorTypes, request.actorType),
    "actor_types",
    match.actorTypes,
    name("actor type", request.actorType),
  );
  check(hasName(rule.packIds, request.packId), "pack_ids", match.packIds, name("pack", request.packId));
  for (const [key, value] of rule.labels) {
    const expected = value === "*" ? "any value" : quoted(value);
    if (!hasLabel(request.labels, key, value)) {
      found.push({
        part: `labels.${key}`,
        text: `${name(`label ${quoted(key)}`, labelOf(request.labels, key) ?? null)}; the rule requires ${expected}`,
      });
    }
  }
  for (const [part, key, patterns] of rule.mcp) {
    const has = name(`label ${quoted(key)}`, labelOf(request.labels, key) ?? null);
    check(hasPattern(request.labels, key, patterns), `mcp.${part}`, match.mcp?.[part], has);
  }
  return found;
}

function unanswered({ rule, when }: CompiledRule, outcome: Outcome, request: PolicyRequest): Mismatch {
  const text =
    outcome === false ? `is false: ${quoted(rule.match.when ?? "")}` : `failed, so the rule does not allow: ${outcome}`;
  const facts = [
    ...(when?.readsCaller ? [callerText(request)] : []),
    ...(when?.readsNow && request.nowMs !== undefined ? [`now is ${new Date(request.nowMs).toISOString()}`] : []),
  ];
  return { part: "when", text: [text, ...facts].join("; ") };
}

function callerText(request: PolicyRequest): string {
  if (request.caller === undefined) return "the caller is not authenticated";
  const known = Object.entries(new CallerFields(request)).filter(([, value]) => value !== "");
  return `the caller has ${known.map(([part, value]) => `${part} ${quoted(value)}`).join(", ")}`;
}

/** Shortened: a rule may list a thousand names. */
function listed(names: readonly string[], joint: "and" | "or"): string {
  const shown = names.slice(0, LISTED_MAX).map(quoted);
  const more = names.length - shown.length;
  if (more > 0) return `${shown.join(", ")} ${joint} ${more} more`;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} ${joint} ${shown.at(-1)}`;
}

function quoted(text: string): string {
  return `\`${text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text}\``;
}

const LISTED_MAX = 5;
const TEXT_MAX = 80;
