/**
 * Request validation against the schemas of a route. It reports all problems at once; each names the field, the expected
 * value and the received one.
 *
 * 1. Unknown fields are rejected, with a suggestion, so that a misspelt option is not silently ignored. Objects whose
 *    schema has `additionalProperties` or is a record stay open.
 * 2. Query values are converted to numbers and booleans for validation only; handlers receive the text.
 */
import { type TSchema, Type } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import { Settings } from "typebox/system";
import { nearestName } from "../core/model/suggestion.ts";
import { Problem } from "./problem.ts";
import type { GatewayRequest, Route } from "./route.ts";

/** Throws a `Problem` that lists everything wrong with the request. */
export type Validate = (request: Pick<GatewayRequest, "params" | "query" | "body">) => void;

export function createValidator(route: Pick<Route, "query" | "body" | "invalidCode">): Validate {
  const query = createChecker(route.query ?? EMPTY, "query parameter");
  const body = createChecker(route.body ?? EMPTY, "field");
  const readQuery = queryReader(route.query ?? EMPTY);
  return (request) => {
    const problems = [
      ...badParams(request.params),
      ...query(readQuery(request.query)),
      ...body(request.body === undefined ? {} : request.body),
    ];
    if (problems.length === 0) return;
    throw new Problem(route.invalidCode ?? "invalid_request", problems.join("; "), { problems });
  };
}

const EMPTY = Type.Object({});

// The default of 8 is too low: one failed union counts as several errors.
Settings.Set({ maxErrors: 100 });

/** The JSON Schema keywords that the messages use. */
interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly description?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

function createChecker(type: TSchema, noun: string): (value: unknown) => readonly string[] {
  // Compiled for the first request: most of the hundred routes get none after most starts.
  let compiled: Validator | undefined;
  const schema = type as Schema;
  return (value) => {
    compiled ??= Compile(type);
    const unknown = unknownFields(schema, value, "", noun);
    if (compiled.Check(value)) return unknown;
    return [...unknown, ...messages(schema, value, compiled.Errors(value))].slice(0, PROBLEMS_MAX);
  };
}

function unknownFields(schema: Schema, value: unknown, path: string, noun: string): string[] {
  if (Array.isArray(value) && schema.items) {
    const { items } = schema;
    return value.slice(0, ITEMS_MAX).flatMap((item, at) => unknownFields(items, item, `${path}[${at}]`, noun));
  }
  const { properties } = schema;
  if (!properties || typeof value !== "object" || value === null || Array.isArray(value)) return [];
  const isOpen = schema.patternProperties !== undefined || Boolean(schema.additionalProperties);
  const problems: string[] = [];
  for (const [name, inner] of Object.entries(value)) {
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (known) problems.push(...unknownFields(known, inner, join(path, name), noun));
    else if (!isOpen && problems.length < PROBLEMS_MAX)
      problems.push(unknownField(join(path, name), name, properties, noun));
  }
  return problems;
}

function unknownField(path: string, name: string, known: Readonly<Record<string, Schema>>, noun: string): string {
  const names = Object.keys(known);
  const nearest = nearestName(name, names);
  if (nearest !== undefined) return `unknown ${noun} ${quoted(path)}; did you mean \`${nearest}\`?`;
  if (names.length === 0) return `unknown ${noun} ${quoted(path)}; this route has none`;
  return `unknown ${noun} ${quoted(path)}; known are ${names.map(quoted).join(", ")}`;
}

interface CheckError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: object;
}

/** One message per invalid location, derived from its schema. */
function messages(schema: Schema, value: unknown, errors: readonly CheckError[]): string[] {
  const found = new Map<string, string>();
  const choices = errors.filter((error) => error.keyword === "anyOf").map((error) => error.instancePath);
  for (const { keyword, instancePath, params } of errors) {
    if (choices.some((place) => instancePath.startsWith(`${place}/`))) continue;
    const steps = instancePath.split("/").slice(1).map(unescaped);
    if (keyword === "required") {
      for (const name of (params as { requiredProperties: readonly string[] }).requiredProperties) {
        const missing = schemaAt(schema, [...steps, name]);
        const path = pathText([...steps, name]);
        if (missing)
          found.set(`${instancePath}/${name}`, `${quoted(path)} is missing; it must be ${describe(missing)}`);
      }
      continue;
    }
    const expected = schemaAt(schema, steps);
    // `unknownFields` reports these.
    if (expected === undefined || keyword === "additionalProperties" || found.has(instancePath)) continue;
    const what = steps.length === 0 ? "the body" : quoted(pathText(steps));
    found.set(instancePath, `${what} must be ${describe(expected)}, not ${formatValue(valueAt(value, steps))}`);
  }
  return [...found.values()];
}

/** The expected value. */
function describe(schema: Schema): string {
  const options = schema.enum ?? choicesOf(schema.anyOf);
  if (options) return options.length === 1 ? formatValue(options[0]) : `one of ${options.map(formatValue).join(", ")}`;
  if (schema.const !== undefined) return formatValue(schema.const);
  if (schema.anyOf) return schema.anyOf.map(describe).join(", or ");
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, pattern } = schema;
  switch (schema.type) {
    case "integer":
      return `an integer${range(minimum, maximum, "")}`;
    case "number":
      return `a number${range(minimum, maximum, "")}`;
    case "string":
      return `a string${range(minLength, maxLength, " characters")}${pattern ? ` that matches \`${pattern}\`` : ""}`;
    case "boolean":
      return "`true` or `false`";
    case "array":
      return `an array${range(minItems, maxItems, " items")}${schema.items?.type ? `, each ${describe(schema.items)}` : ""}`;
    case "null":
      return "`null`";
    case "object":
      return "a JSON object";
    default:
      return "another value";
  }
}

function choicesOf(anyOf: readonly Schema[] | undefined): readonly unknown[] | undefined {
  if (!anyOf?.every((choice) => choice.const !== undefined || choice.type === "null")) return undefined;
  return anyOf.map((choice) => choice.const ?? null);
}

function range(min: number | undefined, max: number | undefined, unit: string): string {
  const of = unit === "" ? "" : "of ";
  if (min !== undefined && max !== undefined) return ` ${of || "from "}${min} to ${max}${unit}`;
  if (max !== undefined) return ` ${of}at most ${max}${unit}`;
  return min === undefined ? "" : ` ${of}at least ${min}${unit}`;
}

function schemaAt(schema: Schema, steps: readonly string[]): Schema | undefined {
  let at: Schema | undefined = schema;
  for (const step of steps) {
    at = at && innerSchema(at, step);
  }
  return at;
}

function innerSchema(schema: Schema, step: string): Schema | undefined {
  const { properties, items, patternProperties, additionalProperties } = schema;
  const open = typeof additionalProperties === "object" ? additionalProperties : undefined;
  return properties?.[step] ?? items ?? Object.values(patternProperties ?? {})[0] ?? open;
}

function valueAt(value: unknown, steps: readonly string[]): unknown {
  return steps.reduce((at, step) => (at as Readonly<Record<string, unknown>> | null | undefined)?.[step], value);
}

/** Truncated, so that messages contain neither payloads nor whole secrets. */
function formatValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  return quoted(String(value));
}

const quoted = (text: string): string => `\`${text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text}\``;
const unescaped = (step: string): string => step.replaceAll("~1", "/").replaceAll("~0", "~");
const join = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);

function pathText(steps: readonly string[]): string {
  return steps.reduce((path, step) => (/^\d+$/.test(step) ? `${path}[${step}]` : join(path, step)), "");
}

function badParams(params: GatewayRequest["params"]): string[] {
  return Object.entries(params)
    .filter(([, text]) => !/^[\x21-\x7e]{1,300}$/.test(text))
    .map(([name]) => `path parameter \`${name}\` must be 1 to 300 printable ASCII characters without spaces`);
}

/** Converts query values to the types of the schema; a value that does not convert stays text and fails validation. */
function queryReader(type: TSchema): (query: GatewayRequest["query"]) => Readonly<Record<string, unknown>> {
  const { properties = {} } = type as Schema;
  const read = (text: unknown, schema: Schema | undefined): unknown => {
    if (schema?.type === "array") return (Array.isArray(text) ? text : [text]).map((one) => read(one, schema.items));
    if (typeof text !== "string") return text;
    if (schema?.type === "boolean") return text === "true" ? true : text === "false" ? false : text;
    const isNumber = schema?.type === "integer" || schema?.type === "number";
    return isNumber && /^-?\d{1,15}(\.\d{1,9})?$/.test(text) ? Number(text) : text;
  };
  return (query) =>
    Object.fromEntries(Object.entries(query).map(([name, text]) => [name, read(text, properties[name])]));
}

const PROBLEMS_MAX = 20;
const ITEMS_MAX = 1_000;
const SHOWN_MAX = 60;
