/**
 * `re2(text, pattern)`: regular expressions in linear time. Patterns must be literals, never input.
 *
 * The size of the automaton is bounded before it is built: `x{1000}` has a thousand states, and ignoring the case of a
 * range takes as long as some hundred.
 */
import type { ASTNode, Environment } from "@marcbachmann/cel-js";
import { RE2JS } from "re2js";
import type { Meter } from "./meter.ts";

export const PATTERN_LENGTH_MAX = 256;
export const PATTERN_STATES_MAX = 2_000;

/** Counts the states of all patterns of a document. */
export interface PatternStates {
  states: number;
  /** Why no further pattern is compiled; null if there is room. */
  readonly problem: string | null;
}

export class Patterns {
  readonly #patterns = new Map<string, RE2JS>();
  readonly #total: PatternStates;

  constructor(total: PatternStates) {
    this.#total = total;
  }

  /** Compiles the patterns of an expression. Returns the problem with one, or null. */
  add(nodes: readonly ASTNode[]): string | null {
    for (const node of nodes) {
      const pattern = patternOf(node);
      if (pattern === null || this.#patterns.has(pattern)) continue;
      // Before it is compiled: one expression can have dozens.
      const full = this.#total.problem;
      if (full !== null) return full;
      this.#total.states += costOf(pattern);
      const read = readPattern(pattern);
      if (read.kind === "bad") return `has the invalid pattern \`${pattern}\`: ${read.problem}`;
      this.#patterns.set(pattern, read.pattern);
    }
    return null;
  }

  register(environment: Environment, meter: Meter): Environment {
    return environment.registerFunction("re2(string, string): bool", (text: string, pattern: string) => {
      const compiled = this.#patterns.get(pattern);
      if (compiled === undefined) throw new Error(`\`${pattern}\` is not a literal pattern`);
      // Calibrated: about one step per automaton state and 32 characters.
      meter.charge((1 + text.length / 32) * (1 + compiled.programSize()));
      return compiled.test(text);
    });
  }
}

/** Why a call is not allowed; null for other nodes. */
export function callProblem(node: ASTNode): string | null {
  const name = node.op === "call" || node.op === "rcall" ? node.args[0] : null;
  if (name === "matches") {
    return "uses `matches`, which is not supported; use `re2(text, pattern)`, which searches anywhere in the text";
  }
  if (node.op === "rcall" && name !== null && /^get[A-Z]/.test(name) && node.args[2].length > 0) {
    return `passes a time zone to \`${name}\`; only UTC is supported`;
  }
  if (name !== "re2") return null;
  const pattern = patternOf(node);
  if (pattern === null) return "needs a literal pattern for `re2`, as in `re2(topic, 'pay|refund')`";
  return pattern.length > PATTERN_LENGTH_MAX ? `has a pattern of more than ${PATTERN_LENGTH_MAX} characters` : null;
}

export type ReadPattern =
  | { readonly kind: "ok"; readonly pattern: RE2JS }
  | { readonly kind: "bad"; readonly problem: string };

export function readPattern(pattern: string): ReadPattern {
  if (statesAtMost(pattern) > PATTERN_STATES_MAX) {
    const problem = `its repetitions expand to more than ${PATTERN_STATES_MAX} states; use smaller counts`;
    return { kind: "bad", problem };
  }
  if (foldedStates(pattern) > PATTERN_STATES_MAX) {
    return { kind: "bad", problem: "its classes are too large to ignore case; use smaller ranges, or no `(?i)`" };
  }
  try {
    return { kind: "ok", pattern: RE2JS.compile(pattern) };
  } catch (error) {
    return { kind: "bad", problem: error instanceof Error ? error.message : String(error) };
  }
}

/** The cost of compiling a pattern, in states, from the text alone. */
export function costOf(pattern: string): number {
  return PATTERN_COST + Math.min(statesAtMost(pattern) + foldedStates(pattern), 2 * PATTERN_STATES_MAX);
}

/** An upper bound of the number of states, from the text alone. Invalid patterns are refused by the compiler. */
export function statesAtMost(pattern: string): number {
  const around: number[] = [];
  let [total, last] = [0, 0];
  for (let at = 0; at < pattern.length; ) {
    const rest = pattern.slice(at);
    const counted = /^\{(\d+)(,(\d*))?\}/.exec(rest);
    const token = counted?.[0] ?? TOKEN.exec(rest)?.[0] ?? rest.slice(0, 1);
    at += token.length;
    if (counted) {
      // An optional copy takes two states, as does the loop of `{2,}`.
      const copies = Math.max(Number(counted[1]), Number(counted[3] || 0), 1) + (counted[2] === undefined ? 0 : 1);
      const repeated = last * copies * (counted[2] === undefined ? 1 : 2);
      total += repeated - last;
      last = repeated;
    } else if (token.startsWith("(")) {
      around.push(total);
      [total, last] = [0, 0];
    } else if (token === ")") {
      last = total + 2;
      total = (around.pop() ?? 0) + last;
    } else if (token === "*" || token === "+" || token === "?" || token === "|") {
      total += 2;
      last += 2;
    } else {
      last = token.startsWith("\\Q") ? token.length : 1;
      total += last;
    }
  }
  return around.reduce((sum, size) => sum + size, total);
}

/** With `(?i)` the compiler visits every character of a range, and large tables for `\\p`. In states that take as long. */
function foldedStates(pattern: string): number {
  if (!/\(\?[A-Za-z]*i/.test(pattern)) return 0;
  let [total, last, isRange] = [0, 0, false];
  for (const [token, wide, narrow] of pattern.matchAll(CHARACTER)) {
    if (/^\\p/i.test(token)) total += TABLE_COST;
    const code = Number.parseInt(wide ?? narrow ?? "", 16);
    const point = Number.isNaN(code) ? (token.codePointAt(token.length > 1 && token[0] === "\\" ? 1 : 0) ?? 0) : code;
    if (isRange) total += Math.max(0, Math.min(point, FOLDED_MAX) - last) / FOLDED_PER_STATE;
    isRange = token === "-";
    if (!isRange) last = point;
  }
  return Math.ceil(total);
}

const CHARACTER = /\\x\{([0-9a-f]{1,8})\}|\\x([0-9a-f]{2})|\\p(?:\{[^}]*\}|.)|\\.|./gisu;
/** The last character with another case. */
const FOLDED_MAX = 0x1e943;
const FOLDED_PER_STATE = 160;
const TABLE_COST = 40;
/** Of every pattern, whatever its length. */
const PATTERN_COST = 16;

/** A class, an escape, a quotation, the start of a group. */
const TOKEN = /^(\[\^?\]?(\[:[^\]]*:\]|\\.|[^\]\\])*\]|\\Q.*?(\\E|$)|\\[pPx]\{[^}]*\}|\\.|\(\?[^:)>]*[:>]?|\()/s;

function patternOf(node: ASTNode): string | null {
  if (node.op !== "call" || node.args[0] !== "re2") return null;
  const pattern = node.args[1][1];
  return pattern?.op === "value" && typeof pattern.args === "string" ? pattern.args : null;
}
