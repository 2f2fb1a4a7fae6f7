/**
 * Templates: JSON with `${…}` in its strings.
 *
 * 1. A string that is a single `${…}` becomes the value, with its type. Otherwise values are inserted as text: strings
 *    as they are, anything else as JSON.
 * 2. `$${` is an escaped `${`.
 * 3. Keys are not evaluated.
 */
import type { CompiledExpression, Expressions, ExtraVariables } from "./expression.ts";
import { tryEvaluate } from "./expression.ts";
import { OutputBudget } from "./json-value.ts";
import type { Scope, Template } from "./plan.ts";
import { mergeReads, type Reads } from "./references.ts";

export const TEMPLATE_LIMITS = { depth: 32, nodes: 10_000, expressions: 256 } as const;

export interface CompiledTemplate extends Template {
  readonly refs: Reads;
  /** The value, if the template contains no expression. */
  readonly constant: { readonly value: unknown } | null;
}

/** `at`: path within the template. */
export type TemplateProblem = { readonly at: readonly (string | number)[]; readonly text: string };

export type TemplateResult =
  | { readonly kind: "ok"; readonly template: CompiledTemplate }
  | { readonly kind: "bad"; readonly problems: readonly TemplateProblem[] };

export function compileTemplate(expressions: Expressions, source: unknown, extra: ExtraVariables): TemplateResult {
  const reader = new Reader(expressions, extra);
  const part = reader.read(source, []);
  if (reader.problems.length > 0) return { kind: "bad", problems: reader.problems };
  const refs = mergeReads(reader.expressions.map((expression) => expression.refs));
  let steps = 0;
  let size = new OutputBudget();
  const render = (scope: Scope) => {
    expressions.reset();
    const budget = new OutputBudget();
    const rendered = tryEvaluate(() => part(scope, budget));
    steps = expressions.steps;
    size = budget;
    return rendered;
  };
  const constant = reader.expressions.length === 0 ? { value: part(NO_SCOPE, new OutputBudget()) } : null;
  return { kind: "ok", template: { refs, render, constant, stepsOfLast: () => steps, sizeOfLast: () => size } };
}

/** The expression of a string that is a single `${…}`, else null. */
export function wholeExpression(text: string): string | null {
  const trimmed = text.trim();
  if (!trimmed.startsWith("${")) return null;
  const end = endOf(trimmed, 2);
  return end === trimmed.length - 1 ? trimmed.slice(2, end) : null;
}

type Part = (scope: Scope, room: OutputBudget) => unknown;

const NO_SCOPE: Scope = { run: { id: "", workflow_id: "", tenant: "" } };

class Reader {
  readonly problems: TemplateProblem[] = [];
  readonly expressions: CompiledExpression[] = [];
  readonly #compiler: Expressions;
  readonly #extra: ExtraVariables;
  #nodes = 0;

  constructor(compiler: Expressions, extra: ExtraVariables) {
    this.#compiler = compiler;
    this.#extra = extra;
  }

  read(source: unknown, at: readonly (string | number)[]): Part {
    this.#nodes += 1;
    if (at.length > TEMPLATE_LIMITS.depth) return this.#refuse(at, `is nested more than ${TEMPLATE_LIMITS.depth} deep`);
    if (this.#nodes === TEMPLATE_LIMITS.nodes) {
      return this.#refuse([], `has more than ${TEMPLATE_LIMITS.nodes} values; pass them as run input`);
    }
    if (typeof source === "string") return this.#text(source, at);
    if (typeof source !== "object" || source === null) return literal(source, 8);
    if (this.#nodes > TEMPLATE_LIMITS.nodes) return () => null;
    if (Array.isArray(source)) {
      const parts = source.map((entry, index) => this.read(entry, [...at, index]));
      return (scope, room) => parts.map((part) => part(scope, room));
    }
    const entries = Object.entries(source).map(([key, value]) => [key, this.read(value, [...at, key])] as const);
    const templated = entries.find(([key]) => key.includes("${"));
    if (templated) this.#refuse([...at, templated[0]], "is a key; only values can be templates");
    return (scope, room) => {
      for (const [key] of entries) room.charge(key.length + 3);
      return Object.fromEntries(entries.map(([key, part]) => [key, part(scope, room)]));
    };
  }

  #text(text: string, at: readonly (string | number)[]): Part {
    const pieces = piecesOf(text);
    if (pieces === null) return this.#refuse(at, "has an unclosed `$" + "{`; write `$$" + "{` for a literal one");
    const parts: (string | CompiledExpression)[] = [];
    for (const piece of pieces) {
      if (piece.kind === "text") {
        parts.push(piece.text);
        continue;
      }
      const compiled = this.#compiler.compile(piece.text, this.#extra);
      if (compiled.kind === "bad") return this.#refuse(at, `\`\${${shown(piece.text)}}\` ${compiled.problem}`);
      this.expressions.push(compiled.expression);
      parts.push(compiled.expression);
      if (this.expressions.length > TEMPLATE_LIMITS.expressions) {
        return this.#refuse(at, `more than ${TEMPLATE_LIMITS.expressions} expressions in one template`);
      }
    }
    const [first, ...more] = parts;
    if (first === undefined) return literal("", 2);
    if (more.length > 0) return joined(parts);
    return typeof first === "string" ? literal(first, first.length + 2) : first.evaluatePart;
  }

  #refuse(at: readonly (string | number)[], text: string): Part {
    this.problems.push({ at, text });
    return () => null;
  }
}

function literal(value: unknown, size: number): Part {
  return (_scope, room) => {
    room.charge(size);
    return value;
  };
}

function joined(parts: readonly (string | CompiledExpression)[]): Part {
  const textLength = parts.reduce((sum, part) => sum + (typeof part === "string" ? part.length : 0), 0);
  return (scope, room) => {
    room.charge(textLength);
    const texts = parts.map((part) => (typeof part === "string" ? part : textOf(part.evaluatePart(scope, room))));
    return texts.join("");
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

interface Piece {
  readonly kind: "text" | "expression";
  readonly text: string;
}

/** Null if a `${` is not closed. Adjacent text is merged. */
function piecesOf(text: string): readonly Piece[] | null {
  const pieces: Piece[] = [];
  let plain = "";
  for (let at = 0; at < text.length; ) {
    if (text.startsWith("$${", at)) {
      plain += "${";
      at += 3;
    } else if (text.startsWith("${", at)) {
      const end = endOf(text, at + 2);
      if (end === null) return null;
      if (plain !== "") pieces.push({ kind: "text", text: plain });
      plain = "";
      pieces.push({ kind: "expression", text: text.slice(at + 2, end) });
      at = end + 1;
    } else {
      plain += text[at];
      at += 1;
    }
  }
  if (plain !== "") pieces.push({ kind: "text", text: plain });
  return pieces;
}

/** The index of the closing `}`, ignoring those in maps, strings and comments. */
function endOf(text: string, from: number): number | null {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const char = text[at];
    if (char === "{") depth += 1;
    else if (char === "}" && depth > 0) depth -= 1;
    else if (char === "}") return at;
    else if (char === '"' || char === "'") at = endOfText(text, at);
    else if (text.startsWith("//", at)) at = (text.indexOf("\n", at) + 1 || text.length + 1) - 1;
  }
  return null;
}

/**
 * The closing quote of a CEL string, single or triple quoted. Escaped quotes do not close it, not even in raw strings.
 */
function endOfText(text: string, from: number): number {
  const one = text[from] ?? "";
  const quote = text.startsWith(one.repeat(3), from) ? one.repeat(3) : one;
  for (let at = from + quote.length; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text.startsWith(quote, at)) return at + quote.length - 1;
  }
  return text.length;
}

function shown(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
