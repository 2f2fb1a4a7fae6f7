/**
 * A safety policy as people write it, read and checked.
 *
 * 1. Every problem is reported with its line, and an unknown key with the name that was probably meant: a rule that
 *    silently does not apply is worse than none.
 * 2. What is missing is the careful choice: no default decision means deny, no approval terms mean somebody else's.
 * 3. Nothing is guessed. A list that can match nothing, a pattern that would not do what it looks like, two rules of
 *    one name, terms that the decision has no use for, an alias: each is an error.
 */
import { isMap, isScalar, type Node } from "yaml";
import { Conditions } from "./condition.ts";
import {
  type ActorType,
  type ApprovalTerms,
  type Constraints,
  EFFECTS,
  type Effect,
  type Remediation,
} from "./decision.ts";
import { readMatch } from "./read-match.ts";
import { readApproval, readConstraints, readRemediations } from "./read-terms.ts";
import { optionalField, present, readYaml, type YamlFields, type YamlNode } from "./yaml-fields.ts";

export interface PolicyDocument {
  /** The author's own, shown to operators. */
  readonly version: string | null;
  readonly defaultDecision: DefaultEffect;
  /** The first that matches decides. */
  readonly rules: readonly Rule[];
}

/** A default has no terms of its own. */
export type DefaultEffect = Extract<Effect, "allow" | "deny" | "require_approval">;

export interface Rule {
  readonly id: string;
  readonly match: Match;
  readonly decision: Effect;
  readonly reason: string;
  /** With `allow_with_constraints`, and then always. */
  readonly constraints?: Constraints;
  readonly remediations?: readonly Remediation[];
  /** With `require_approval`. */
  readonly approval?: ApprovalTerms;
}

/** Every part that is given must match; of the names in one part, one is enough. */
export interface Match {
  readonly tenants?: readonly string[];
  /** `*` is one token, `>` or `**` at the end is one or more, `**` at the beginning is one or more. */
  readonly topics?: readonly string[];
  readonly capabilities?: readonly string[];
  readonly riskTags?: readonly string[];
  readonly requires?: readonly string[];
  readonly actorIds?: readonly string[];
  readonly actorTypes?: readonly ActorType[];
  readonly packIds?: readonly string[];
  /** All of them; the value `*` asks only that the label is there. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly mcp?: McpMatch;
  /** A condition in CEL; asked only when everything else matches. */
  readonly when?: string;
}

/** Names, `*`, or the beginning of names with `*`, for the labels `mcp.server`, `mcp.tool`, `mcp.resource`, `mcp.action`. */
export interface McpMatch {
  readonly servers?: readonly string[];
  readonly tools?: readonly string[];
  readonly resources?: readonly string[];
  readonly actions?: readonly string[];
}

export type ReadPolicy =
  | { readonly kind: "ok"; readonly document: PolicyDocument }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export const POLICY_LIMITS = { textLength: 4 * 1024 * 1024, rules: 10_000 } as const;

export function readPolicy(file: { readonly name: string; readonly text: string }): ReadPolicy {
  if (file.text.length > POLICY_LIMITS.textLength) {
    const problem = `${file.name}: longer than ${POLICY_LIMITS.textLength} characters; split it or remove old rules`;
    return { kind: "bad", problems: [problem] };
  }
  const read = readYaml(file, readDocument);
  return read.kind === "ok" ? { kind: "ok", document: read.value } : read;
}

const DOCUMENT_KEYS = ["version", "default_decision", "rules"] as const;
const RULE_KEYS = ["id", "match", "decision", "reason", "constraints", "remediations", "approval"] as const;
const RULE_SHAPE = "a rule is a map with `id`, `match`, `decision` and `reason`";
const DEFAULT_EFFECTS: readonly DefaultEffect[] = ["allow", "deny", "require_approval"];

type RuleFields = ReadonlyMap<(typeof RULE_KEYS)[number], Node>;

function readDocument(yaml: YamlFields, node: YamlNode): PolicyDocument {
  const fields = yaml.map(node, DOCUMENT_KEYS, "a policy is a map with `rules`");
  const version = optionalField(fields, "version", (value) => yaml.text(value, "version"));
  const defaultDecision = optionalField(fields, "default_decision", (value) =>
    yaml.choice(value, "default_decision", DEFAULT_EFFECTS, "deny"),
  );
  const rules = readRules(yaml, fields.get("rules"));
  return { version: version ?? null, defaultDecision: defaultDecision ?? "deny", rules };
}

function readRules(yaml: YamlFields, node: YamlNode): readonly Rule[] {
  if (node === undefined || (isScalar(node) && node.value === null)) return [];
  const conditions = new Conditions();
  const seen = new Set<string>();
  return yaml.list(node, "rules", POLICY_LIMITS.rules).map((item) => {
    const rule = readRule(yaml, item, conditions);
    if (rule.id !== "" && seen.has(rule.id)) {
      yaml.problem(item, `two rules are called \`${rule.id}\`; a decision names its rule, so give each its own id`);
    }
    seen.add(rule.id);
    return rule;
  });
}

function readRule(yaml: YamlFields, node: Node, conditions: Conditions): Rule {
  const fields = yaml.map(node, RULE_KEYS, RULE_SHAPE);
  const needed = <T>(key: (typeof RULE_KEYS)[number], read: (value: Node) => T): T | undefined => {
    if (!fields.has(key) && isMap(node) && !node.has(key)) {
      const hint = key === "match" ? "; write `match: {}` to match everything" : "";
      yaml.problem(node, `this rule has no \`${key}\`${hint}`);
    }
    return optionalField(fields, key, read);
  };
  const decision = needed("decision", (value) => yaml.choice(value, "decision", EFFECTS, "deny"));
  const rule = {
    id: needed("id", (value) => yaml.text(value, "id")) ?? "",
    match: needed("match", (value) => readMatch(yaml, value, conditions)) ?? {},
    decision: decision ?? "deny",
    reason: needed("reason", (value) => yaml.text(value, "reason")) ?? "",
  };
  if (decision !== undefined) checkTerms(yaml, node, fields, decision);
  const terms = {
    constraints: optionalField(fields, "constraints", (value) => readConstraints(yaml, value)),
    remediations: optionalField(fields, "remediations", (value) => readRemediations(yaml, value)),
    approval: optionalField(fields, "approval", (value) => readApproval(yaml, value)),
  };
  return { ...rule, ...present(terms) };
}

/** Terms that a decision has no use for were meant for another decision. */
function checkTerms(yaml: YamlFields, rule: Node, fields: RuleFields, decision: Effect): void {
  const only = (key: "constraints" | "approval", effect: Effect) => {
    const node = fields.get(key);
    if (node !== undefined && decision !== effect) {
      yaml.problem(node, `\`${key}\` goes with \`decision: ${effect}\`, and this rule's is \`${decision}\``);
    }
  };
  only("constraints", "allow_with_constraints");
  only("approval", "require_approval");
  if (decision === "allow_with_constraints" && !fields.has("constraints")) {
    yaml.problem(rule, "`decision: allow_with_constraints` needs `constraints`; without any, write `decision: allow`");
  }
  const remediations = fields.get("remediations");
  if (remediations !== undefined && decision === "allow") {
    yaml.problem(remediations, "`remediations` say what to do instead, and this rule allows; remove them");
  }
}
