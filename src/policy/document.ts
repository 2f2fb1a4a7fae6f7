/**
 * A safety policy as people write it, read and checked.
 *
 * 1. Every problem is reported with its line, and an unknown key with the name that was probably meant: a rule that
 *    silently does not apply is worse than none.
 * 2. What is missing is the careful choice: no default decision means deny.
 * 3. Nothing is guessed. A list that can match nothing, a pattern that would not do what it looks like, two rules of
 *    one name, an alias: each is an error.
 */
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type YAMLMap } from "yaml";
import { suggestion } from "../model/nearest.ts";
import { patternProblem } from "./pattern.ts";

export interface PolicyDocument {
  /** The author's own, shown to operators. */
  readonly version: string | null;
  readonly defaultDecision: Effect;
  /** The first that matches decides. */
  readonly rules: readonly Rule[];
}

export interface Rule {
  readonly id: string;
  readonly match: Match;
  readonly decision: Effect;
  readonly reason: string;
}

/** Every part that is given must match; of the names in one part, one is enough. */
export interface Match {
  readonly tenants?: readonly string[];
  /** `*` is one token, `>` or `**` at the end is one or more. */
  readonly topics?: readonly string[];
  readonly capabilities?: readonly string[];
  readonly riskTags?: readonly string[];
  readonly actorIds?: readonly string[];
  /** All of them; the value `*` asks only that the label is there. */
  readonly labels?: Readonly<Record<string, string>>;
}

export type Effect = "allow" | "deny";

export type ReadPolicy =
  | { readonly kind: "ok"; readonly document: PolicyDocument }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export const POLICY_LIMITS = { textLength: 4 * 1024 * 1024, rules: 10_000, names: 1_000, nameLength: 256 } as const;

export function readPolicy(file: { readonly name: string; readonly text: string }): ReadPolicy {
  if (file.text.length > POLICY_LIMITS.textLength) {
    return bad([`${file.name}: longer than ${POLICY_LIMITS.textLength} characters; split it or remove old rules`]);
  }
  const lines = new LineCounter();
  const yaml = parseDocument(file.text, { lineCounter: lines, stringKeys: true });
  const faults = [...yaml.errors, ...yaml.warnings];
  if (faults.length > 0) {
    return bad(faults.map(({ linePos, message }) => `${file.name}:${linePos?.[0].line ?? 1}: ${firstLine(message)}`));
  }
  const problems: string[] = [];
  const reader: Reader = {
    problem(node, text) {
      problems.push(`${file.name}:${lines.linePos(node?.range?.[0] ?? 0).line}: ${text}`);
    },
  };
  const document = readDocument(reader, yaml.contents);
  return problems.length > 0 ? bad(problems) : { kind: "ok", document };
}

const DOCUMENT_KEYS = ["version", "default_decision", "rules"] as const;
const RULE_KEYS = ["id", "match", "decision", "reason"] as const;
const MATCH_KEYS = ["tenants", "topics", "capabilities", "risk_tags", "actor_ids", "labels"] as const;
const EFFECTS: readonly Effect[] = ["allow", "deny"];

interface Reader {
  problem(node: Node | null | undefined, text: string): void;
}

type YamlNode = Node | null | undefined;

function readDocument(reader: Reader, node: YamlNode): PolicyDocument {
  const fields = readFields(reader, node, DOCUMENT_KEYS, "a policy is a map with `rules`");
  const version = fields.get("version");
  const defaultNode = fields.get("default_decision");
  return {
    version: version === undefined ? null : readText(reader, version, "version"),
    defaultDecision: defaultNode === undefined ? "deny" : readEffect(reader, defaultNode, "default_decision"),
    rules: readRules(reader, fields.get("rules")),
  };
}

function readRules(reader: Reader, node: YamlNode): readonly Rule[] {
  if (node === undefined || (isScalar(node) && node.value === null)) return [];
  if (!isSeq(node) || node.items.length > POLICY_LIMITS.rules) {
    reader.problem(node, `\`rules\` is a list of at most ${POLICY_LIMITS.rules} rules`);
    return [];
  }
  const seen = new Set<string>();
  return node.items.map((item) => {
    const rule = readRule(reader, item as Node);
    if (rule.id !== "" && seen.has(rule.id)) {
      reader.problem(
        item as Node,
        `two rules are called \`${rule.id}\`; a decision names its rule, so give each its own id`,
      );
    }
    seen.add(rule.id);
    return rule;
  });
}

function readRule(reader: Reader, node: Node): Rule {
  const fields = readFields(reader, node, RULE_KEYS, "a rule is a map with `id`, `match`, `decision` and `reason`");
  const given = (key: (typeof RULE_KEYS)[number]) => {
    const value = fields.get(key);
    if (value === undefined && isMap(node))
      reader.problem(
        node,
        `this rule has no \`${key}\`${key === "match" ? "; write `match: {}` to match everything" : ""}`,
      );
    return value;
  };
  const id = given("id");
  const decision = given("decision");
  const reason = given("reason");
  const match = given("match");
  return {
    id: id ? readText(reader, id, "id") : "",
    match: match ? readMatch(reader, match) : {},
    decision: decision ? readEffect(reader, decision, "decision") : "deny",
    reason: reason ? readText(reader, reason, "reason") : "",
  };
}

function readMatch(reader: Reader, node: Node): Match {
  const fields = readFields(reader, node, MATCH_KEYS, "`match` is a map, such as `{topics: [demo.*]}`");
  const names = (key: (typeof MATCH_KEYS)[number], field: keyof Match) => {
    const value = fields.get(key);
    return value === undefined ? {} : { [field]: readNames(reader, value, key) };
  };
  const topics = fields.get("topics");
  const labels = fields.get("labels");
  return {
    ...names("tenants", "tenants"),
    ...(topics === undefined ? {} : { topics: readTopics(reader, topics) }),
    ...names("capabilities", "capabilities"),
    ...names("risk_tags", "riskTags"),
    ...names("actor_ids", "actorIds"),
    ...(labels === undefined ? {} : { labels: readLabels(reader, labels) }),
  };
}

function readTopics(reader: Reader, node: Node): readonly string[] {
  const topics = readNames(reader, node, "topics");
  for (const topic of topics) {
    const problem = patternProblem(topic);
    if (problem !== null) reader.problem(node, problem);
  }
  return topics;
}

/** A list of names; one name alone may stand without brackets. */
function readNames(reader: Reader, node: Node, key: string): readonly string[] {
  if (isScalar(node)) return [readText(reader, node, key)];
  if (!isSeq(node) || node.items.length === 0 || node.items.length > POLICY_LIMITS.names) {
    reader.problem(node, `\`${key}\` is a list of 1 to ${POLICY_LIMITS.names} names; leave it out to match everything`);
    return [];
  }
  return node.items.map((item) => readText(reader, item as Node, key));
}

function readLabels(reader: Reader, node: Node): Readonly<Record<string, string>> {
  if (!isMap(node) || node.items.length === 0) {
    reader.problem(node, "`labels` is a map, such as `{env: prod}`; leave it out to match everything");
    return {};
  }
  return Object.fromEntries(entriesOf(node).map(([key, value]) => [key, readText(reader, value, `labels.${key}`)]));
}

/** A text of a sensible length. Numbers and booleans are taken as they were written: `version: 1`, `env: true`. */
function readText(reader: Reader, node: YamlNode, key: string): string {
  const value = isScalar(node) ? node.value : undefined;
  const text =
    typeof value === "string" ? value : isScalar(node) && value !== null ? (node.source ?? String(value)) : "";
  if (text === "" || text.length > POLICY_LIMITS.nameLength) {
    reader.problem(node, `\`${key}\` must be a text of 1 to ${POLICY_LIMITS.nameLength} characters`);
  }
  return text;
}

function readEffect(reader: Reader, node: Node, key: string): Effect {
  const value = isScalar(node) ? String(node.value) : "";
  const effect = EFFECTS.find((known) => known === value);
  if (effect === undefined) {
    reader.problem(node, `\`${key}\` must be \`allow\` or \`deny\`, not \`${value}\`${suggestion(value, EFFECTS)}`);
  }
  return effect ?? "deny";
}

function readFields<K extends string>(
  reader: Reader,
  node: YamlNode,
  keys: readonly K[],
  shape: string,
): ReadonlyMap<K, Node> {
  const fields = new Map<K, Node>();
  if (!isMap(node)) {
    reader.problem(node, shape);
    return fields;
  }
  for (const { key, value } of node.items) {
    const name = isScalar(key) ? String(key.value) : "";
    const known = keys.find((candidate) => candidate === name);
    if (known === undefined) {
      const hint = suggestion(name, keys) || `; known here: ${keys.map((candidate) => `\`${candidate}\``).join(", ")}`;
      reader.problem(key as Node, `unknown key \`${name}\`${hint}`);
    } else if (value === null) {
      reader.problem(key as Node, `\`${name}\` has no value; remove the key or give it one`);
    } else fields.set(known, value as Node);
  }
  return fields;
}

function entriesOf(node: YAMLMap): readonly (readonly [string, YamlNode])[] {
  return node.items.map(({ key, value }) => [isScalar(key) ? String(key.value) : "", value as YamlNode]);
}

function bad(problems: readonly string[]): ReadPolicy {
  return { kind: "bad", problems };
}

function firstLine(text: string): string {
  return (text.split("\n")[0] ?? text).replace(/:$/, "");
}
