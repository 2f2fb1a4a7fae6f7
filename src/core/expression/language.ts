/**
 * CEL with a meter: what conditions of policies and expressions of workflows are written in.
 *
 * 1. No expression and no input makes an evaluation run long. What is written is bounded when it is compiled; what is done
 *    is counted in steps. Going over is a fault, also where the language would forgive it (`over || true`).
 * 2. There is no `matches`: the library's is a JavaScript regular expression, and one of those hangs on 33 characters.
 * 3. An evaluation depends on its input alone: no time zones, no clock, no chance.
 */
import { type ASTNode, Environment, type ParseResult } from "@marcbachmann/cel-js";
import { suggestion } from "../model/suggestion.ts";
import { Meter } from "./meter.ts";
import { meteredSource, nodesOf } from "./metered-source.ts";
import { Patterns, refusalOf } from "./patterns.ts";

export const EXPRESSION_LIMITS = { length: 2_048, nodes: 256, depth: 24, elements: 256 } as const;

export interface LanguageOptions {
  /** What can be spoken of, with its type. */
  readonly variables: Readonly<Record<string, string>>;
  /** What a fault speaks of (`the conditions`), and how many steps there are between two resets of the meter. */
  readonly what: string;
  readonly stepsMax: number;
  /** What to do about an expression that is too long. */
  readonly whenTooLong: string;
  /** Further types and operations. */
  readonly extend?: (environment: Environment) => void;
  /** The values of a list or map may be of different types. */
  readonly isMixed?: boolean;
  /** Why an expression cannot be allowed here, if it cannot. */
  readonly refuse?: (ast: ASTNode) => string | null;
}

export type Compiled =
  | { readonly kind: "ok"; readonly run: ParseResult; readonly type: string; readonly ast: ASTNode }
  | { readonly kind: "bad"; readonly problem: string };

/** Its expressions share one meter: it is reset, they are evaluated, and their steps count together. */
export class Language {
  readonly meter: Meter;
  readonly #options: LanguageOptions;
  readonly #patterns = new Patterns();
  /** What people write is checked against the first; what runs is parsed by the second, which knows the meter too. */
  readonly #written: Environment;
  readonly #metered: Environment;

  /** Languages that are given the same meter count together. */
  constructor(options: LanguageOptions, meter: Meter = new Meter(options.what, options.stepsMax)) {
    this.#options = options;
    this.meter = meter;
    this.#written = this.#environment(1);
    this.#metered = this.meter.register(this.#environment(8));
  }

  compile(text: string): Compiled {
    if (text.length > EXPRESSION_LIMITS.length) {
      return bad(`is longer than ${EXPRESSION_LIMITS.length} characters; ${this.#options.whenTooLong}`);
    }
    try {
      const written = this.#written.parse(text);
      const nodes = nodesOf(written.ast);
      const refused = nodes.map(refusalOf).find((problem) => problem !== null) ?? this.#options.refuse?.(written.ast);
      if (refused !== undefined && refused !== null) return bad(refused);
      const { valid, type, error } = written.check();
      if (!valid) return bad(this.#problemOf(error, text));
      this.#patterns.add(nodes);
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
    return `cannot be read at ${line}column ${(before.at(-1)?.length ?? 0) + 1}: ${summary}${hint}`;
  }
}

/** The library's messages in our voice: one line, lower case, of a sensible length. */
export function faultOf(error: unknown): string {
  const { summary, message } = error as { readonly summary?: string; readonly message?: string };
  const text = (summary ?? message ?? String(error)).split("\n")[0] ?? "";
  return `${text.slice(0, 1).toLowerCase()}${text.slice(1, 200)}`;
}

function bad(problem: string): Compiled {
  return { kind: "bad", problem };
}
