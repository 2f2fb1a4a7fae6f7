/** Reads `throttle` and `velocity` of a rule. */
import { isScalar, type Node } from "yaml";
import { EXPRESSION_LIMITS } from "../../expression/language.ts";
import { parseDuration } from "../../retry/duration.ts";
import type { Conditions } from "../condition.ts";
import { optionalField, present, type YamlFields } from "../yaml-fields.ts";
import { LIMIT_BOUNDS, type LimitBy, parseRate, type ThrottleTerms, type VelocityTerms } from "./limit.ts";

const THROTTLE_KEYS = ["rate", "by"] as const;
const VELOCITY_KEYS = ["max", "within", "by", "sum"] as const;
const BY = ["tenant", "topic", "caller"] as const;

export function readThrottle(yaml: YamlFields, node: Node): ThrottleTerms {
  const fields = yaml.map(node, THROTTLE_KEYS, "`throttle` is a map, such as `{rate: 10/1m, by: topic}`");
  const rate = optionalField(fields, "rate", (value) => readParsed(yaml, value, "rate", parseRate));
  if (rate === undefined) yaml.problem(node, "`throttle` needs a `rate`, such as `10/1m`");
  return { rate: rate ?? "1/1m", by: readBy(yaml, fields.get("by")) };
}

export function readVelocity(yaml: YamlFields, node: Node, conditions: Conditions): VelocityTerms {
  const fields = yaml.map(node, VELOCITY_KEYS, "`velocity` is a map, such as `{max: 10, within: 10m, by: caller}`");
  const sum = optionalField(fields, "sum", (value) => readSum(yaml, value, conditions));
  const max = optionalField(fields, "max", (value) => readMax(yaml, value, sum !== undefined));
  const within = optionalField(fields, "within", (value) =>
    readParsed(yaml, value, "within", (text) => parseDuration(text, LIMIT_BOUNDS.velocityWithin)),
  );
  if (max === undefined || within === undefined) yaml.problem(node, "`velocity` needs `max` and `within`");
  const by = readBy(yaml, fields.get("by"));
  return { max: max ?? 1, within: within ?? "1m", by, ...present({ sum }) };
}

function readMax(yaml: YamlFields, node: Node, isSum: boolean): number {
  const value = isScalar(node) ? node.value : undefined;
  const isNumber = typeof value === "number" && Number.isFinite(value);
  if (isSum) {
    if (isNumber && value > 0 && value <= LIMIT_BOUNDS.sumMax) return value;
    yaml.problem(
      node,
      "`max` of a sum must be a number above 0; use `decision: deny` without `velocity` to block jobs",
    );
    return 1;
  }
  if (isNumber && Number.isInteger(value) && value >= 1 && value <= LIMIT_BOUNDS.countMax) return value;
  const hint = "use `decision: deny` without `velocity` to block jobs";
  yaml.problem(node, `\`max\` must be an integer from 1 to ${LIMIT_BOUNDS.countMax}; ${hint}`);
  return 1;
}

function readSum(yaml: YamlFields, node: Node, conditions: Conditions): string {
  const text = yaml.text(node, "sum", EXPRESSION_LIMITS.length);
  const compiled = text === "" ? null : conditions.compileNumber(text);
  if (compiled?.kind === "bad") yaml.problem(node, `\`sum\` ${compiled.problem}`);
  return text;
}

function readParsed(yaml: YamlFields, node: Node, key: string, parse: (text: string) => unknown): string {
  const text = yaml.text(node, key);
  try {
    if (text !== "") parse(text);
  } catch (error) {
    yaml.problem(node, `\`${key}\`: ${error instanceof Error ? error.message : error}`);
  }
  return text;
}

/** Absent: the tenant. */
function readBy(yaml: YamlFields, node: Node | undefined): LimitBy {
  if (node === undefined) return "tenant";
  const text = yaml.text(node, "by");
  if (/^label:./.test(text)) return text as LimitBy;
  return yaml.choice(node, "by", [...BY, "label:NAME" as const], "tenant");
}
