/** A compiled workflow: the immutable input of every decision about a run. */

import type { JobPriority } from "../../../protocol/packet.ts";
import type { StepBudget } from "../../expression/budget.ts";
import type { StepRetry } from "../../model/job-details.ts";
import type { WireError } from "../../retry/intent.ts";

export interface Plan {
  readonly id: string;
  readonly name: string | null;
  /** null: the default of the settings. */
  readonly timeoutMs: number | null;
  readonly inputSchema: Schema | null;
  /** The run's output; null: an object with the outputs of the steps without dependents. */
  readonly output: Template | null;
  /** Topological; otherwise as written. */
  readonly order: readonly string[];
  readonly steps: ReadonlyMap<string, PlanStep>;
  /** Runs `work`, which evaluates expressions and schemas of this plan, within the budget of a request. */
  within<T>(budget: StepBudget, work: () => T): T;
}

export interface PlanStep {
  readonly id: string;
  readonly act: Act;
  /** Declared, or implied by `on_error`, `branches`, a loop, `then`, `else`, `cases` and `default`. */
  readonly dependsOn: readonly string[];
  /** The inverse, in plan order. */
  readonly dependents: readonly string[];
  /** All earlier steps: the ones it may read. */
  readonly ancestors: ReadonlySet<string>;
  /** The `parallel` step it is a branch of; it starts with that step. */
  readonly branchOf: string | null;
  /** The `loop` step whose body it belongs to. */
  readonly loopOf: string | null;
  /** Steps whose `on_error` names this one: it runs only if one of them failed. */
  readonly handles: readonly string[];
  /** For each `condition` or `switch` step that names it: the arms of which one must have been chosen. */
  readonly arms: readonly { readonly stepId: string; readonly arms: readonly string[] }[];
  /** The step is skipped if false. Null on a `condition` step, which evaluates its own `condition`. */
  readonly condition: Expression | null;
  /** Its own, or the one of its `parallel` step, which then has none itself. */
  readonly forEach: ForEach | null;
  readonly onError: OnError;
  readonly timeoutMs: number | null;
  /** Path of its output in `context`, such as `["order", "id"]`. */
  readonly outputPath: readonly string[] | null;
  readonly inputSchema: Schema | null;
  readonly outputSchema: Schema | null;
  readonly input: Template | null;
  readonly retry: StepRetry | null;
  readonly meta: StepMeta;
  /** The job that undoes it if the run does not succeed. */
  readonly compensate: Compensate | null;
  /** Of its output, or of the output of each item. */
  readonly outputBytesMax: number | null;
}

export interface Compensate {
  readonly topic: string;
  /** May read `step`. */
  readonly input: Template;
  readonly timeoutMs: number | null;
  readonly retry: StepRetry | null;
  readonly meta: StepMeta;
}

export type Act =
  | { readonly type: "worker"; readonly topic: string }
  | { readonly type: "approval"; readonly reason: Template | null; readonly bySubmitter: boolean }
  | { readonly type: "condition"; readonly question: Expression }
  /** The value is compared as text. Arms are the cases and `default`. */
  | { readonly type: "switch"; readonly value: Expression; readonly cases: readonly string[] }
  /** Seconds, or an RFC 3339 time; either may be a template. */
  | { readonly type: "delay"; readonly forSec: Template | null; readonly until: Template | null }
  | { readonly type: "notify"; readonly message: Template; readonly level: "INFO" | "WARN" | "ERROR" }
  /** The output is the rendered input. */
  | { readonly type: "transform" }
  | { readonly type: "parallel"; readonly branches: readonly string[]; readonly need: number }
  | { readonly type: "subworkflow"; readonly workflowId: string; readonly version: number | null }
  /** `correlate`: only an event with this correlation key is taken. */
  | { readonly type: "wait"; readonly event: string; readonly correlate: Expression | null }
  | Loop;

/** Repeats the steps of its body. */
export interface Loop {
  readonly type: "loop";
  readonly body: readonly string[];
  /** Evaluated after each iteration; true ends the loop. */
  readonly until: Expression;
  readonly iterationsMax: number;
  /** The steps of the body that `previous` reads: only their outcomes are carried to the next iteration. */
  readonly carries: readonly string[];
}

export type ActType = Act["type"];

export interface ForEach {
  readonly items: Expression;
  readonly parallelMax: number;
  /**
   * More failures than `failuresMax` fail the step: at once and cancelling the rest (`fail_fast`), or at the end
   * (`wait_all`).
   */
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
  /** May mean any step with an `output_path`. */
  readonly context: boolean;
  /** In a `compensate`: fields of `step`. */
  readonly own: ReadonlySet<string>;
  /** Steps of the previous iteration. */
  readonly previous: ReadonlySet<string>;
  /** The number of the iteration. */
  readonly iteration: boolean;
}

export interface Expression {
  readonly refs: Refs;
  evaluate(scope: Scope): Evaluated;
  /** Cost of the last evaluation, in meter steps (see `expression/meter.ts`). */
  stepsOfLast?(): number;
}

/** JSON with `${…}` in its strings; a string that is a single `${…}` keeps the type of the value. */
export interface Template {
  readonly refs: Refs;
  render(scope: Scope): Evaluated;
  stepsOfLast?(): number;
  /** The size of the last rendered value, counted while it was rendered. */
  sizeOfLast?(): OutputSize;
}

/** About the length of the JSON text. */
export interface OutputSize {
  readonly bytes: number;
  /** The part that expressions with `item` or `index` made; the rest is the same for all items. */
  readonly itemBytes: number;
}

/** Plain JSON: no bigint, no undefined. */
export type Evaluated =
  | { readonly kind: "ok"; readonly value: unknown }
  | { readonly kind: "bad"; readonly problem: string };

/** Variables of expressions. Only those named by `refs` need to be present. */
export interface Scope {
  readonly input?: unknown;
  readonly steps?: Readonly<Record<string, StepView>>;
  readonly context?: unknown;
  readonly run: { readonly id: string; readonly workflow_id: string; readonly tenant: string };
  /** The item of a `for_each` child. */
  readonly item?: unknown;
  readonly index?: number;
  /** In a `compensate`: input and output of the step that is undone. */
  readonly step?: Readonly<Record<string, unknown>>;
  /** In the body of a loop and in its `until`. */
  readonly iteration?: number;
  readonly previous?: Readonly<Record<string, StepView>>;
}

export interface StepView {
  readonly state: string;
  readonly output: unknown;
  readonly error: Pick<WireError, "name" | "message"> | null;
}

export interface Schema {
  /** Problems with their paths, at most a few; empty if the value is valid. */
  problemsOf(value: unknown): readonly string[];
}
