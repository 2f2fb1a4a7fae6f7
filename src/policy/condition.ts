/**
 * `when`: a condition in CEL over the request.
 *
 * 1. No condition and no input makes a check run long. What is written is bounded when the policy loads; what is done is
 *    counted in steps, and the steps of all conditions of one check together are bounded. Going over is a fault, also
 *    where the language would forgive it (`over || true`).
 * 2. A condition answers true, false, or in words why it cannot be answered. What a fault means is decided by the rule.
 * 3. There is no `matches`: the library's is a JavaScript regular expression, and one of those hangs on 33 characters.
 *    `re2(text, pattern)` takes time in proportion to the text, and its pattern is part of the policy, never of a request.
 * 4. A condition that speaks of an input that is elsewhere cannot be answered, whatever it says: `has(input.amount)` is not
 *    false because somebody made the input too large to be looked at.
 */
import { type ASTNode, Environment, type ParseResult } from "@marcbachmann/cel-js";
import { RE2JS } from "re2js";
import { suggestion } from "../model/nearest.ts";
import { meteredSource, nodesOf } from "./condition-source.ts";
import type { PolicyRequest } from "./decision.ts";
import { McpCall, RequestView } from "./request-view.ts";
import { Meter } from "./steps.ts";

export const CONDITION_LIMITS = { length: 2_048, nodes: 256, depth: 24, elements: 256, patternLength: 256 } as const;

/** True, false, or what went wrong. */
export type Outcome = boolean | string;

export interface Condition {
  readonly run: ParseResult;
  readonly readsInput: boolean;
}

export type CompiledCondition =
  | { readonly kind: "ok"; readonly condition: Condition }
  | { readonly kind: "bad"; readonly problem: string };

/** The conditions of one policy. One check at a time: it is opened, conditions are asked, it is closed. */
export class Conditions {
  readonly #meter = new Meter();
  readonly #view = new RequestView();
  readonly #patterns = new Map<string, RE2JS>();
  /** What people write is checked against the first; what runs is parsed by the second, which knows the meter too. */
  readonly #written = this.#environment(1);
  readonly #metered = this.#meter.register(this.#environment(8));

  compile(text: string): CompiledCondition {
    if (text.length > CONDITION_LIMITS.length) {
      return bad(`is longer than ${CONDITION_LIMITS.length} characters; split the rule in two`);
    }
    try {
      const written = this.#written.parse(text);
      const refused = nodesOf(written.ast)
        .map(refusalOf)
        .find((problem) => problem !== null);
      if (refused !== undefined) return bad(refused);
      const { valid, type, error } = written.check();
      if (!valid) return bad(problemOf(error, text));
      if (type !== "bool" && type !== "dyn") return bad(`is of the type \`${type}\`; a condition is true or false`);
      return this.#compiled(written.ast);
    } catch (error) {
      return bad(problemOf(error, text));
    }
  }

  open(request: PolicyRequest): void {
    this.#meter.reset();
    this.#view.request = request;
  }

  close(): void {
    this.#view.request = null;
  }

  ask({ run, readsInput }: Condition): Outcome {
    if (readsInput && this.#view.request?.inputOmitted !== undefined) return INPUT_OMITTED;
    try {
      const answer: unknown = run(this.#view);
      if (this.#meter.isOver) return this.#meter.fault;
      return typeof answer === "boolean" ? answer : "the condition is neither true nor false";
    } catch (error) {
      return this.#meter.isOver ? this.#meter.fault : summaryOf(error);
    }
  }

  #compiled(written: ASTNode): CompiledCondition {
    const nodes = nodesOf(written);
    for (const node of nodes) {
      const pattern = patternOf(node);
      if (pattern !== null) this.#patterns.set(pattern, RE2JS.compile(pattern));
    }
    const run = this.#metered.parse(meteredSource(written));
    const { valid, error } = run.check();
    const readsInput = nodes.some(({ op, args }) => op === "id" && args === "input");
    return valid ? { kind: "ok", condition: { run, readsInput } } : bad(summaryOf(error));
  }

  #environment(scale: number): Environment {
    const { nodes, depth, elements } = CONDITION_LIMITS;
    const environment = new Environment({
      limits: {
        maxAstNodes: nodes * scale,
        maxDepth: depth * scale,
        maxListElements: elements,
        maxMapEntries: elements,
        maxCallArguments: 8,
      },
    });
    environment.registerType("Mcp", {
      ctor: McpCall,
      fields: { server: "string", tool: "string", resource: "string", action: "string" },
    });
    for (const [name, type] of Object.entries(VARIABLES)) environment.registerVariable(name, type);
    return environment.registerFunction("re2(string, string): bool", (text: string, pattern: string) => {
      const compiled = this.#patterns.get(pattern);
      if (compiled === undefined) throw new Error(`\`${pattern}\` is not a pattern of this policy`);
      // A step is what a node of the expression costs; an automaton takes about that for every state and 32 letters.
      this.#meter.charge((1 + text.length / 32) * (1 + compiled.programSize()));
      return compiled.test(text);
    });
  }
}

/** What conditions can ask about. What a request lacks is the empty text, as on the wire. */
const VARIABLES = {
  job_id: "string",
  tenant: "string",
  topic: "string",
  priority: "string",
  capability: "string",
  risk_tags: "list<string>",
  requires: "list<string>",
  labels: "map<string, string>",
  actor_id: "string",
  actor_type: "string",
  pack_id: "string",
  mcp: "Mcp",
  input: "dyn",
} as const;

const INPUT_OMITTED = "the input is too large to be looked at, or is kept elsewhere";

function refusalOf(node: ASTNode): string | null {
  const name = node.op === "call" || node.op === "rcall" ? node.args[0] : null;
  if (name === "matches") {
    return "uses `matches`, whose time has no bound; write `re2(text, pattern)`, which finds the pattern anywhere in the text";
  }
  if (node.op === "rcall" && name !== null && /^get[A-Z]/.test(name) && node.args[2].length > 0) {
    return `gives \`${name}\` a time zone; those differ between machines, so times are in UTC`;
  }
  if (name !== "re2") return null;
  const pattern = patternOf(node);
  if (pattern === null) return "must give `re2` its pattern as a literal, as in `re2(topic, 'pay|refund')`";
  if (pattern.length > CONDITION_LIMITS.patternLength) {
    return `has a pattern of more than ${CONDITION_LIMITS.patternLength} characters`;
  }
  try {
    RE2JS.compile(pattern);
    return null;
  } catch (error) {
    return `has a pattern that cannot be read: \`${pattern}\`: ${error instanceof Error ? error.message : error}`;
  }
}

function patternOf(node: ASTNode): string | null {
  if (node.op !== "call" || node.args[0] !== "re2") return null;
  const pattern = node.args[1][1];
  return pattern?.op === "value" && typeof pattern.args === "string" ? pattern.args : null;
}

function bad(problem: string): CompiledCondition {
  return { kind: "bad", problem };
}

function problemOf(error: unknown, text: string): string {
  const { range, code } = error as { readonly range?: { readonly start: number }; readonly code?: string };
  const summary = summaryOf(error);
  const hint = code === "unknown_variable" ? suggestion(summary.split(": ")[1] ?? "", Object.keys(VARIABLES)) : "";
  const before = text.slice(0, range?.start ?? 0).split("\n");
  const line = before.length > 1 ? `line ${before.length}, ` : "";
  return `cannot be read at ${line}column ${(before.at(-1)?.length ?? 0) + 1}: ${summary}${hint}`;
}

/** The library's messages in our voice: one line, lower case, of a sensible length. */
function summaryOf(error: unknown): string {
  const { summary, message } = error as { readonly summary?: string; readonly message?: string };
  const text = (summary ?? message ?? String(error)).split("\n")[0] ?? "";
  return `${text.slice(0, 1).toLowerCase()}${text.slice(1, 200)}`;
}
