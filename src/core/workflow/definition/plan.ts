/**
 * A workflow, checked and compiled: what every decision about a run is made from. It is made by `compile.ts` from the
 * document as it was written, and never changes.
 */

import type { JobPriority } from "../../../protocol/packet.ts";
import type { StepRetry } from "../../model/job.ts";
import type { WireError } from "../../retry/intent.ts";

export interface Plan {
  readonly id: string;
  readonly name: string | null;
  /** null: the default of the settings. */
  readonly timeoutMs: number | null;
  readonly inputSchema: Schema | null;
  /** What the run answers; null: an object of the outputs of the steps that nothing depends on. */
  readonly output: Template | null;
  /** Each after everything that it depends on; else as written. */
  readonly order: readonly string[];
  readonly steps: ReadonlyMap<string, PlanStep>;
}

export interface PlanStep {
  readonly id: string;
  readonly act: Act;
  /** As written, and what follows from `on_error`, `branches`, `then`, `else`, `cases` and `default`. */
  readonly dependsOn: readonly string[];
  /** The other way round, in the order of the plan. */
  readonly dependents: readonly string[];
  /** All steps before it: those it may read. */
  readonly ancestors: ReadonlySet<string>;
  /** The `parallel` step that it is a branch of: it starts when that one does. */
  readonly branchOf: string | null;
  /** The steps whose `on_error` names this one: it runs only if one of them failed. */
  readonly handles: readonly string[];
  /** For each `condition` or `switch` step that names it: the arms of which one must have been chosen. */
  readonly arms: readonly { readonly stepId: string; readonly arms: readonly string[] }[];
  /** Skipped when this is false. Null on a `condition` step, whose `condition` is its question. */
  readonly condition: Expression | null;
  /** Its own, or that of the `parallel` step that it is a branch of, which has none itself then. */
  readonly forEach: ForEach | null;
  readonly onError: OnError;
  readonly timeoutMs: number | null;
  /** Where in `context` its output stands, such as `["order", "id"]`. */
  readonly outputPath: readonly string[] | null;
  readonly inputSchema: Schema | null;
  readonly outputSchema: Schema | null;
  readonly input: Template | null;
  readonly retry: StepRetry | null;
  readonly meta: StepMeta;
}

/** What a step does. */
export type Act =
  | { readonly type: "worker"; readonly topic: string }
  | { readonly type: "approval"; readonly reason: Template | null; readonly bySubmitter: boolean }
  | { readonly type: "condition"; readonly question: Expression }
  /** Arms are the texts of the cases, and `default`. The value is compared as text. */
  | { readonly type: "switch"; readonly value: Expression; readonly cases: readonly string[] }
  /** Seconds, or a time in RFC 3339; either may be a template. */
  | { readonly type: "delay"; readonly forSec: Template | null; readonly until: Template | null }
  | { readonly type: "notify"; readonly message: Template; readonly level: "INFO" | "WARN" | "ERROR" }
  /** Its output is its input, rendered. */
  | { readonly type: "transform" }
  | { readonly type: "parallel"; readonly branches: readonly string[]; readonly need: number }
  | { readonly type: "subworkflow"; readonly workflowId: string; readonly version: number | null };

export type ActType = Act["type"];

export interface ForEach {
  readonly items: Expression;
  readonly parallelMax: number;
  /** More failures than this fail the step. `fail_fast`: at once, and the rest is stopped; `wait_all`: when all are done. */
  readonly mode: "fail_fast" | "wait_all";
  readonly failuresMax: number;
}

export type OnError =
  | { readonly kind: "fail" }
  | { readonly kind: "continue" }
  | { readonly kind: "step"; readonly stepId: string };

export interface StepMeta {
  readonly priority: JobPriority | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly riskTags: readonly string[];
  readonly requires: readonly string[];
  readonly capability: string | null;
  readonly actorId: string | null;
  readonly actorType: "human" | "service" | null;
  readonly packId: string | null;
}

/** What an expression or template reads. */
export interface Refs {
  readonly steps: ReadonlySet<string>;
  readonly input: boolean;
  /** Any step with an `output_path` may be meant. */
  readonly context: boolean;
}

export interface Expression {
  readonly refs: Refs;
  evaluate(scope: Scope): Evaluated;
  /** How long the last evaluation took, in steps (see `expression/meter.ts`). */
  stepsOfLast?(): number;
}

/** JSON with `${…}` in its texts; a text that is one `${…}` alone keeps the type of what it says. */
export interface Template {
  readonly refs: Refs;
  render(scope: Scope): Evaluated;
  /** As of an expression. */
  stepsOfLast?(): number;
}

/** Plain JSON: numbers are numbers, nothing is undefined. */
export type Evaluated =
  | { readonly kind: "ok"; readonly value: unknown }
  | { readonly kind: "bad"; readonly problem: string };

/** What expressions can speak of. Only what `refs` names need be there. */
export interface Scope {
  readonly input?: unknown;
  readonly steps?: Readonly<Record<string, StepView>>;
  readonly context?: unknown;
  readonly run: { readonly id: string; readonly workflow_id: string; readonly tenant: string };
  /** Of a `for_each`: the child's own. */
  readonly item?: unknown;
  readonly index?: number;
}

export interface StepView {
  readonly state: string;
  readonly output: unknown;
  readonly error: Pick<WireError, "name" | "message"> | null;
}

export interface Schema {
  /** What is wrong with a value, each with its place; empty when nothing is. At most a few are told. */
  problemsOf(value: unknown): readonly string[];
}
