/** Schema keywords about a single value: type, size, equality. */
import { PATTERN_LENGTH_MAX, readPattern } from "../../expression/patterns.ts";
import { canonicalText } from "../../model/json.ts";
import { suggestion } from "../../model/suggestion.ts";
import { got, isObject, orOf } from "./fields.ts";
import type { Check, SchemaRun } from "./schema-check.ts";

/** A check, or the problem with the keyword's operand. */
export type Keyword = (operand: unknown) => Check | string;

export const TYPES = ["string", "number", "integer", "boolean", "null", "array", "object"] as const;
type TypeName = (typeof TYPES)[number];

const TYPE_NAMES: Readonly<Record<TypeName, string>> = {
  string: "a string",
  number: "a number",
  integer: "an integer",
  boolean: "a boolean",
  null: "null",
  array: "a list",
  object: "a mapping",
};

export const VALUE_KEYWORDS: Readonly<Record<string, Keyword>> = {
  type: (operand) => {
    const names: readonly unknown[] = Array.isArray(operand) ? operand : [operand];
    const types = names.flatMap((name) => TYPES.find((known) => known === name) ?? []);
    if (types.length !== names.length || types.length === 0) {
      const wrong = names.find((name) => !TYPES.some((known) => known === name));
      return `must be ${orOf(TYPES)}, or a list of these${typeof wrong === "string" ? `, not \`${wrong}\`${suggestion(wrong, TYPES)}` : ""}`;
    }
    const description = types.map((type) => TYPE_NAMES[type]).join(" or ");
    return (value, run) => types.some((type) => isOfType(value, type)) || run.mismatch(description, value);
  },
  enum: (operand) => {
    if (!Array.isArray(operand) || operand.length === 0) return `must be a list of values${got(operand)}`;
    const known = new Set(operand.map(canonicalText));
    const shown = operand.slice(0, 8).map((one) => `\`${JSON.stringify(one)}\``);
    const description = `one of ${shown.join(", ")}${operand.length > shown.length ? ", …" : ""}`;
    return (value, run) =>
      (run.charge(weightOf(value)) && known.has(canonicalText(value))) || run.mismatch(description, value);
  },
  const: (operand) => {
    const known = canonicalText(operand);
    const description = `\`${JSON.stringify(operand)?.slice(0, 100)}\``;
    return (value, run) =>
      (run.charge(weightOf(value)) && canonicalText(value) === known) || run.mismatch(description, value);
  },
  minLength: (operand) => counted(operand, "a string of at least", (value, count) => lengthOf(value) >= count),
  maxLength: (operand) => counted(operand, "a string of at most", (value, count) => lengthOf(value) <= count),
  pattern: (operand) => {
    if (typeof operand !== "string" || operand.length > PATTERN_LENGTH_MAX) {
      return `must be a pattern of at most ${PATTERN_LENGTH_MAX} characters${got(operand)}`;
    }
    const read = readPattern(operand);
    if (read.kind === "bad") return `is not a valid pattern: ${read.problem}`;
    const { pattern } = read;
    const stepsEach = 1 + pattern.programSize();
    return (value, run) => {
      if (typeof value !== "string") return true;
      if (!run.charge((1 + value.length / 32) * stepsEach)) return false;
      return pattern.test(value) || run.fail(`must match \`${operand}\``);
    };
  },
  minimum: (operand) => compared(operand, "at least", (value, limit) => value >= limit),
  maximum: (operand) => compared(operand, "at most", (value, limit) => value <= limit),
  exclusiveMinimum: (operand) => compared(operand, "more than", (value, limit) => value > limit),
  exclusiveMaximum: (operand) => compared(operand, "less than", (value, limit) => value < limit),
  multipleOf: (operand) => {
    if (typeof operand !== "number" || !(operand > 0)) return `must be a number above 0${got(operand)}`;
    return compared(operand, "a multiple of", isMultiple);
  },
  minItems: (operand) => sized(operand, "have at least", "items", Array.isArray, (size, count) => size >= count),
  maxItems: (operand) => sized(operand, "have at most", "items", Array.isArray, (size, count) => size <= count),
  minProperties: (operand) => sized(operand, "have at least", "properties", isObject, (size, count) => size >= count),
  maxProperties: (operand) => sized(operand, "have at most", "properties", isObject, (size, count) => size <= count),
  uniqueItems: (operand) => {
    if (typeof operand !== "boolean") return `must be \`true\` or \`false\`${got(operand)}`;
    return (value, run) => !operand || !Array.isArray(value) || areUnique(value, run);
  },
  required: (operand) => {
    const isNames = Array.isArray(operand) && operand.every((name) => typeof name === "string");
    if (!isNames) return `must be a list of names${got(operand)}`;
    const names: readonly string[] = operand;
    return (value, run) => {
      if (!isObject(value)) return true;
      const missing = names.filter((name) => !Object.hasOwn(value, name));
      for (const name of missing) run.fail(`missing \`${name}\``);
      return missing.length === 0;
    };
  },
};

function isOfType(value: unknown, type: TypeName): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return Number.isInteger(value);
    case "string":
      return typeof value === "string";
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    default:
      return type satisfies never;
  }
}

function counted(
  operand: unknown,
  description: string,
  isFine: (value: string, count: number) => boolean,
): Check | string {
  if (!isCount(operand)) return `must be a non-negative integer${got(operand)}`;
  return (value, run) => {
    if (typeof value !== "string" || isFine(value, operand)) return true;
    return run.fail(`must be ${description} ${operand} characters, has ${lengthOf(value)}`);
  };
}

function compared(
  operand: unknown,
  description: string,
  isFine: (value: number, limit: number) => boolean,
): Check | string {
  if (typeof operand !== "number" || !Number.isFinite(operand)) return `must be a number${got(operand)}`;
  return (value, run) =>
    typeof value !== "number" || isFine(value, operand) || run.mismatch(`${description} ${operand}`, value);
}

function sized(
  operand: unknown,
  description: string,
  what: string,
  appliesTo: (value: unknown) => boolean,
  isFine: (size: number, count: number) => boolean,
): Check | string {
  if (!isCount(operand)) return `must be a non-negative integer${got(operand)}`;
  return (value, run) => {
    if (!appliesTo(value)) return true;
    const size = Array.isArray(value) ? value.length : Object.keys(value as object).length;
    return isFine(size, operand) || run.fail(`must ${description} ${operand} ${what}, has ${size}`);
  };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** Counts code points. */
function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

/** Tolerates floating point: 0.3 is a multiple of 0.1. */
function isMultiple(value: number, of: number): boolean {
  const times = Math.round(value / of);
  return Number.isInteger(value / of) || Number((times * of).toPrecision(15)) === value;
}

function areUnique(list: readonly unknown[], run: SchemaRun): boolean {
  const seen = new Map<string, number>();
  for (const [index, item] of list.entries()) {
    if (!run.charge(weightOf(item))) return false;
    const text = canonicalText(item);
    const other = seen.get(text);
    if (other !== undefined) return run.fail(`must have unique items, but [${other}] equals [${index}]`);
    seen.set(text, index);
  }
  return true;
}

/** Approximate cost of reading the value. */
function weightOf(value: unknown): number {
  if (typeof value === "string") return 1 + value.length / 32;
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce((total: number, entry) => total + weightOf(entry), 1);
}
