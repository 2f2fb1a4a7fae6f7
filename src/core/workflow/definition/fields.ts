import { suggestion } from "../../model/suggestion.ts";

/** Validated access to a JSON object. Problems are collected with their path, so that all are reported at once. */

export type Json = Readonly<Record<string, unknown>>;

export class Fields {
  readonly path: Path;
  readonly problems: Problems;
  readonly #values: Json;

  constructor(values: Json, path: Path, problems: Problems) {
    this.#values = values;
    this.path = path;
    this.problems = problems;
  }

  has(key: string): boolean {
    return Object.hasOwn(this.#values, key);
  }

  get(key: string): unknown {
    return this.has(key) ? this.#values[key] : undefined;
  }

  at(key: string): Path {
    return [...this.path, key];
  }

  problem(key: string, text: string): void {
    this.problems.add(this.at(key), text);
  }

  /** Reports unknown keys. `why` may give a better explanation than the nearest name. */
  only(keys: readonly string[], why: (key: string) => string | null = () => null): void {
    for (const key of Object.keys(this.#values)) {
      if (keys.includes(key)) continue;
      const hint = suggestion(key, keys) || `; known here: ${keys.map((known) => `\`${known}\``).join(", ")}`;
      this.problems.add(this.at(key), why(key) ?? `unknown key${hint}`, true);
    }
  }

  /** Undefined if the key is absent or invalid (reported). */
  text(key: string, lengthMax: number): string | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value === "string" && value !== "" && value.length <= lengthMax) return value;
    this.problem(key, `must be a string of 1 to ${lengthMax} characters${got(value)}`);
    return undefined;
  }

  choice<T extends string>(key: string, known: readonly T[]): T | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    const choice = known.find((candidate) => candidate === value);
    if (choice !== undefined) return choice;
    const hint = typeof value === "string" ? suggestion(value, known) : "";
    this.problem(key, `must be ${orOf(known)}, not ${shownValue(value)}${hint}`);
    return undefined;
  }

  flag(key: string): boolean | undefined {
    const value = this.get(key);
    if (value === undefined || typeof value === "boolean") return value;
    this.problem(key, `must be \`true\` or \`false\`${got(value)}`);
    return undefined;
  }

  integer(key: string, min: number, max: number): number | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max) return value;
    this.problem(key, `must be an integer from ${min} to ${max}${got(value)}`);
    return undefined;
  }

  /** Seconds above 0, converted to milliseconds. */
  seconds(key: string, max: number): number | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value === "number" && value > 0 && value <= max) return Math.max(1, Math.round(value * 1_000));
    this.problem(key, `must be a number of seconds above 0 and at most ${max}${got(value)}`);
    return undefined;
  }

  strings(key: string, countMax: number, lengthMax: number): readonly string[] | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    const isFine = (entry: unknown) => typeof entry === "string" && entry !== "" && entry.length <= lengthMax;
    if (Array.isArray(value) && value.length <= countMax && value.every(isFine)) return value;
    this.problem(key, `must be a list of at most ${countMax} strings of 1 to ${lengthMax} characters${got(value)}`);
    return undefined;
  }

  map(key: string, shape: string): Json | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (isObject(value)) return value;
    this.problem(key, `${shape}${got(value)}`);
    return undefined;
  }
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `, got a number`. */
export function got(value: unknown): string {
  return `, got ${kindOf(value)}`;
}

export function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  switch (typeof value) {
    case "string":
      return value.length <= 32 ? `\`${value}\`` : "a string";
    case "number":
      return `${value}`;
    case "boolean":
      return `\`${value}\``;
    default:
      return "a mapping";
  }
}

export function orOf(names: readonly string[]): string {
  const all = names.map((name) => `\`${name}\``);
  return all.length === 1 ? (all[0] ?? "") : `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`;
}

function shownValue(value: unknown): string {
  return typeof value === "object" ? kindOf(value) : `\`${String(value).slice(0, 64)}\``;
}

/** From the root of the document: `["steps", "fetch", "topic"]`. */
export type Path = readonly (string | number)[];

export interface Problem {
  readonly path: Path;
  readonly text: string;
  /** The problem is the last key itself, not its value. */
  readonly isAboutKey: boolean;
}

export const PROBLEMS_MAX = 100;

export class Problems {
  readonly #all: Problem[] = [];

  add(path: Path, text: string, isAboutName = false): void {
    if (this.#all.length < PROBLEMS_MAX) this.#all.push({ path, text, isAboutKey: isAboutName });
  }

  get all(): readonly Problem[] {
    return this.#all;
  }
}

/** `steps.fetch.topic`, `steps.fetch.depends_on[2]`, `input["a b"]`. */
export function pathText(path: Path): string {
  return path.map(partText).join("");
}

export function problemText({ path, text }: Problem): string {
  return path.length === 0 ? text : `${pathText(path)}: ${text}`;
}

export function partText(part: string | number, index: number): string {
  if (typeof part === "number") return `[${part}]`;
  if (/^[A-Za-z_$][\w$-]*$/.test(part)) return index === 0 ? part : `.${part}`;
  return `[${JSON.stringify(part.length > 64 ? `${part.slice(0, 61)}…` : part)}]`;
}

/**
 * Parses an RFC 3339 time; null otherwise. `Date.parse` alone is too lenient: it accepts `5`, and times without a zone
 * as local.
 */
export function parseTime(value: unknown): number | null {
  if (typeof value !== "string" || !RFC3339.test(value)) return null;
  const atMs = Date.parse(value);
  return Number.isNaN(atMs) ? null : atMs;
}

const RFC3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;
