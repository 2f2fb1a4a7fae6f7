import { isMap, type Node } from "yaml";
import { EXPRESSION_LIMITS } from "../expression/language.ts";
import type { Conditions } from "./condition.ts";
import type { ActorType } from "./decision.ts";
import type { Match, McpMatch } from "./document.ts";
import { namePatternProblem, patternProblem } from "./pattern.ts";
import { optionalField, present, type YamlFields } from "./yaml-fields.ts";

export function readMatch(yaml: YamlFields, node: Node, conditions: Conditions): Match {
  const fields = yaml.map(node, MATCH_KEYS, "`match` is a map, such as `{topics: [demo.*]}`");
  const names = (key: (typeof MATCH_KEYS)[number]) => optionalField(fields, key, (value) => yaml.names(value, key));
  return present({
    tenants: names("tenants"),
    topics: optionalField(fields, "topics", (value) =>
      checked(yaml, value, yaml.names(value, "topics"), patternProblem),
    ),
    capabilities: names("capabilities"),
    riskTags: names("risk_tags"),
    requires: names("requires"),
    actorIds: names("actor_ids"),
    actorTypes: optionalField(fields, "actor_types", (value) => readActorTypes(yaml, value)),
    packIds: names("pack_ids"),
    labels: optionalField(fields, "labels", (value) => yaml.texts(value, "labels")),
    mcp: optionalField(fields, "mcp", (value) => readMcp(yaml, value)),
    when: optionalField(fields, "when", (value) => readWhen(yaml, value, conditions)),
  });
}

const MATCH_KEYS = [
  "tenants",
  "topics",
  "capabilities",
  "risk_tags",
  "requires",
  "actor_ids",
  "actor_types",
  "pack_ids",
  "labels",
  "mcp",
  "when",
] as const;
const MCP_KEYS = ["servers", "tools", "resources", "actions"] as const;
const ACTOR_TYPES: readonly ActorType[] = ["human", "service"];

function readActorTypes(yaml: YamlFields, node: Node): readonly ActorType[] {
  return yaml.names(node, "actor_types").map((name) => {
    const known = ACTOR_TYPES.find((type) => type === name);
    if (known === undefined) yaml.problem(node, `\`actor_types\` must be \`human\` or \`service\`, not \`${name}\``);
    return known ?? "human";
  });
}

function readMcp(yaml: YamlFields, node: Node): McpMatch {
  const fields = yaml.map(node, MCP_KEYS, "`mcp` is a map, such as `{tools: [read_*]}`");
  if (isMap(node) && node.items.length === 0)
    yaml.problem(node, "`mcp` is empty; add `servers`, `tools`, `resources` or `actions`");
  const patterns = (key: (typeof MCP_KEYS)[number]) =>
    optionalField(fields, key, (value) => checked(yaml, value, yaml.names(value, `mcp.${key}`), namePatternProblem));
  return present({
    servers: patterns("servers"),
    tools: patterns("tools"),
    resources: patterns("resources"),
    actions: patterns("actions"),
  });
}

function readWhen(yaml: YamlFields, node: Node, conditions: Conditions): string {
  const text = yaml.text(node, "when", EXPRESSION_LIMITS.length);
  const compiled = text === "" ? null : conditions.compile(text);
  if (compiled?.kind === "bad") yaml.problem(node, `\`when\` ${compiled.problem}`);
  return text;
}

function checked(
  yaml: YamlFields,
  node: Node,
  patterns: readonly string[],
  problemOf: (pattern: string) => string | null,
): readonly string[] {
  for (const pattern of patterns) {
    const problem = pattern === "" ? null : problemOf(pattern);
    if (problem !== null) yaml.problem(node, problem);
  }
  return patterns;
}
