/** Compiles the expressions, templates and schemas of one step and records what they read. */

import type { Expressions, ExtraVariables, ResultType } from "./expression.ts";
import { type Fields, got } from "./fields.ts";
import type { ReadAt } from "./graph.ts";
import type { Expression, Schema } from "./plan.ts";
import { compileSchema } from "./schema.ts";
import { type CompiledTemplate, compileTemplate, wholeExpression } from "./template.ts";

export class StepValues {
  readonly reads: ReadAt[] = [];
  readonly #expressions: Expressions;
  readonly #fields: Fields;
  readonly #extra: ExtraVariables;

  constructor(fields: Fields, expressions: Expressions, extra: ExtraVariables) {
    this.#fields = fields;
    this.#expressions = expressions;
    this.#extra = extra;
  }

  /** With or without `${…}`. Null if the key is absent or invalid (reported). */
  expression(key: string, expected: ResultType): Expression | null {
    return this.#expression(key, expected, NO_EXTRA);
  }

  /** Evaluated per item if the step has a `for_each`. */
  itemExpression(key: string, expected: ResultType): Expression | null {
    return this.#expression(key, expected, this.#extra);
  }

  #expression(key: string, expected: ResultType, extra: ExtraVariables): Expression | null {
    const value = this.#fields.get(key);
    if (value === undefined) return null;
    // YAML parses `condition: true` as a boolean.
    const text = typeof value === "boolean" && expected === "boolean" ? String(value) : value;
    if (typeof text !== "string" || text.trim() === "") {
      const example = expected === "list" ? "input.items" : "input.amount > 100";
      this.#fields.problem(key, `must be an expression, such as \`${example}\`${got(value)}`);
      return null;
    }
    const compiled = this.#expressions.compile(wholeExpression(text) ?? text, extra, expected);
    if (compiled.kind === "bad") {
      this.#fields.problem(key, compiled.problem);
      return null;
    }
    this.reads.push({ path: this.#fields.at(key), reads: compiled.expression.refs });
    return compiled.expression;
  }

  template(key: string): CompiledTemplate | null {
    const value = this.#fields.get(key);
    return value === undefined ? null : this.#compiled(key, value);
  }

  /** The default for an absent key. */
  defaultTemplate(value: unknown): CompiledTemplate | null {
    return this.#compiled("input", value);
  }

  textTemplate(key: string): CompiledTemplate | null {
    const value = this.#fields.get(key);
    if (value === undefined) return null;
    if (typeof value === "string" && value !== "") return this.#compiled(key, value);
    this.#fields.problem(key, `must be a string${got(value)}`);
    return null;
  }

  schema(key: string): Schema | null {
    const value = this.#fields.get(key);
    if (value === undefined) return null;
    return compileSchema(
      value,
      key.replace(/_schema$/, ""),
      this.#fields.at(key),
      this.#fields.problems,
      this.#expressions,
    );
  }

  #compiled(key: string, value: unknown): CompiledTemplate | null {
    const compiled = compileTemplate(this.#expressions, value, this.#extra);
    if (compiled.kind === "bad") {
      for (const { at, text } of compiled.problems) {
        this.#fields.problems.add([...this.#fields.at(key), ...at], text);
      }
      return null;
    }
    this.reads.push({ path: this.#fields.at(key), reads: compiled.template.refs });
    return compiled.template;
  }
}

const NO_EXTRA: ExtraVariables = { item: false };
