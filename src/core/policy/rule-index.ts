/**
 * Which rules can match a request at all.
 *
 * 1. Every rule is filed under the one part of its `match` that it shares with the fewest other rules: its topics, its
 *    tenants, its capabilities and so on. A request is looked up under what it has, so it meets few rules that are not
 *    about it, however many there are. Rules that ask for nothing that can be looked up are met by every request.
 * 2. Topics with `*` or `**` are filed in trees of tokens: open at the end by their first tokens, open at the beginning
 *    by their last.
 * 3. Rules with a condition are kept apart from those without, because they are asked later. In each list positions ascend.
 */
import type { CompiledRule } from "./compile.ts";
import type { PolicyRequest } from "./decision.ts";
import type { TopicPattern } from "./pattern.ts";
import type { Topic } from "./topic.ts";

/** Positions of rules in the document. */
export interface Bucket {
  readonly plain: number[];
  readonly conditional: number[];
}

export class RuleIndex {
  readonly #always = emptyBucket();
  readonly #topics = new Map<string, Bucket>();
  readonly #fromFirst = emptyNode();
  readonly #fromLast = emptyNode();
  readonly #names: Readonly<Record<NameKind, Map<string, Bucket>>> = {
    tenant: new Map(),
    capability: new Map(),
    actor: new Map(),
    pack: new Map(),
    riskTag: new Map(),
    requirement: new Map(),
  };
  /** By key, then by value; under null the rules that ask only for the key. */
  readonly #labels = new Map<string, Map<string | null, Bucket>>();

  constructor(rules: readonly CompiledRule[]) {
    const shared = new Map<string, number>();
    const ways = rules.map(waysToFile);
    for (const key of ways.flat(2)) shared.set(nameOf(key), (shared.get(nameOf(key)) ?? 0) + 1);
    for (const [position, rule] of rules.entries()) {
      for (const key of rarest(ways[position] ?? [], shared)) put(this.#bucketOf(key), position, rule.when !== null);
    }
  }

  /** Puts the buckets of all rules that can match into `found`. */
  find(request: PolicyRequest, topic: Topic, found: Bucket[]): void {
    add(found, this.#always);
    add(found, this.#topics.get(topic.bare));
    if (hasBelow(this.#fromFirst)) walkFromFirst(this.#fromFirst, topic.tokens, 0, found);
    if (hasBelow(this.#fromLast)) walkFromLast(this.#fromLast, topic.tokens, topic.tokens.length - 1, found);
    const { tenant, capability, actor, pack, riskTag, requirement } = this.#names;
    if (tenant.size > 0) add(found, tenant.get(request.org));
    if (capability.size > 0 && request.capability !== null) add(found, capability.get(request.capability));
    if (actor.size > 0 && request.actorId !== null) add(found, actor.get(request.actorId));
    if (pack.size > 0 && request.packId !== null) add(found, pack.get(request.packId));
    if (riskTag.size > 0) for (const name of request.riskTags) add(found, riskTag.get(name));
    if (requirement.size > 0) for (const name of request.requires) add(found, requirement.get(name));
    if (this.#labels.size > 0) this.#findLabels(request.labels, found);
  }

  #findLabels(labels: PolicyRequest["labels"], found: Bucket[]): void {
    for (const key of Object.keys(labels)) {
      const values = this.#labels.get(key);
      if (values === undefined) continue;
      add(found, values.get(null));
      add(found, values.get(labels[key] ?? null));
    }
  }

  #bucketOf(key: FilingKey): Bucket {
    switch (key.kind) {
      case "always":
        return this.#always;
      case "topic":
        return entryOf(this.#topics, key.topic, emptyBucket);
      case "pattern":
        return this.#placeOf(key.pattern);
      case "name":
        return entryOf(this.#names[key.of], key.name, emptyBucket);
      case "label":
        return entryOf(
          entryOf(this.#labels, key.label, () => new Map<string | null, Bucket>()),
          key.value,
          emptyBucket,
        );
      default:
        return key satisfies never;
    }
  }

  #placeOf({ tokens, open }: TopicPattern): Bucket {
    let node = open === "begin" ? this.#fromLast : this.#fromFirst;
    for (const token of open === "begin" ? tokens.toReversed() : tokens) {
      if (token === null) node.one ??= emptyNode();
      node = token === null ? (node.one ?? node) : entryOf(node.exact, token, emptyNode);
    }
    return open === "no" ? node.here : node.more;
  }
}

type NameKind = "tenant" | "capability" | "actor" | "pack" | "riskTag" | "requirement";

type FilingKey =
  | { readonly kind: "always" }
  | { readonly kind: "topic"; readonly topic: string }
  | { readonly kind: "pattern"; readonly pattern: TopicPattern }
  | { readonly kind: "name"; readonly of: NameKind; readonly name: string }
  | { readonly kind: "label"; readonly label: string; readonly value: string | null };

/** A place in a tree of tokens. */
interface TokenNode {
  readonly exact: Map<string, TokenNode>;
  one: TokenNode | null;
  /** Of rules whose pattern ends here. */
  readonly here: Bucket;
  /** Of rules whose pattern goes on with one or more tokens of any kind. */
  readonly more: Bucket;
}

/** Each way is a list of keys: filed this way, the rule stands under all of them. */
function waysToFile(rule: CompiledRule): readonly (readonly FilingKey[])[] {
  const { topics } = rule;
  const names = (of: NameKind, set: ReadonlySet<string> | null): FilingKey[][] =>
    set === null ? [] : [[...set].map((name) => ({ kind: "name", of, name }))];
  return [
    ...(topics === null || topics.open.some(isForAll) ? [] : [topicKeys(topics)]),
    ...names("tenant", rule.tenants),
    ...names("capability", rule.capabilities),
    ...names("actor", rule.actorIds),
    ...names("pack", rule.packIds),
    ...names("riskTag", rule.riskTags),
    ...names("requirement", rule.requires),
    ...rule.labels.map(([label, value]): FilingKey[] => [
      { kind: "label", label, value: value === "*" ? null : value },
    ]),
    ...rule.mcp
      .filter(([, , patterns]) => patterns.isExact)
      .map(([, label, { names }]) => [...names].map((value): FilingKey => ({ kind: "label", label, value }))),
  ];
}

function topicKeys({ exact, open }: NonNullable<CompiledRule["topics"]>): FilingKey[] {
  return [
    ...[...exact].map((topic): FilingKey => ({ kind: "topic", topic })),
    ...open.map((pattern): FilingKey => ({ kind: "pattern", pattern })),
  ];
}

/** `**`, `*.*`: no token to look for. */
function isForAll({ tokens }: TopicPattern): boolean {
  return tokens.every((token) => token === null);
}

/** The way whose most crowded key is the least crowded; of equals the first. */
function rarest(ways: readonly (readonly FilingKey[])[], shared: ReadonlyMap<string, number>): readonly FilingKey[] {
  let best: { readonly way: readonly FilingKey[]; readonly crowd: number } | null = null;
  for (const way of ways) {
    const crowd = way.reduce((most, key) => Math.max(most, shared.get(nameOf(key)) ?? 0), 0);
    if (best === null || crowd < best.crowd) best = { way, crowd };
  }
  return best?.way ?? [{ kind: "always" }];
}

function nameOf(key: FilingKey): string {
  return JSON.stringify(key);
}

/** One rule may name a topic twice. Rules come in ascending order, so an equal position can only be the last. */
function put(bucket: Bucket, position: number, isConditional: boolean): void {
  const positions = isConditional ? bucket.conditional : bucket.plain;
  if (positions.at(-1) !== position) positions.push(position);
}

function add(found: Bucket[], bucket: Bucket | undefined): void {
  if (bucket !== undefined && bucket.plain.length + bucket.conditional.length > 0) found.push(bucket);
}

function walkFromFirst(node: TokenNode, tokens: readonly string[], at: number, found: Bucket[]): void {
  const token = tokens[at];
  if (token === undefined) {
    add(found, node.here);
    return;
  }
  add(found, node.more);
  const next = node.exact.get(token);
  if (next !== undefined) walkFromFirst(next, tokens, at + 1, found);
  if (node.one !== null) walkFromFirst(node.one, tokens, at + 1, found);
}

/** Only patterns that are open at the beginning are here, so nothing ends with the topic. */
function walkFromLast(node: TokenNode, tokens: readonly string[], at: number, found: Bucket[]): void {
  const token = tokens[at];
  if (token === undefined) return;
  add(found, node.more);
  const next = node.exact.get(token);
  if (next !== undefined) walkFromLast(next, tokens, at - 1, found);
  if (node.one !== null) walkFromLast(node.one, tokens, at - 1, found);
}

function hasBelow(node: TokenNode): boolean {
  return node.exact.size > 0 || node.one !== null;
}

function entryOf<K, V>(map: Map<K, V>, key: K, empty: () => V): V {
  const entry = map.get(key) ?? empty();
  map.set(key, entry);
  return entry;
}

function emptyBucket(): Bucket {
  return { plain: [], conditional: [] };
}

function emptyNode(): TokenNode {
  return { exact: new Map(), one: null, here: emptyBucket(), more: emptyBucket() };
}
