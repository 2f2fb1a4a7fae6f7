/** The parts of a rule's `match`, one question each. `evaluate` asks until the first no, `explain` asks all. */
import type { CompiledRule } from "./compile.ts";
import type { PolicyRequest } from "./decision.ts";
import { matchesTopic, type NamePatterns } from "./pattern.ts";
import { labelOf } from "./request-view.ts";
import type { Topic } from "./topic.ts";

/** Everything but the condition. */
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

export function hasTopic(wanted: CompiledRule["topics"], topic: Topic): boolean {
  if (wanted === null || wanted.exact.has(topic.bare)) return true;
  for (const pattern of wanted.open) if (matchesTopic(pattern, topic.tokens)) return true;
  return false;
}

export function hasName<T extends string>(wanted: ReadonlySet<T> | null, name: T | null): boolean {
  return wanted === null || (name !== null && wanted.has(name));
}

export function hasAny(wanted: ReadonlySet<string> | null, names: readonly string[]): boolean {
  if (wanted === null) return true;
  for (const name of names) if (wanted.has(name)) return true;
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

function hasLabels(wanted: CompiledRule["labels"], labels: PolicyRequest["labels"]): boolean {
  for (const [key, value] of wanted) if (!hasLabel(labels, key, value)) return false;
  return true;
}

function hasMcp(wanted: CompiledRule["mcp"], labels: PolicyRequest["labels"]): boolean {
  for (const [, key, patterns] of wanted) if (!hasPattern(labels, key, patterns)) return false;
  return true;
}
