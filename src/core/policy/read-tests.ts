/**
 * Reads test cases of a policy: a request, and the decision that is expected. Problems are reported like those of a
 * policy.
 */
import { isScalar, type Node } from "yaml";
import { EFFECTS, type Effect } from "./decision.ts";
import { optionalField, present, type ReadYaml, readYaml, type YamlFields, type YamlNode } from "./yaml-fields.ts";

export interface PolicyCase {
  readonly name: string;
  readonly line: number;
  /** In the names of the HTTP API. */
  readonly given: GivenRequest;
  readonly expect: Expected;
  /** Rules whose limit is exceeded; other limits are not. */
  readonly beyond: readonly string[];
}

export interface GivenRequest {
  readonly topic: string;
  readonly tenant_id?: string;
  readonly job_id?: string;
  readonly priority?: string;
  readonly capability?: string;
  readonly risk_tags?: string[];
  readonly requires?: string[];
  readonly labels?: Record<string, string>;
  readonly actor_id?: string;
  readonly actor_type?: string;
  readonly pack_id?: string;
  readonly mcp?: Record<string, string>;
  readonly caller?: Record<string, string>;
  readonly now?: string;
  readonly input?: unknown;
}

export interface Expected {
  readonly effect: Effect;
  /** Null: the policy's default. Absent: any. */
  readonly ruleId?: string | null;
  /** The shadow rules that would have decided. Absent: any. */
  readonly shadow?: readonly string[];
}

export const TEST_LIMITS = { textLength: 1024 * 1024, cases: 1_000 } as const;

export function readPolicyTests(file: {
  readonly name: string;
  readonly text: string;
}): ReadYaml<readonly PolicyCase[]> {
  if (file.text.length > TEST_LIMITS.textLength) {
    return { kind: "bad", problems: [`${file.name}: longer than ${TEST_LIMITS.textLength} characters; split it`] };
  }
  return readYaml(file, readCases);
}

const CASE_KEYS = ["name", "given", "expect", "beyond"] as const;
const CASE_SHAPE = "a case is a map with `given` and `expect`";
const TEXT_KEYS = [
  "topic",
  "tenant_id",
  "job_id",
  "priority",
  "capability",
  "actor_id",
  "actor_type",
  "pack_id",
  "now",
] as const;
const GIVEN_KEYS = [...TEXT_KEYS, "risk_tags", "requires", "labels", "mcp", "caller", "input"] as const;
const EXPECT_KEYS = ["decision", "rule", "shadow"] as const;

function readCases(yaml: YamlFields, node: YamlNode): readonly PolicyCase[] {
  const fields = yaml.map(node, ["cases"], "tests of a policy are a map with `cases`");
  const cases = fields.get("cases");
  if (cases === undefined) yaml.problem(node, "`cases` is missing");
  return cases === undefined ? [] : yaml.list(cases, "cases", TEST_LIMITS.cases).map((item) => readCase(yaml, item));
}

function readCase(yaml: YamlFields, node: Node): PolicyCase {
  const fields = yaml.map(node, CASE_KEYS, CASE_SHAPE);
  for (const key of ["given", "expect"] as const) {
    if (fields.size > 0 && !fields.has(key)) yaml.problem(node, `case is missing \`${key}\``);
  }
  const given = optionalField(fields, "given", (value) => readGiven(yaml, value)) ?? { topic: "" };
  return {
    name: optionalField(fields, "name", (value) => yaml.text(value, "name")) ?? given.topic,
    line: yaml.lineOf(node),
    given,
    expect: optionalField(fields, "expect", (value) => readExpected(yaml, value)) ?? { effect: "deny" },
    beyond: optionalField(fields, "beyond", (value) => yaml.names(value, "beyond")) ?? [],
  };
}

function readGiven(yaml: YamlFields, node: Node): GivenRequest {
  const fields = yaml.map(node, GIVEN_KEYS, "`given` is a map, such as `{topic: demo.echo}`");
  if (!fields.has("topic")) yaml.problem(node, "`given` is missing `topic`");
  const texts = TEXT_KEYS.map((key) => [key, optionalField(fields, key, (value) => yaml.text(value, key))]);
  const names = (key: "risk_tags" | "requires") => optionalField(fields, key, (value) => [...yaml.names(value, key)]);
  const map = (key: "labels" | "mcp" | "caller") =>
    optionalField(fields, key, (value) => ({ ...yaml.texts(value, key) }));
  return present({
    ...Object.fromEntries(texts),
    risk_tags: names("risk_tags"),
    requires: names("requires"),
    labels: map("labels"),
    mcp: map("mcp"),
    caller: map("caller"),
    input: optionalField(fields, "input", (value): unknown => value.toJSON()),
  }) as GivenRequest;
}

function readExpected(yaml: YamlFields, node: Node): Expected {
  const fields = yaml.map(node, EXPECT_KEYS, "`expect` is a map, such as `{decision: allow}`");
  if (!fields.has("decision")) yaml.problem(node, "`expect` is missing `decision`");
  return {
    effect: optionalField(fields, "decision", (value) => yaml.choice(value, "decision", EFFECTS, "deny")) ?? "deny",
    ...present({
      ruleId: optionalField(fields, "rule", (value) =>
        isScalar(value) && value.value === null ? null : yaml.text(value, "rule"),
      ),
      shadow: optionalField(fields, "shadow", (value) => readShadow(yaml, value)),
    }),
  };
}

/** `[]`: no shadow rule would have decided. */
function readShadow(yaml: YamlFields, node: Node): readonly string[] {
  return yaml.list(node, "shadow", EXPECTED_SHADOW_MAX).map((item) => yaml.text(item, "shadow"));
}

const EXPECTED_SHADOW_MAX = 8;
