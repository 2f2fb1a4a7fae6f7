/** `re2(text, pattern)`: regular expressions in linear time. Patterns must be literals, never input. */
import type { ASTNode, Environment } from "@marcbachmann/cel-js";
import { RE2JS } from "re2js";
import type { Meter } from "./meter.ts";

export const PATTERN_LENGTH_MAX = 256;

export class Patterns {
  readonly #patterns = new Map<string, RE2JS>();

  /** Compiles the patterns of an expression. */
  add(nodes: readonly ASTNode[]): void {
    for (const node of nodes) {
      const pattern = patternOf(node);
      if (pattern !== null) this.#patterns.set(pattern, RE2JS.compile(pattern));
    }
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
  if (pattern.length > PATTERN_LENGTH_MAX) return `has a pattern of more than ${PATTERN_LENGTH_MAX} characters`;
  const read = readPattern(pattern);
  return read.kind === "ok" ? null : `has the invalid pattern \`${pattern}\`: ${read.problem}`;
}

export type ReadPattern =
  | { readonly kind: "ok"; readonly pattern: RE2JS }
  | { readonly kind: "bad"; readonly problem: string };

export function readPattern(pattern: string): ReadPattern {
  try {
    return { kind: "ok", pattern: RE2JS.compile(pattern) };
  } catch (error) {
    return { kind: "bad", problem: error instanceof Error ? error.message : String(error) };
  }
}

function patternOf(node: ASTNode): string | null {
  if (node.op !== "call" || node.args[0] !== "re2") return null;
  const pattern = node.args[1][1];
  return pattern?.op === "value" && typeof pattern.args === "string" ? pattern.args : null;
}
