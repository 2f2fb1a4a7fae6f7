/**
 * Compiles a policy into a snapshot.
 *
 * 1. A snapshot is immutable; its hash covers the whole document: equal hashes mean equal decisions.
 * 2. The index only excludes rules that cannot match. The remaining rules are evaluated in document order.
 * 3. Shadow rules keep their position, but have an index and conditions of their own: no enforced decision depends on them.
 */
import { createHash } from "node:crypto";
import { bareTopic } from "../model/canonical.ts";
import { canonicalText } from "../model/json.ts";
import { parseDuration } from "../retry/duration.ts";
import { type Condition, Conditions } from "./condition.ts";
import type { ActorType, ApprovalTerms, Decision } from "./decision.ts";
import type { McpMatch, PolicyDocument, Rule } from "./document.ts";
import { LIMIT_BOUNDS, type LimitBy, type LimitKind, parseRate } from "./limits/limit.ts";
import { NamePatterns, parsePattern, type TopicPattern } from "./pattern.ts";
import { MCP_LABELS } from "./request-view.ts";
import { RuleIndex } from "./rule-index.ts";

export interface Snapshot {
  readonly hash: string;
  readonly document: PolicyDocument;
  readonly rules: readonly CompiledRule[];
  readonly index: RuleIndex;
  readonly conditions: Conditions;
  /** Null if there are none. */
  readonly shadow: ShadowRules | null;
  readonly defaultDecision: Decision;
}

export interface ShadowRules {
  readonly index: RuleIndex;
  readonly conditions: Conditions;
}

/** Null fields match anything. */
export interface CompiledRule {
  readonly rule: Rule;
  readonly decision: Decision;
  readonly tenants: ReadonlySet<string> | null;
  readonly topics: TopicPatterns | null;
  readonly capabilities: ReadonlySet<string> | null;
  readonly riskTags: ReadonlySet<string> | null;
  readonly requires: ReadonlySet<string> | null;
  readonly actorIds: ReadonlySet<string> | null;
  readonly actorTypes: ReadonlySet<ActorType> | null;
  readonly packIds: ReadonlySet<string> | null;
  readonly labels: readonly (readonly [string, string])[];
  /** The key of `match.mcp`, its label, and the name patterns. */
  readonly mcp: readonly (readonly [keyof McpMatch, string, NamePatterns])[];
  readonly when: Condition | null;
  readonly limit: CompiledLimit | null;
}

export interface CompiledLimit {
  readonly kind: LimitKind;
  readonly max: number;
  readonly withinMs: number;
  readonly by: LimitBy;
  readonly sum: Condition | null;
}

/** One match suffices. */
export interface TopicPatterns {
  readonly exact: ReadonlySet<string>;
  readonly open: readonly TopicPattern[];
}

/** Throws on an invalid condition; `readPolicy` has already checked those of a file. */
export function compile(document: PolicyDocument): Snapshot {
  const hash = hashOf(document);
  const conditions = new Conditions();
  const isShadow = ({ shadow }: Rule) => shadow === true;
  const hasShadow = document.rules.some(isShadow);
  const shadowConditions = hasShadow ? new Conditions(SHADOW_STEPS_MAX) : conditions;
  const rules = document.rules.map((rule) => compileRule(rule, hash, isShadow(rule) ? shadowConditions : conditions));
  return {
    hash,
    document,
    rules,
    index: new RuleIndex(rules, ({ rule }) => !isShadow(rule)),
    conditions,
    shadow: hasShadow
      ? { index: new RuleIndex(rules, ({ rule }) => isShadow(rule)), conditions: shadowConditions }
      : null,
    defaultDecision: Object.freeze({
      effect: document.defaultDecision,
      ruleId: null,
      reason: `no rule matches; the policy default is ${document.defaultDecision}`,
      snapshot: hash,
      ...(document.defaultDecision === "require_approval" ? { approval: APPROVAL } : {}),
    }),
  };
}

const APPROVAL: ApprovalTerms = Object.freeze({ expiresMs: null, bySubmitter: false });

function compileRule(rule: Rule, snapshot: string, conditions: Conditions): CompiledRule {
  const { match } = rule;
  return {
    rule,
    decision: decisionOf(rule, snapshot),
    tenants: setOf(match.tenants),
    topics: match.topics === undefined ? null : compileTopics(match.topics),
    capabilities: setOf(match.capabilities),
    riskTags: setOf(match.riskTags),
    requires: setOf(match.requires),
    actorIds: setOf(match.actorIds),
    actorTypes: setOf(match.actorTypes),
    packIds: setOf(match.packIds),
    labels: Object.entries(match.labels ?? {}),
    mcp: MCP_PARTS.flatMap((part) => {
      const patterns = match.mcp?.[part];
      return patterns === undefined ? [] : [[part, MCP_LABELS[part], new NamePatterns(patterns)] as const];
    }),
    when: match.when === undefined ? null : compileWhen(rule.id, match.when, conditions),
    limit: compileLimit(rule, conditions),
  };
}

function compileLimit({ id, throttle, velocity }: Rule, conditions: Conditions): CompiledLimit | null {
  if (throttle !== undefined) return { kind: "throttle", ...parseRate(throttle.rate), by: throttle.by, sum: null };
  if (velocity === undefined) return null;
  const { max, within, by, sum } = velocity;
  const compiled = sum === undefined ? null : conditions.compileNumber(sum);
  if (compiled?.kind === "bad") throw new Error(`rule \`${id}\`: \`sum\` ${compiled.problem}`);
  const withinMs = parseDuration(within, LIMIT_BOUNDS.velocityWithin);
  return { kind: "velocity", max, withinMs, by, sum: compiled?.condition ?? null };
}

const MCP_PARTS = ["servers", "tools", "resources", "actions"] as const;

function decisionOf(rule: Rule, snapshot: string): Decision {
  const { id, decision, reason, constraints, remediations, approval, budget } = rule;
  return Object.freeze({
    effect: decision,
    ruleId: id,
    reason,
    snapshot,
    ...(constraints === undefined ? {} : { constraints }),
    ...(remediations === undefined ? {} : { remediations }),
    ...(decision === "require_approval" ? { approval: approval ?? APPROVAL } : {}),
    ...(budget === undefined ? {} : { budgets: budget }),
  });
}

function compileTopics(topics: readonly string[]): TopicPatterns {
  const isOpen = (topic: string) => /[*>]/.test(topic);
  return {
    exact: new Set(topics.filter((topic) => !isOpen(topic)).map(bareTopic)),
    open: topics.filter(isOpen).map(parsePattern),
  };
}

function compileWhen(id: string, text: string, conditions: Conditions): Condition {
  const compiled = conditions.compile(text);
  if (compiled.kind === "ok") return compiled.condition;
  throw new Error(`rule \`${id}\`: \`when\` ${compiled.problem}`);
}

function setOf<T>(names: readonly T[] | undefined): ReadonlySet<T> | null {
  return names === undefined ? null : new Set(names);
}

function hashOf(document: PolicyDocument): string {
  return createHash("sha256").update(canonicalText(document)).digest("hex").slice(0, 32);
}

/** All conditions of shadow rules in one check: a fifth of what the enforced rules may take. */
const SHADOW_STEPS_MAX = 20_000;
