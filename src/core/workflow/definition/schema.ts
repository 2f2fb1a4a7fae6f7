/**
 * A compiled subset of JSON Schema.
 *
 * 1. Unknown keywords are errors, with a suggestion. Annotations (`title`, `format`, …) are accepted and not checked.
 * 2. Validation time is bounded: patterns are RE2, work is counted, and unchecked values count as invalid.
 * 3. Problems carry a path, such as `input.items[3].sku`; at most eight are reported.
 */
import type { StepBudget } from "../../expression/budget.ts";
import { DocumentSize } from "../../expression/language.ts";
import { costOf } from "../../expression/patterns.ts";
import { suggestion } from "../../model/suggestion.ts";
import { got, isObject, type Path, type Problems } from "./fields.ts";
import type { Schema } from "./plan.ts";
import { type Check, SchemaRun } from "./schema-check.ts";
import { VALUE_KEYWORDS } from "./schema-values.ts";

export const SCHEMA_LIMITS = { schemas: 5_000 } as const;

/** The document of a schema: its size so far, and the budget of the request that is being evaluated. */
export interface SchemaHost {
  readonly size: DocumentSize;
  readonly budget: StepBudget | null;
}

/** `name` is the root of reported paths. Null after a problem. */
export function compileSchema(
  source: unknown,
  name: string,
  path: Path,
  problems: Problems,
  host: SchemaHost = { size: new DocumentSize(), budget: null },
): Schema | null {
  const compiler = new Compiler(source, path, problems, host.size);
  const check = compiler.root();
  if (compiler.hasFailed) return null;
  return {
    problemsOf: (value) => {
      const { budget } = host;
      const run = new SchemaRun(name, budget);
      try {
        const isFine = run.check(check, value);
        if (!isFine && run.problems.length === 0) run.fail("does not match its schema");
      } catch (error) {
        // Stack overflow on very deep values.
        if (!(error instanceof RangeError)) throw error;
        return [`${name}: is nested too deeply`];
      } finally {
        budget?.spend(run.steps);
      }
      return run.problems;
    },
  };
}

const ANNOTATIONS: readonly string[] = [
  ...["$schema", "$id", "$comment", "title", "description", "default", "examples", "format", "deprecated"],
  ...["readOnly", "writeOnly", "contentEncoding", "contentMediaType"],
];
const DEFINITIONS: readonly string[] = ["$defs", "definitions"];
const OBJECT_KEYWORDS: readonly string[] = ["properties", "additionalProperties"];
const LIST_KEYWORDS: readonly string[] = ["items", "prefixItems"];
const COMBINED = ["allOf", "anyOf", "oneOf"] as const;
const KEYWORDS: readonly string[] = [
  ...Object.keys(VALUE_KEYWORDS),
  ...OBJECT_KEYWORDS,
  ...LIST_KEYWORDS,
  ...COMBINED,
  ...["not", "$ref"],
  ...DEFINITIONS,
  ...ANNOTATIONS,
];

class Compiler {
  hasFailed = false;
  readonly #source: unknown;
  readonly #path: Path;
  readonly #problems: Problems;
  readonly #refs = new Map<string, { check: Check | null }>();
  #count = 0;

  readonly #size: DocumentSize;

  constructor(source: unknown, path: Path, problems: Problems, size: DocumentSize) {
    this.#size = size;
    this.#source = source;
    this.#path = path;
    this.#problems = problems;
  }

  root(): Check {
    const check = this.#compile(this.#source, this.#path);
    const own = this.#refs.get("#");
    if (own) own.check = check;
    return check;
  }

  #problem(path: Path, text: string, isAboutName = false): Check {
    this.hasFailed = true;
    this.#problems.add(path, text, isAboutName);
    return always;
  }

  #compile(source: unknown, path: Path): Check {
    this.#count += 1;
    if (this.#count > SCHEMA_LIMITS.schemas) {
      if (this.#count > SCHEMA_LIMITS.schemas + 1) return always;
      return this.#problem(this.#path, `has more than ${SCHEMA_LIMITS.schemas} subschemas`);
    }
    if (source === true) return always;
    if (source === false) return (_value, run) => run.fail("is not allowed");
    if (!isObject(source)) return this.#problem(path, `must be a schema, such as \`{type: object}\`${got(source)}`);
    const checks: Check[] = [];
    for (const [keyword, operand] of Object.entries(source)) {
      const check = this.#keyword(keyword, operand, [...path, keyword]);
      if (check !== null) checks.push(check);
    }
    if (OBJECT_KEYWORDS.some((keyword) => Object.hasOwn(source, keyword))) checks.push(this.#object(source, path));
    if (LIST_KEYWORDS.some((keyword) => Object.hasOwn(source, keyword))) checks.push(this.#list(source, path));
    return all(checks);
  }

  #keyword(keyword: string, operand: unknown, path: Path): Check | null {
    const ofValue = Object.hasOwn(VALUE_KEYWORDS, keyword) ? VALUE_KEYWORDS[keyword] : undefined;
    if (ofValue !== undefined) {
      if (keyword === "pattern" && typeof operand === "string") {
        const full = this.#size.problem;
        if (full !== null) return this.#problem(path, full);
        this.#size.states += costOf(operand);
      }
      const made = ofValue(operand);
      return typeof made === "string" ? this.#problem(path, made) : made;
    }
    if (keyword === "not") return negated(this.#compile(operand, path));
    if (keyword === "$ref") return this.#ref(operand, path);
    const combined = COMBINED.find((known) => known === keyword);
    if (combined !== undefined) return this.#combined(combined, operand, path);
    if (DEFINITIONS.includes(keyword)) {
      if (path.length > this.#path.length + 1)
        return this.#problem(path, "is only allowed at the top level of a schema", true);
      for (const [name] of this.#entries(operand, path)) {
        const key = `#/${keyword}/${name}`;
        if (!this.#refs.has(key)) this.#target(key, keyword, name, path);
      }
      return null;
    }
    if (KEYWORDS.includes(keyword)) return null;
    const hint = suggestion(keyword, KEYWORDS) || "; not a supported JSON Schema keyword";
    return this.#problem(path, `unknown keyword${hint}`, true);
  }

  #combined(keyword: (typeof COMBINED)[number], operand: unknown, path: Path): Check {
    if (!Array.isArray(operand) || operand.length === 0)
      return this.#problem(path, `must be a list of schemas${got(operand)}`);
    const checks = operand.map((schema, index) => this.#compile(schema, [...path, index]));
    switch (keyword) {
      case "allOf":
        return all(checks);
      case "anyOf":
        return (value, run) =>
          checks.some((check) => run.matches(check, value)) ||
          run.fail(`matches none of the ${checks.length} schemas of \`anyOf\``);
      case "oneOf":
        return (value, run) => {
          const count = checks.filter((check) => run.matches(check, value)).length;
          return (
            count === 1 ||
            run.fail(`must match exactly one of the ${checks.length} schemas of \`oneOf\`, matches ${count || "none"}`)
          );
        };
      default:
        return keyword satisfies never;
    }
  }

  #object(source: Readonly<Record<string, unknown>>, path: Path): Check {
    const entries = Object.hasOwn(source, "properties")
      ? this.#entries(source.properties, [...path, "properties"])
      : [];
    const properties = new Map(
      entries.map(([name, schema]) => [name, this.#compile(schema, [...path, "properties", name])]),
    );
    const isOpen = !Object.hasOwn(source, "additionalProperties") || source.additionalProperties === true;
    const others = isOpen
      ? null
      : this.#others(source.additionalProperties, [...path, "additionalProperties"], properties);
    return (value, run) => {
      if (!isObject(value)) return true;
      let isFine = true;
      for (const name of Object.keys(value)) {
        if (run.isDone) return false;
        const check = properties.get(name) ?? others;
        if (check && !run.within(name, check, value[name])) isFine = false;
      }
      return isFine;
    };
  }

  #others(source: unknown, path: Path, properties: ReadonlyMap<string, Check>): Check {
    if (source !== false) return this.#compile(source, path);
    const known = [...properties.keys()];
    const hint = known.length > 0 ? `; known: ${known.slice(0, 8).join(", ")}` : "";
    return (_value, run) => run.fail(`unknown property${hint}`);
  }

  #list(source: Readonly<Record<string, unknown>>, path: Path): Check {
    const { items, prefixItems = [] } = source;
    if (Array.isArray(items))
      return this.#problem([...path, "items"], "must be a schema; use `prefixItems` for a list");
    if (!Array.isArray(prefixItems)) {
      return this.#problem([...path, "prefixItems"], `must be a list of schemas${got(prefixItems)}`);
    }
    const first = prefixItems.map((schema, index) => this.#compile(schema, [...path, "prefixItems", index]));
    const rest = items === undefined ? always : this.#compile(items, [...path, "items"]);
    return (value, run) => {
      if (!Array.isArray(value)) return true;
      let isFine = true;
      for (const [index, item] of value.entries()) {
        if (run.isDone) return false;
        if (!run.within(index, first[index] ?? rest, item)) isFine = false;
      }
      return isFine;
    };
  }

  /** Compiled once per target, so that schemas may be recursive. */
  #ref(operand: unknown, path: Path): Check {
    const parts = typeof operand === "string" ? operand.split("/") : [];
    const [start, section = "", escaped = ""] = parts;
    const name = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
    const isOwn = operand === "#";
    if (!isOwn && !(start === "#" && DEFINITIONS.includes(section) && parts.length === 3)) {
      return this.#problem(
        path,
        `must be \`#\` or \`#/$defs/…\`: external references are not supported${got(operand)}`,
      );
    }
    const key = isOwn ? "#" : `#/${section}/${name}`;
    const known = this.#refs.get(key) ?? this.#target(key, section, name, path);
    return (value, run) => (known.check === null ? true : run.check(known.check, value));
  }

  #target(key: string, section: string, name: string, path: Path): { check: Check | null } {
    const target: { check: Check | null } = { check: null };
    this.#refs.set(key, target);
    if (key === "#") return target;
    const all = isObject(this.#source) ? this.#source[section] : undefined;
    const found = isObject(all) && Object.hasOwn(all, name) ? all[name] : undefined;
    if (found === undefined) {
      const hint = suggestion(name, isObject(all) ? Object.keys(all) : []);
      this.#problem(path, `\`${name}\` is not defined in \`${section}\`${hint}`);
    } else target.check = this.#compile(found, [...this.#path, section, name]);
    return target;
  }

  #entries(operand: unknown, path: Path): readonly (readonly [string, unknown])[] {
    if (isObject(operand)) return Object.entries(operand);
    this.#problem(path, `must be a mapping from names to schemas${got(operand)}`);
    return [];
  }
}

const always: Check = () => true;

function all(checks: readonly Check[]): Check {
  const [only] = checks;
  if (only !== undefined && checks.length === 1) return only;
  return (value, run) => {
    let isFine = true;
    for (const check of checks) if (run.isDone || !check(value, run)) isFine = false;
    return isFine;
  };
}

function negated(check: Check): Check {
  return (value, run) => {
    const fits = run.matches(check, value);
    return !fits || run.fail("must not match the schema of `not`");
  };
}
