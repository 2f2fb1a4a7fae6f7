/**
 * CEL with a cost meter, for policy conditions and workflow expressions.
 *
 * 1. Evaluation is bounded. Size is limited at compile time, work is counted at run time. Exceeding the limit is an
 *    error even where CEL would absorb it (`over || true`).
 * 2. `matches` is not available: the library uses JavaScript regular expressions, which can backtrack exponentially.
 * 3. The result depends only on the input: no time zones, no clock, no randomness.
 */
import { type ASTNode, Environment, type ParseResult } from "@marcbachmann/cel-js";
import { suggestion } from "../model/suggestion.ts";
import { Meter } from "./meter.ts";
import { meteredSource, nodesOf } from "./metered-source.ts";
import { callProblem, type PatternStates, Patterns } from "./patterns.ts";

export const EXPRESSION_LIMITS = { length: 2_048, nodes: 256, depth: 24, elements: 256 } as const;

/** Over all expressions of one document. Compiling a policy takes at most about a second. */
export const DOCUMENT_LIMITS = { nodes: 100_000, patternStates: 50_000 } as const;
/** Operators of every tenant may apply workflows, which the event loop compiles again: a quarter of that. */
export const WORKFLOW_DOCUMENT_LIMITS = { nodes: 25_000, patternStates: 12_500 } as const;

export interface LanguageOptions {
  /** Variables and their types. */
  readonly variables: Readonly<Record<string, string>>;
  /** `what` is the subject of errors (`the conditions`); `stepsMax` is the budget between two resets of the meter. */
  readonly what: string;
  readonly stepsMax: number;
  /** Advice for expressions that are too long. */
  readonly whenTooLong: string;
  /** Additional types and operators. */
  readonly extend?: (environment: Environment) => void;
  /** Allows lists and maps with mixed types. */
  readonly isMixed?: boolean;
  /** Rejects an expression; null if it is allowed. */
  readonly refuse?: (ast: ASTNode) => string | null;
}

export type Compiled =
  | { readonly kind: "ok"; readonly run: ParseResult; readonly type: string; readonly ast: ASTNode }
  | { readonly kind: "bad"; readonly problem: string };

/** The expressions of one document so far. */
export class DocumentSize implements PatternStates {
  nodes = 0;
  states = 0;
  readonly limits: { readonly nodes: number; readonly patternStates: number };

  constructor(limits: DocumentSize["limits"] = DOCUMENT_LIMITS) {
    this.limits = limits;
  }

  /** Why no further expression is compiled; null if there is room. */
  get problem(): string | null {
    const { nodes, patternStates } = this.limits;
    if (this.nodes > nodes) return `is one too many: all expressions together have more than ${nodes} operations`;
    if (this.states > patternStates) {
      return `is one too many: all patterns together expand to more than ${patternStates} states`;
    }
    return null;
  }
}

/** The expressions of a language share one meter. */
export class Language {
  readonly meter: Meter;
  readonly #options: LanguageOptions;
  readonly #patterns: Patterns;
  readonly #size: DocumentSize;
  /**
   * Source text is checked in the first environment; the instrumented form is parsed in the second, which knows the
   * meter functions.
   */
  readonly #written: Environment;
  readonly #metered: Environment;

  /** Languages with the same meter share a budget; those of one document share its size. */
  constructor(
    options: LanguageOptions,
    meter: Meter = new Meter(options.what, options.stepsMax),
    size: DocumentSize = new DocumentSize(),
  ) {
    this.#options = options;
    this.meter = meter;
    this.#size = size;
    this.#patterns = new Patterns(size);
    this.#written = this.#environment(1);
    this.#metered = this.meter.register(this.#environment(8));
  }

  compile(text: string): Compiled {
    if (text.length > EXPRESSION_LIMITS.length) {
      return bad(`is longer than ${EXPRESSION_LIMITS.length} characters; ${this.#options.whenTooLong}`);
    }
    const full = this.#size.problem;
    if (full !== null) return bad(full);
    try {
      const written = this.#written.parse(text);
      const nodes = nodesOf(written.ast);
      this.#size.nodes += nodes.length;
      const refused = nodes.map(callProblem).find((problem) => problem !== null) ?? this.#options.refuse?.(written.ast);
      if (refused !== undefined && refused !== null) return bad(refused);
      const { valid, type, error } = written.check();
      if (!valid) return bad(this.#problemOf(error, text));
      const badPattern = this.#patterns.add(nodes);
      if (badPattern !== null) return bad(badPattern);
      const run = this.#metered.parse(meteredSource(written.ast));
      const metered = run.check();
      if (!metered.valid) return bad(faultOf(metered.error));
      return { kind: "ok", run, type: type ?? "dyn", ast: written.ast };
    } catch (error) {
      return bad(this.#problemOf(error, text));
    }
  }

  #environment(scale: number): Environment {
    const { nodes, depth, elements } = EXPRESSION_LIMITS;
    const environment = new Environment({
      homogeneousAggregateLiterals: this.#options.isMixed !== true,
      limits: {
        maxAstNodes: nodes * scale,
        maxDepth: depth * scale,
        maxListElements: elements,
        maxMapEntries: elements,
        maxCallArguments: 8,
      },
    });
    this.#options.extend?.(environment);
    for (const [name, type] of Object.entries(this.#options.variables)) environment.registerVariable(name, type);
    return this.#patterns.register(environment, this.meter);
  }

  #problemOf(error: unknown, text: string): string {
    const { range, code } = error as { readonly range?: { readonly start: number }; readonly code?: string };
    const summary = faultOf(error);
    const known = Object.keys(this.#options.variables);
    const hint = code === "unknown_variable" ? suggestion(summary.split(": ")[1] ?? "", known) : "";
    const before = text.slice(0, range?.start ?? 0).split("\n");
    const line = before.length > 1 ? `line ${before.length}, ` : "";
    return `is invalid at ${line}column ${(before.at(-1)?.length ?? 0) + 1}: ${summary}${hint}`;
  }
}

/** The library's message as one short, lower-case line. */
export function faultOf(error: unknown): string {
  const { summary, message } = error as { readonly summary?: string; readonly message?: string };
  const text = (summary ?? message ?? String(error)).split("\n")[0] ?? "";
  return `${text.slice(0, 1).toLowerCase()}${text.slice(1, 200)}`;
}

function bad(problem: string): Compiled {
  return { kind: "bad", problem };
}
