/**
 * From a policy to an index, so that a check looks at the rules that can match and at no others.
 *
 * 1. The index only leaves out rules that cannot match the request's tenant and topic. Which of the rest matches, and
 *    in which order they are asked, is as in the document.
 * 2. A snapshot never changes, and its hash is that of the whole document: equal hashes, equal decisions.
 */
import { createHash } from "node:crypto";
import type { Decision } from "./decision.ts";
import type { Match, PolicyDocument, Rule } from "./document.ts";
import { tokensOfPattern } from "./pattern.ts";

export interface Snapshot {
  readonly hash: string;
  readonly document: PolicyDocument;
  readonly rules: readonly CompiledRule[];
  /** Rules for any tenant, and those for one, by topic. */
  readonly anyTenant: TopicNode;
  readonly byTenant: ReadonlyMap<string, TopicNode>;
  readonly otherwise: Decision;
}

export interface CompiledRule {
  readonly decision: Decision;
  /** What the index does not answer; null where there is nothing of that kind to ask. */
  readonly capabilities: ReadonlySet<string> | null;
  readonly riskTags: ReadonlySet<string> | null;
  readonly actorIds: ReadonlySet<string> | null;
  readonly labels: readonly (readonly [string, string])[];
}

/** A place in the tree of topic tokens. Positions are those of the rules in the document, ascending. */
export interface TopicNode {
  readonly exact: Map<string, TopicNode>;
  one: TopicNode | null;
  /** Rules whose pattern ends exactly here. */
  readonly here: number[];
  /** Rules whose pattern goes on with one or more tokens of any kind. */
  readonly rest: number[];
}

export function compile(document: PolicyDocument): Snapshot {
  const hash = hashOf(document);
  const anyTenant = emptyNode();
  const byTenant = new Map<string, TopicNode>();
  for (const [position, { match }] of document.rules.entries()) {
    for (const root of rootsOf(match, anyTenant, byTenant)) {
      for (const pattern of match.topics ?? [">"]) insert(root, pattern, position);
    }
  }
  const otherwise: Decision = Object.freeze({
    effect: document.defaultDecision,
    ruleId: null,
    reason: `no rule matches, and the policy's default is ${document.defaultDecision}`,
    snapshot: hash,
  });
  return {
    hash,
    document,
    rules: document.rules.map((rule) => compileRule(rule, hash)),
    anyTenant,
    byTenant,
    otherwise,
  };
}

function compileRule({ id, match, decision, reason }: Rule, snapshot: string): CompiledRule {
  return {
    decision: Object.freeze({ effect: decision, ruleId: id, reason, snapshot }),
    capabilities: setOf(match.capabilities),
    riskTags: setOf(match.riskTags),
    actorIds: setOf(match.actorIds),
    labels: Object.entries(match.labels ?? {}),
  };
}

function rootsOf(match: Match, anyTenant: TopicNode, byTenant: Map<string, TopicNode>): readonly TopicNode[] {
  if (match.tenants === undefined) return [anyTenant];
  return [...new Set(match.tenants)].map((tenant) => {
    const root = byTenant.get(tenant) ?? emptyNode();
    byTenant.set(tenant, root);
    return root;
  });
}

function insert(root: TopicNode, pattern: string, position: number): void {
  let node = root;
  for (const token of tokensOfPattern(pattern)) {
    switch (token.kind) {
      case "rest":
        pushOnce(node.rest, position);
        return;
      case "one":
        node.one ??= emptyNode();
        node = node.one;
        break;
      case "exact": {
        const next = node.exact.get(token.text) ?? emptyNode();
        node.exact.set(token.text, next);
        node = next;
        break;
      }
      default:
        token satisfies never;
    }
  }
  pushOnce(node.here, position);
}

/** One rule may name a topic twice. Positions come in ascending order, so an equal one can only be the last. */
function pushOnce(positions: number[], position: number): void {
  if (positions.at(-1) !== position) positions.push(position);
}

function emptyNode(): TopicNode {
  return { exact: new Map(), one: null, here: [], rest: [] };
}

function setOf(names: readonly string[] | undefined): ReadonlySet<string> | null {
  return names === undefined ? null : new Set(names);
}

function hashOf(document: PolicyDocument): string {
  return createHash("sha256")
    .update(JSON.stringify(canonical(document)))
    .digest("hex")
    .slice(0, 32);
}

/** Keys sorted, lists as they are: the order of rules means something, the order of keys does not. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, entry]) => [key, canonical(entry)]);
}
