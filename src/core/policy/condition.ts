/**
 * `when`: a CEL condition over the request.
 *
 * 1. Evaluation is bounded (see `expression/language.ts`): all conditions of one check share a budget.
 * 2. A condition yields true, false, or an error text. The rule decides what an error means.
 * 3. A condition that reads an omitted input always yields an error: `has(input.amount)` must not become false because
 *    the input is too large.
 */
import type { ParseResult } from "@marcbachmann/cel-js";
import type { StepBudget } from "../expression/budget.ts";
import { faultOf, Language } from "../expression/language.ts";
import { nodesOf } from "../expression/metered-source.ts";
import type { PolicyRequest } from "./decision.ts";
import { CallerFields, McpCall, RequestView } from "./request-view.ts";

/** For all conditions of one check: some milliseconds, a few tens at worst. */
const STEPS_MAX = 100_000;

/** True, false, or an error text. */
export type Outcome = boolean | string;

export interface Condition {
  readonly run: ParseResult;
  readonly readsInput: boolean;
  readonly readsCaller: boolean;
}

export type CompiledCondition =
  | { readonly kind: "ok"; readonly condition: Condition }
  | { readonly kind: "bad"; readonly problem: string };

/** The conditions of one policy. One check at a time: `open`, `ask`, `close`. */
export class Conditions {
  readonly #view = new RequestView();
  readonly #language = new Language({
    variables: VARIABLES,
    what: "the conditions",
    stepsMax: STEPS_MAX,
    whenTooLong: "split the rule in two",
    extend: (environment) => {
      environment.registerType("Mcp", {
        ctor: McpCall,
        fields: { server: "string", tool: "string", resource: "string", action: "string" },
      });
      environment.registerType("Caller", {
        ctor: CallerFields,
        fields: { key: "string", name: "string", role: "string", tenant: "string" },
      });
    },
  });
  readonly #meter = this.#language.meter;

  compile(text: string): CompiledCondition {
    return this.#compiled(text, ["bool"], "a boolean");
  }

  /** For `sum`. */
  compileNumber(text: string): CompiledCondition {
    return this.#compiled(text, ["double", "int", "uint"], "a number");
  }

  #compiled(text: string, types: readonly string[], what: string): CompiledCondition {
    const compiled = this.#language.compile(text);
    if (compiled.kind === "bad") return compiled;
    const { run, type, ast } = compiled;
    if (!types.includes(type) && type !== "dyn") {
      return { kind: "bad", problem: `has type \`${type}\`, but must be ${what}` };
    }
    const nodes = nodesOf(ast);
    const reads = (variable: string) => nodes.some(({ op, args }) => op === "id" && args === variable);
    return { kind: "ok", condition: { run, readsInput: reads("input"), readsCaller: reads("caller") } };
  }

  /** Runs `work` within the budget of a request that evaluates many checks. */
  within<T>(budget: StepBudget, work: () => T): T {
    return this.#meter.within(budget, work);
  }

  reset(): void {
    this.#meter.reset();
  }

  /** Since the last check began. */
  get steps(): number {
    return this.#meter.steps;
  }

  open(request: PolicyRequest): void {
    this.#meter.reset();
    this.#view.request = request;
  }

  close(): void {
    this.#view.request = null;
  }

  evaluate(condition: Condition): Outcome {
    return this.#answer(condition, (answer) =>
      typeof answer === "boolean" ? answer : "the condition is not a boolean",
    );
  }

  /** A number of at least 0, or an error text. */
  number(condition: Condition): number | string {
    return this.#answer(condition, (answer) => {
      const number = typeof answer === "bigint" ? Number(answer) : answer;
      return typeof number === "number" && number >= 0 && number < Number.POSITIVE_INFINITY
        ? number
        : "the value is not a number of at least 0";
    });
  }

  #answer<T>({ run, readsInput }: Condition, read: (answer: unknown) => T | string): T | string {
    if (readsInput && this.#view.request?.inputOmitted !== undefined) return INPUT_OMITTED;
    try {
      const answer: unknown = run(this.#view);
      return this.#meter.isOver ? this.#meter.fault : read(answer);
    } catch (error) {
      return this.#meter.isOver ? this.#meter.fault : faultOf(error);
    }
  }
}

/** Variables of conditions. Missing fields are empty strings, as on the wire. */
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
  caller: "Caller",
  input: "dyn",
} as const;

const INPUT_OMITTED = "the input is not available to the policy: it is too large or stored elsewhere";
