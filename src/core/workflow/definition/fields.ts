/** Reading checked values out of plain JSON. Every problem is noted with its place, and reading goes on: all are seen at once. */
import { suggestion } from "../../model/suggestion.ts";
import type { Path, Problems } from "./problems.ts";

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

  /** Says so about every key that is not one of these. `why` may know better than the nearest name. */
  only(keys: readonly string[], why: (key: string) => string | null = () => null): void {
    for (const key of Object.keys(this.#values)) {
      if (keys.includes(key)) continue;
      const hint = suggestion(key, keys) || `; known here: ${keys.map((known) => `\`${known}\``).join(", ")}`;
      this.problems.add(this.at(key), why(key) ?? `unknown key${hint}`, true);
    }
  }

  /** Undefined when it is not there, or is wrong: then that was said. */
  text(key: string, lengthMax: number): string | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value === "string" && value !== "" && value.length <= lengthMax) return value;
    this.problem(key, `must be a text of 1 to ${lengthMax} characters${isOf(value)}`);
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
    this.problem(key, `must be \`true\` or \`false\`${isOf(value)}`);
    return undefined;
  }

  whole(key: string, min: number, max: number): number | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max) return value;
    this.problem(key, `must be a whole number from ${min} to ${max}${isOf(value)}`);
    return undefined;
  }

  /** Seconds, as milliseconds; more than 0. */
  seconds(key: string, max: number): number | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value === "number" && value > 0 && value <= max) return Math.max(1, Math.round(value * 1_000));
    this.problem(key, `must be a number of seconds above 0 and at most ${max}${isOf(value)}`);
    return undefined;
  }

  texts(key: string, countMax: number, lengthMax: number): readonly string[] | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    const isFine = (entry: unknown) => typeof entry === "string" && entry !== "" && entry.length <= lengthMax;
    if (Array.isArray(value) && value.length <= countMax && value.every(isFine)) return value;
    this.problem(key, `must be a list of at most ${countMax} texts of 1 to ${lengthMax} characters${isOf(value)}`);
    return undefined;
  }

  map(key: string, shape: string): Json | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (isObject(value)) return value;
    this.problem(key, `${shape}${isOf(value)}`);
    return undefined;
  }
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `, is a number`. */
export function isOf(value: unknown): string {
  return `, is ${kindOf(value)}`;
}

/** What a value of JSON is called. */
export function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  switch (typeof value) {
    case "string":
      return value.length <= 32 ? `\`${value}\`` : "a text";
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
