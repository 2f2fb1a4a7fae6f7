/**
 * Finds the rules that can match a request.
 *
 * 1. Every rule is indexed under the part of its `match` that it shares with the fewest other rules. A request is
 *    looked up under its own fields, so it meets few unrelated rules. Rules without an indexable part are candidates
 *    for every request.
 * 2. Topics with wildcards are stored in token tries: by first tokens if open at the end, by last tokens if open at the
 *    start.
 * 3. Rules with a condition or a limit are stored separately, because they are evaluated later. Positions in each list
 *    ascend.
 */
import type { CompiledRule } from "./compile.ts";
import type { PolicyRequest } from "./decision.ts";
import type { Topic, TopicPattern } from "./pattern.ts";

/** Rule positions in the document. */
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
  /** By key and value; null for rules that require only the key. */
  readonly #labels = new Map<string, Map<string | null, Bucket>>();

  constructor(rules: readonly CompiledRule[], isIndexed: (rule: CompiledRule) => boolean) {
    const shared = new Map<string, number>();
    const ways = rules.map((rule) => (isIndexed(rule) ? indexOptions(rule) : null));
    for (const key of ways.flatMap((way) => way ?? []).flat())
      shared.set(nameOf(key), (shared.get(nameOf(key)) ?? 0) + 1);
    for (const [position, rule] of rules.entries()) {
      const way = ways[position];
      if (way) for (const key of rarest(way, shared)) put(this.#bucketOf(key), position, isConditional(rule));
    }
  }

  /** Appends the buckets of all candidate rules to `found`. */
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

  #bucketOf(key: IndexKey): Bucket {
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

type IndexKey =
  | { readonly kind: "always" }
  | { readonly kind: "topic"; readonly topic: string }
  | { readonly kind: "pattern"; readonly pattern: TopicPattern }
  | { readonly kind: "name"; readonly of: NameKind; readonly name: string }
  | { readonly kind: "label"; readonly label: string; readonly value: string | null };

/** A trie node. */
interface TokenNode {
  readonly exact: Map<string, TokenNode>;
  one: TokenNode | null;
  /** Patterns that end here. */
  readonly here: Bucket;
  /** Patterns that continue with one or more arbitrary tokens. */
  readonly more: Bucket;
}

const isConditional = ({ when, limit }: CompiledRule): boolean => when !== null || limit !== null;

/** Alternative key lists; the rule is stored under all keys of the chosen one. */
function indexOptions(rule: CompiledRule): readonly (readonly IndexKey[])[] {
  const { topics } = rule;
  const names = (of: NameKind, set: ReadonlySet<string> | null): IndexKey[][] =>
    set === null ? [] : [[...set].map((name) => ({ kind: "name", of, name }))];
  return [
    ...(topics === null || topics.open.some(matchesEverything) ? [] : [topicKeys(topics)]),
    ...names("tenant", rule.tenants),
    ...names("capability", rule.capabilities),
    ...names("actor", rule.actorIds),
    ...names("pack", rule.packIds),
    ...names("riskTag", rule.riskTags),
    ...names("requirement", rule.requires),
    ...rule.labels.map(([label, value]): IndexKey[] => [{ kind: "label", label, value: value === "*" ? null : value }]),
    ...rule.mcp
      .filter(([, , patterns]) => patterns.isExact)
      .map(([, label, { names }]) => [...names].map((value): IndexKey => ({ kind: "label", label, value }))),
  ];
}

function topicKeys({ exact, open }: NonNullable<CompiledRule["topics"]>): IndexKey[] {
  return [
    ...[...exact].map((topic): IndexKey => ({ kind: "topic", topic })),
    ...open.map((pattern): IndexKey => ({ kind: "pattern", pattern })),
  ];
}

/** `**`, `*.*`: no literal token. */
function matchesEverything({ tokens }: TopicPattern): boolean {
  return tokens.every((token) => token === null);
}

/** The alternative whose most used key is the least used; ties go to the first. */
function rarest(ways: readonly (readonly IndexKey[])[], shared: ReadonlyMap<string, number>): readonly IndexKey[] {
  let best: { readonly keys: readonly IndexKey[]; readonly uses: number } | null = null;
  for (const way of ways) {
    const uses = way.reduce((most, key) => Math.max(most, shared.get(nameOf(key)) ?? 0), 0);
    if (best === null || uses < best.uses) best = { keys: way, uses };
  }
  return best?.keys ?? [{ kind: "always" }];
}

function nameOf(key: IndexKey): string {
  return JSON.stringify(key);
}

/** Skips duplicates: positions are added in ascending order, so an equal one is the last. */
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

/** Only patterns open at the start are here, so none ends with the topic. */
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
