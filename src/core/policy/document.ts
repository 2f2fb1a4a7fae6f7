/**
 * Reads and validates a safety policy file.
 *
 * 1. Every problem is reported with its line, and unknown keys with a suggestion: a rule that silently does not apply
 *    is dangerous.
 * 2. Defaults are strict: no default decision means deny, and submitters cannot approve their own jobs.
 * 3. Empty lists, invalid patterns, duplicate rule ids, terms that do not fit the decision and aliases are errors.
 */
import { isMap, isScalar, type Node } from "yaml";
import { Conditions } from "./condition.ts";
import {
  type ActorType,
  type ApprovalTerms,
  type BudgetTerms,
  type Constraints,
  EFFECTS,
  type Effect,
  type Remediation,
} from "./decision.ts";
import type { ThrottleTerms, VelocityTerms } from "./limits/limit.ts";
import { readBudgets } from "./limits/read-budget.ts";
import { readThrottle, readVelocity } from "./limits/read-limits.ts";
import { readMatch } from "./read-match.ts";
import { readApproval, readConstraints, readRemediations } from "./read-terms.ts";
import { optionalField, present, readYaml, type YamlFields, type YamlNode } from "./yaml-fields.ts";

export interface PolicyDocument {
  /** The author's version, shown to operators. */
  readonly version: string | null;
  readonly defaultDecision: DefaultEffect;
  /** The first match decides. */
  readonly rules: readonly Rule[];
}

/** Effects without terms. */
export type DefaultEffect = Extract<Effect, "allow" | "deny" | "require_approval">;

export interface Rule {
  readonly id: string;
  readonly match: Match;
  readonly decision: Effect;
  readonly reason: string;
  /** Exactly with `allow_with_constraints`. */
  readonly constraints?: Constraints;
  readonly remediations?: readonly Remediation[];
  /** With `require_approval`. */
  readonly approval?: ApprovalTerms;
  /** With `throttle`: the rule applies beyond the rate. */
  readonly throttle?: ThrottleTerms;
  /** The rule applies beyond the limit. */
  readonly velocity?: VelocityTerms;
  /** Evaluated and recorded, not enforced. */
  readonly shadow?: true;
  /** With decisions that let the job run. */
  readonly budget?: readonly BudgetTerms[];
}

/** All given parts must match; within a part, one name suffices. */
export interface Match {
  readonly tenants?: readonly string[];
  /** `*` matches one token; a trailing `>` or `**`, or a leading `**`, matches one or more. */
  readonly topics?: readonly string[];
  readonly capabilities?: readonly string[];
  readonly riskTags?: readonly string[];
  readonly requires?: readonly string[];
  readonly actorIds?: readonly string[];
  readonly actorTypes?: readonly ActorType[];
  readonly packIds?: readonly string[];
  /** All must match; the value `*` only requires the label. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly mcp?: McpMatch;
  /** A CEL condition; evaluated last. */
  readonly when?: string;
}

/** Names, `*`, or prefixes such as `read_*`, for the labels `mcp.server`, `mcp.tool`, `mcp.resource`, `mcp.action`. */
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
const RULE_KEYS = [
  "id",
  "match",
  "decision",
  "reason",
  "constraints",
  "remediations",
  "approval",
  "throttle",
  "velocity",
  "shadow",
  "budget",
] as const;
const RULE_SHAPE = "a rule is a map with `id`, `match`, `decision` and `reason` (optional with `allow`)";
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
      yaml.problem(item, `duplicate rule id \`${rule.id}\`; rule ids must be unique`);
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
      yaml.problem(node, `rule is missing \`${key}\`${hint}`);
    }
    return optionalField(fields, key, read);
  };
  const decision = needed("decision", (value) => yaml.choice(value, "decision", EFFECTS, "deny"));
  const id = needed("id", (value) => yaml.text(value, "id")) ?? "";
  const readReason = (value: Node) => yaml.text(value, "reason");
  const reason =
    decision === "allow"
      ? (optionalField(fields, "reason", readReason) ?? `rule \`${id}\` allows it`)
      : needed("reason", readReason);
  const rule = {
    id,
    match: needed("match", (value) => readMatch(yaml, value, conditions)) ?? {},
    decision: decision ?? "deny",
    reason: reason ?? "",
  };
  if (decision !== undefined) checkTerms(yaml, node, fields, decision);
  const terms = {
    constraints: optionalField(fields, "constraints", (value) => readConstraints(yaml, value)),
    remediations: optionalField(fields, "remediations", (value) => readRemediations(yaml, value)),
    approval: optionalField(fields, "approval", (value) => readApproval(yaml, value)),
    throttle: optionalField(fields, "throttle", (value) => readThrottle(yaml, value)),
    velocity: optionalField(fields, "velocity", (value) => readVelocity(yaml, value, conditions)),
    shadow: optionalField(fields, "shadow", (value) => yaml.flag(value, "shadow")) || undefined,
    budget: optionalField(fields, "budget", (value) => readBudgets(yaml, value)),
  };
  return { ...rule, ...present(terms) };
}

/** Rejects terms that do not fit the decision. */
function checkTerms(yaml: YamlFields, rule: Node, fields: RuleFields, decision: Effect): void {
  const only = (key: "constraints" | "approval" | "throttle", effect: Effect) => {
    const node = fields.get(key);
    if (node !== undefined && decision !== effect) {
      yaml.problem(node, `\`${key}\` requires \`decision: ${effect}\`, but the decision is \`${decision}\``);
    }
  };
  only("constraints", "allow_with_constraints");
  only("approval", "require_approval");
  only("throttle", "throttle");
  const shadow = fields.get("shadow");
  if (shadow !== undefined && (fields.has("velocity") || fields.has("throttle") || fields.has("budget")))
    yaml.problem(shadow, "a shadow rule counts nothing: remove `shadow`, or `velocity`, `throttle` and `budget`");
  const budget = fields.get("budget");
  if (budget !== undefined && (decision === "deny" || decision === "throttle"))
    yaml.problem(budget, `\`budget\` has no effect with \`decision: ${decision}\`; remove it`);
  const velocity = fields.get("velocity");
  if (velocity !== undefined && fields.has("throttle"))
    yaml.problem(velocity, "a rule has `throttle` or `velocity`, not both; write two rules");
  if (decision === "allow_with_constraints" && !fields.has("constraints")) {
    yaml.problem(rule, "`decision: allow_with_constraints` needs `constraints`; without any, write `decision: allow`");
  }
  const remediations = fields.get("remediations");
  if (remediations !== undefined && decision === "allow") {
    yaml.problem(remediations, "`remediations` have no effect with `decision: allow`; remove them");
  }
}
