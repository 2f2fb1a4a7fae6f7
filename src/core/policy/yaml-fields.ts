/** Validated access to YAML. Problems are collected with their line, so that all are reported at once. */
import { isMap, isScalar, isSeq, type Node, type YAMLMap } from "yaml";
import { nfc } from "../model/canonical.ts";
import { suggestion } from "../model/suggestion.ts";
import { parseYaml, sizeProblem, startOf } from "../yaml/parse.ts";

export type YamlNode = Node | null | undefined;

/** 10,000 rules have about 900,000. */
const TOKENS_MAX = 1_000_000;

export const TEXT_LIMITS = { names: 1_000, nameLength: 256 } as const;

export type ReadYaml<T> =
  | { readonly kind: "ok"; readonly value: T }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

export function readYaml<T>(
  file: { readonly name: string; readonly text: string },
  read: (fields: YamlFields, contents: YamlNode) => T,
): ReadYaml<T> {
  const deep = sizeProblem(file.text, TOKENS_MAX);
  if (deep !== null) return { kind: "bad", problems: [`${file.name}: ${deep}`] };
  const { yaml, lines, faults } = parseYaml(file.text);
  const at = (offset: number) => `${file.name}:${lines.linePos(offset).line}`;
  if (faults.length > 0) return { kind: "bad", problems: faults.map(({ offset, why }) => `${at(offset)}: ${why}`) };
  const problems: string[] = [];
  const fields = new YamlFields(
    (node, text) => {
      problems.push(`${at(startOf(node))}: ${text}`);
    },
    (node) => lines.linePos(startOf(node)).line,
  );
  const value = read(fields, yaml.contents);
  return problems.length > 0 ? { kind: "bad", problems } : { kind: "ok", value };
}

export class YamlFields {
  readonly problem: (node: YamlNode, text: string) => void;
  readonly lineOf: (node: YamlNode) => number;

  constructor(problem: YamlFields["problem"], lineOf: YamlFields["lineOf"]) {
    this.problem = problem;
    this.lineOf = lineOf;
  }

  /** The values of a map with only these keys. */
  map<K extends string>(node: YamlNode, keys: readonly K[], shape: string): ReadonlyMap<K, Node> {
    const fields = new Map<K, Node>();
    if (!isMap(node)) {
      this.problem(node, shape);
      return fields;
    }
    for (const { key, value } of node.items) {
      const name = isScalar(key) ? String(key.value) : "";
      const known = keys.find((candidate) => candidate === name);
      if (known === undefined) {
        const hint = suggestion(name, keys) || `; known here: ${namesOf(keys)}`;
        this.problem(key as Node, `unknown key \`${name}\`${hint}`);
      } else if (value === null) {
        this.problem(key as Node, `\`${name}\` has no value; remove the key or give it one`);
      } else fields.set(known, value as Node);
    }
    return fields;
  }

  /** Numbers and booleans are taken as written: `version: 1`, `env: true`. Like requests, in Unicode NFC. */
  text(node: YamlNode, key: string, lengthMax: number = TEXT_LIMITS.nameLength): string {
    const value = isScalar(node) ? node.value : undefined;
    const text =
      typeof value === "string" ? value : isScalar(node) && value !== null ? (node.source ?? String(value)) : "";
    if (text === "" || text.length > lengthMax) {
      this.problem(node, `\`${key}\` must be a string of 1 to ${lengthMax} characters`);
    }
    return nfc(text);
  }

  /** A list of names; a single name may be written without brackets. */
  names(node: YamlNode, key: string): readonly string[] {
    if (isScalar(node)) return [this.text(node, key)];
    if (!isSeq(node) || node.items.length === 0 || node.items.length > TEXT_LIMITS.names) {
      this.problem(node, `\`${key}\` must be a list of 1 to ${TEXT_LIMITS.names} names; omit it if not needed`);
      return [];
    }
    return node.items.map((item) => this.text(item as Node, key));
  }

  texts(node: YamlNode, key: string): Readonly<Record<string, string>> {
    if (!isMap(node) || node.items.length === 0 || node.items.length > TEXT_LIMITS.names) {
      this.problem(node, `\`${key}\` must be a map, such as \`{env: prod}\`; omit it if not needed`);
      return {};
    }
    return Object.fromEntries(entriesOf(node).map(([name, value]) => [name, this.text(value, `${key}.${name}`)]));
  }

  /** One of these, or `otherwise` after a problem. */
  choice<T extends string>(node: YamlNode, key: string, known: readonly T[], otherwise: T): T {
    const value = isScalar(node) ? String(node.value) : "";
    const choice = known.find((candidate) => candidate === value);
    if (choice === undefined) {
      this.problem(node, `\`${key}\` must be ${orOf(known)}, not \`${value}\`${suggestion(value, known)}`);
    }
    return choice ?? otherwise;
  }

  flag(node: YamlNode, key: string): boolean {
    const value = isScalar(node) ? node.value : undefined;
    if (typeof value !== "boolean") this.problem(node, `\`${key}\` must be \`true\` or \`false\``);
    return value === true;
  }

  count(node: YamlNode, key: string): number {
    const value = isScalar(node) ? node.value : undefined;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
    this.problem(node, `\`${key}\` must be a non-negative integer`);
    return 0;
  }

  list(node: YamlNode, key: string, lengthMax: number): readonly Node[] {
    if (isSeq(node) && node.items.length <= lengthMax) return node.items as Node[];
    this.problem(node, `\`${key}\` must be a list of at most ${lengthMax} items`);
    return [];
  }
}

export function optionalField<K extends string, T>(
  fields: ReadonlyMap<K, Node>,
  key: K,
  read: (node: Node) => T,
): T | undefined {
  const node = fields.get(key);
  return node === undefined ? undefined : read(node);
}

/** Drops undefined values. */
export function present<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(value).filter(([, entry]) => entry !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

function entriesOf(node: YAMLMap): readonly (readonly [string, YamlNode])[] {
  return node.items.map(({ key, value }) => [isScalar(key) ? nfc(String(key.value)) : "", value as YamlNode]);
}

function namesOf(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(", ");
}

function orOf(names: readonly string[]): string {
  return `${namesOf(names.slice(0, -1))} or \`${names.at(-1)}\``;
}
