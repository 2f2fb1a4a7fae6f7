/**
 * `when`: a CEL condition over the request.
 *
 * 1. Evaluation is bounded (see `expression/language.ts`): all conditions of one check share a budget.
 * 2. A condition yields true, false, or an error text. The rule decides what an error means.
 * 3. A condition that reads an omitted input always yields an error: `has(input.amount)` must not become false because
 *    the input is too large.
 * 4. `now` is part of the request: the same request gives the same outcome.
 */
import type { ParseResult } from "@marcbachmann/cel-js";
import type { StepBudget } from "../expression/budget.ts";
import { faultOf, Language, type LanguageOptions } from "../expression/language.ts";
import { Meter } from "../expression/meter.ts";
import { nodesOf } from "../expression/metered-source.ts";
import { BusinessHours } from "./business-hours.ts";
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
  readonly readsNow: boolean;
}

export type CompiledCondition =
  | { readonly kind: "ok"; readonly condition: Condition }
  | { readonly kind: "bad"; readonly problem: string };

/** The conditions of one policy. One check at a time: `open`, `ask`, `close`. */
export class Conditions {
  readonly #view = new RequestView();
  readonly #meter: Meter;
  readonly #hours = new BusinessHours();
  readonly #language: Language;
  #isTimed = false;

  constructor(stepsMax: number = STEPS_MAX) {
    const meter = new Meter("the conditions", stepsMax);
    this.#meter = meter;
    const options: LanguageOptions = {
      variables: VARIABLES,
      what: "the conditions",
      stepsMax,
      whenTooLong: "split the rule in two",
      refuse: (ast) => this.#hours.add(nodesOf(ast)),
      extend: (environment) => {
        environment.registerType("Mcp", {
          ctor: McpCall,
          fields: { server: "string", tool: "string", resource: "string", action: "string" },
        });
        environment.registerType("Caller", {
          ctor: CallerFields,
          fields: { key: "string", name: "string", role: "string", tenant: "string" },
        });
        this.#hours.register(environment, meter);
      },
    };
    this.#language = new Language(options, meter);
  }

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
    const condition = { run, readsInput: reads("input"), readsCaller: reads("caller"), readsNow: reads("now") };
    return { kind: "ok", condition };
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

  /** Whether a condition that reads `now` was evaluated since `open`. */
  get isTimed(): boolean {
    return this.#isTimed;
  }

  open(request: PolicyRequest): void {
    this.#meter.reset();
    this.#view.request = request;
    this.#isTimed = false;
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

  #answer<T>({ run, readsInput, readsNow }: Condition, read: (answer: unknown) => T | string): T | string {
    if (readsInput && this.#view.request?.inputOmitted !== undefined) return INPUT_OMITTED;
    if (readsNow) {
      if (this.#view.request?.nowMs === undefined) return TIME_UNKNOWN;
      this.#isTimed = true;
    }
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
  now: "google.protobuf.Timestamp",
  input: "dyn",
} as const;

const INPUT_OMITTED = "the input is not available to the policy: it is too large or stored elsewhere";
const TIME_UNKNOWN = "the time of the evaluation is not known";
