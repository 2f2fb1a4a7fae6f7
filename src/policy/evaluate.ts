import type { CompiledRule, Snapshot, TopicNode } from "./compile.ts";
import type { Decision, PolicyRequest } from "./decision.ts";
import { tokensOfTopic } from "./pattern.ts";

/** The first rule that matches decides; if none does, the policy's default. Same snapshot and request, same decision. */
export function evaluate(snapshot: Snapshot, request: PolicyRequest): Decision {
  const tokens = tokensOfTopic(request.topic);
  const found: (readonly number[])[] = [];
  collect(snapshot.anyTenant, tokens, 0, found);
  const ofTenant = snapshot.byTenant.get(request.org);
  if (ofTenant !== undefined) collect(ofTenant, tokens, 0, found);
  return firstMatch(snapshot, found, request)?.decision ?? snapshot.otherwise;
}

/** The lists of rules whose topic patterns match. */
function collect(node: TopicNode, tokens: readonly string[], depth: number, found: (readonly number[])[]): void {
  const token = tokens[depth];
  if (token === undefined) {
    if (node.here.length > 0) found.push(node.here);
    return;
  }
  if (node.rest.length > 0) found.push(node.rest);
  const exact = node.exact.get(token);
  if (exact !== undefined) collect(exact, tokens, depth + 1, found);
  if (node.one !== null) collect(node.one, tokens, depth + 1, found);
}

/** Walks several ascending lists of positions as one, in the order of the document, until a rule matches. */
function firstMatch(
  snapshot: Snapshot,
  lists: readonly (readonly number[])[],
  request: PolicyRequest,
): CompiledRule | undefined {
  const next = lists.map(() => 0);
  for (;;) {
    let lowest = Number.POSITIVE_INFINITY;
    let from = -1;
    for (let index = 0; index < lists.length; index += 1) {
      const position = lists[index]?.[next[index] ?? 0];
      if (position !== undefined && position < lowest) {
        lowest = position;
        from = index;
      }
    }
    if (from < 0) return undefined;
    next[from] = (next[from] ?? 0) + 1;
    const rule = snapshot.rules[lowest];
    if (rule !== undefined && matches(rule, request)) return rule;
  }
}

function matches(rule: CompiledRule, request: PolicyRequest): boolean {
  return (
    (rule.capabilities === null || (request.capability !== null && rule.capabilities.has(request.capability))) &&
    (rule.actorIds === null || (request.actorId !== null && rule.actorIds.has(request.actorId))) &&
    (rule.riskTags === null || request.riskTags.some((tag) => rule.riskTags?.has(tag))) &&
    (rule.labels.length === 0 || rule.labels.every(([key, value]) => hasLabel(request.labels, key, value)))
  );
}

function hasLabel(labels: PolicyRequest["labels"], key: string, value: string): boolean {
  return Object.hasOwn(labels, key) && (value === "*" || labels[key] === value);
}
