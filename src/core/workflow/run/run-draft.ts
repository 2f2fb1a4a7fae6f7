import type { Payload } from "../../model/job.ts";
import type { StepRef, StepRetry } from "../../model/job-details.ts";
import { payloadKey, sha256Of } from "../../model/payload.ts";
import {
  copyRun,
  isRunFinal,
  LINES_MAX,
  type LoopRun,
  RUN_VALUE_BYTES_MAX,
  type Run,
  type RunEnd,
  type StepOutcome,
  type StepRun,
  type StepState,
  type TimelineEvent,
  type TimelineLine,
} from "../../model/run.ts";
import type { Writable } from "../../model/table.ts";
import type { WireError } from "../../retry/intent.ts";
import type { Plan, PlanStep, Refs, Scope, StepMeta, StepView } from "../definition/plan.ts";
import { type ChildResult, setLazily, TooMuch, Unreadable, type Values } from "./values.ts";
import type { EventAnswer } from "./wait.ts";

/** Working copy of a run during one call of `advance`, with the effects collected so far. */
export class Draft {
  readonly plan: Plan;
  readonly nowMs: number;
  readonly limits: Limits;
  readonly #values: Values;
  #run: Writable<Run>;
  readonly #steps: Record<string, StepRun>;
  readonly #lines: TimelineLine[];
  // Kept separately and written once at the end: assigning run fields is slow.
  #lineCount: number;
  #inlineBytes: number;
  #bytes: number;
  readonly starts: Start[] = [];
  readonly stops: Stop[] = [];
  readonly notifications: Notification[] = [];
  readonly blobs: Blob[] = [];
  /** Loops that started an iteration in this decision. */
  readonly iterated = new Set<string>();
  /** By the `received` event. */
  readonly answers = new Map<object, EventAnswer>();
  /** More work is left that did not fit into this commit. */
  hasMore = false;
  /** Children that failed before they got a job; they count towards `startsMax`. */
  failedStarts = 0;

  constructor(plan: Plan, run: Run, values: Values, nowMs: number, limits: Limits) {
    this.plan = plan;
    this.nowMs = nowMs;
    this.limits = limits;
    this.#values = values;
    values.begin();
    this.#run = copyRun(run);
    this.#steps = { ...run.steps };
    this.#lines = [...run.lines];
    this.#lineCount = run.lineCount;
    this.#inlineBytes = run.inlineBytes;
    this.#bytes = run.bytes ?? 0;
  }

  get run(): Run {
    return this.#run;
  }

  set(facts: Partial<Run>): void {
    Object.assign(this.#run, facts);
  }

  end(state: RunEnd, error: WireError | null): void {
    if (this.#run.endsAs !== undefined) {
      const { endsAs: _, ...rest } = this.#run;
      this.#run = rest;
    }
    this.#run.state = state;
    this.#run.error = error;
    if (this.#run.parent) this.#run.isParentTold = false;
  }

  get steps(): Readonly<Record<string, StepRun>> {
    return this.#steps;
  }

  step(id: string): StepRun | undefined {
    return this.#steps[id];
  }

  stateOf(id: string): StepState {
    return this.#steps[id]?.state ?? "PENDING";
  }

  setStep(id: string, step: StepRun): void {
    this.#steps[id] = step;
  }

  /** The iteration of the loop that the step is in; undefined outside of loops. */
  iterationOf({ loopOf }: PlanStep): number | undefined {
    return loopOf === null ? undefined : this.#steps[loopOf]?.loop?.iteration;
  }

  /** Forgets the iteration that has ended, except for the outcomes that the next one reads. */
  reset(body: readonly string[], old: LoopRun["previous"], kept: LoopRun["previous"] = {}): void {
    for (const { output } of Object.values(old ?? {})) this.#release(output);
    for (const id of body) {
      const { output, fan } = this.#steps[id] ?? {};
      this.#release(fan?.items);
      if (kept[id] === undefined) this.#release(output);
      delete this.#steps[id];
    }
  }

  #release(payload: StepRun["output"]): void {
    if (payload?.kind === "inline") this.#inlineBytes -= bytesOf(JSON.stringify(payload.value ?? null));
  }

  /** Appends a timeline line and returns its number. */
  addLine(event: TimelineEvent, { stepId, index, jobId, who, why, cause }: LineFacts = {}): number {
    const seq = this.#lineCount;
    const { nowMs: atMs } = this;
    // Most lines name a step; the literal avoids a shape change.
    const line: Writable<TimelineLine> = stepId === undefined ? { seq, atMs, event } : { seq, atMs, event, stepId };
    if (index !== undefined) line.index = index;
    if (jobId !== undefined) line.jobId = jobId;
    if (who !== undefined) line.who = who;
    if (why !== undefined) line.why = why.length > WHY_LENGTH_MAX ? why.slice(0, WHY_LENGTH_MAX) : why;
    if (cause !== undefined) line.cause = cause;
    this.#lines.push(line);
    this.#lineCount += 1;
    return seq;
  }

  /** False once the read limit of this decision is reached; the rest is left to the next commit. */
  canRead(): boolean {
    if (this.#values.isFull) this.hasMore = true;
    return !this.#values.isFull;
  }

  valueOf(payload: NonNullable<StepRun["output"]>, stepId: string): Readable<unknown> {
    return this.#read("the value", () => this.#values.of(payload, stepId));
  }

  /** The output of a child of a list; null if it did not succeed. */
  childOf(stepId: string, index: number): ChildResult | null {
    return this.#values.childOf(stepId, index);
  }

  /** Outputs by step id. */
  outputsOf(ids: readonly string[], what: string): Readable<Record<string, unknown>> {
    return this.#read(what, () => Object.fromEntries(ids.map((id) => [id, this.#outputOf(id)] as const)));
  }

  #read<T>(what: string, read: () => T): Readable<T> {
    this.#values.nextExpression();
    try {
      return { kind: "ok", value: read() };
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      return { kind: "bad", error: error instanceof TooMuch ? tooLarge(what) : fault(error.name, error.message) };
    }
  }

  /** Stores a value: inline if it is small and there is room, else in the blob store. Null if it is too large. */
  store(value: unknown): Payload | null {
    const text = JSON.stringify(value ?? null);
    const bytes = bytesOf(text);
    const inlineBytes = this.#inlineBytes + bytes;
    if (bytes <= RUN_VALUE_BYTES_MAX && inlineBytes <= this.limits.inlineBytesMax) {
      this.#inlineBytes = inlineBytes;
      return { kind: "inline", value: value ?? null };
    }
    if (bytes > this.limits.blobBytesMax) return null;
    const sha256 = sha256Of(text);
    const ptr = payloadKey({ org: this.#run.org, kind: "run", id: this.#run.id }, sha256);
    this.blobs.push({ ptr, text });
    this.#bytes += bytes;
    // The blob is written after the decision; readers within it find the value here.
    this.#values.addBlob(ptr, { value: value ?? null, bytes });
    return { kind: "pointer", ptr, bytes, sha256 };
  }

  /** Pointers are kept as they are. */
  storePayload(payload: Payload | null): Payload {
    if (payload?.kind === "pointer") return payload;
    // A job's inline output is below the limit.
    return this.store(payload?.value ?? null) ?? { kind: "inline", value: null };
  }

  /** The variables of an expression, limited to what it references, so that nothing else is loaded. */
  scope(step: PlanStep | null, refs: Refs, child: { item: unknown; index: number } | null = null): Scope {
    const { id, workflowId, org, input } = this.#run;
    this.#values.nextExpression();
    const steps: Record<string, StepView> = {};
    for (const stepId of refs.steps) steps[stepId] = this.#viewOf(stepId);
    const scope: Writable<Scope> = { run: { id, workflow_id: workflowId, tenant: org } };
    if (refs.input) setLazily(scope, "input", () => this.#values.of(input, ""));
    if (refs.steps.size > 0) scope.steps = steps;
    if (refs.context) scope.context = this.#context(step);
    if (step && (refs.iteration || refs.previous.size > 0)) this.#addLoop(scope, step, refs);
    if (child) {
      scope.item = child.item;
      scope.index = child.index;
    }
    return scope;
  }

  #addLoop(scope: Writable<Scope>, { id, loopOf }: PlanStep, refs: Refs): void {
    const { iteration = 0, previous = {} } = this.#steps[loopOf ?? id]?.loop ?? {};
    scope.iteration = iteration;
    const views: Record<string, StepView> = {};
    for (const stepId of refs.previous) views[stepId] = this.#viewOf(stepId, previous[stepId]);
    scope.previous = views;
  }

  #viewOf(stepId: string, step: StepOutcome | undefined = this.#steps[stepId]): StepView {
    const { name = "Error", message = "" } = step?.error ?? {};
    const view = {
      state: step?.state ?? ("PENDING" as const),
      output: null,
      error: step?.error ? { name, message } : null,
    };
    setLazily(view, "output", () => this.#outputOf(stepId, step));
    return view;
  }

  #outputOf(stepId: string, { output }: Partial<StepOutcome> = this.#steps[stepId] ?? {}): unknown {
    return output === undefined ? null : this.#values.of(output, stepId);
  }

  #context(step: PlanStep | null): unknown {
    const context: Record<string, unknown> = {};
    for (const id of this.plan.order) {
      const { outputPath } = this.plan.steps.get(id) ?? {};
      if (!outputPath || (step !== null && !step.ancestors.has(id))) continue;
      if (this.#steps[id]?.output !== undefined) putAt(context, outputPath, () => this.#outputOf(id));
    }
    return context;
  }

  /** The run to write, and the lines moved to a page. */
  finish(): { readonly run: Run; readonly page: readonly TimelineLine[] | null } {
    const isTooLong = this.#lines.length > LINES_MAX;
    const page = isTooLong ? this.#lines.slice(0, this.#lines.length - LINES_MAX / 2) : null;
    const lines = page ? this.#lines.slice(page.length) : this.#lines;
    const run = this.#run;
    run.steps = inOrder(this.plan, this.#steps);
    run.lines = lines;
    run.lineCount = this.#lineCount;
    run.inlineBytes = this.#inlineBytes;
    if (this.#bytes > 0) run.bytes = this.#bytes;
    run.updatedMs = this.nowMs;
    run.dueMs = this.#dueMs();
    return { run, page };
  }

  #dueMs(): number {
    const { state, deadlineMs, parent } = this.#run;
    // The process that ends a run notifies its parent; the sweeper does so if that process crashes.
    if (isRunFinal(state)) return parent ? this.nowMs + TAKEOVER_MS : this.nowMs + this.limits.keptMs;
    const leftMs = this.nowMs + TAKEOVER_MS;
    if (state === "ENDING") return this.hasMore ? leftMs : Math.max(deadlineMs, leftMs);
    // Late results do not postpone a deadline that has passed.
    const dueMs = Math.min(deadlineMs, this.#stepsDueMs());
    return this.hasMore ? Math.min(dueMs, leftMs) : dueMs;
  }

  /** The earliest deadline of running steps that no job enforces. */
  #stepsDueMs(): number {
    let firstMs = Number.POSITIVE_INFINITY;
    for (const id in this.#steps) {
      const { state, fan, dueMs = fan?.dueMs } = this.#steps[id] ?? {};
      if (state === "RUNNING" && dueMs !== undefined && fan?.endsAs === undefined) firstMs = Math.min(firstMs, dueMs);
    }
    return firstMs;
  }
}

export type Readable<T> =
  | { readonly kind: "ok"; readonly value: T }
  | { readonly kind: "bad"; readonly error: WireError };

export type LineFacts = {
  readonly [K in Exclude<keyof TimelineLine, "seq" | "atMs" | "event">]?: TimelineLine[K] | undefined;
};

export interface Limits {
  readonly inlineBytesMax: number;
  readonly blobBytesMax: number;
  /** The output of a step without `max_output_bytes`. */
  readonly outputBytesMax: number;
  /** Inputs of all children of one step. */
  readonly listInputBytesMax: number;
  /** Children of `for_each` steps that this commit may still create. */
  readonly startsMax: number;
  /** Retention of ended runs. */
  readonly keptMs: number;
}

export const tooLarge = (what: string): WireError =>
  fault("TooLarge", `${what} exceeds the size limit; pass large values by pointer`);

export const fault = (name: string, message: string): WireError => ({
  name,
  message: message.slice(0, WHY_LENGTH_MAX),
});

/** UTF-8 size. ASCII text is not encoded to be measured. */
export const bytesOf = (text: string): number => (PLAIN.test(text) ? text.length : ENCODER.encode(text).length);
const PLAIN = /^[\x20-\x7e]*$/;
const ENCODER = new TextEncoder();

function putAt(target: Record<string, unknown>, path: readonly string[], read: () => unknown): void {
  let at = target;
  for (const key of path.slice(0, -1)) {
    const next = at[key];
    if (typeof next === "object" && next !== null) at = next as Record<string, unknown>;
    else {
      const made: Record<string, unknown> = {};
      at[key] = made;
      at = made;
    }
  }
  const last = path.at(-1);
  if (last !== undefined) setLazily(at, last, read);
}

function inOrder(plan: Plan, steps: Readonly<Record<string, StepRun>>): Record<string, StepRun> {
  const ordered: Record<string, StepRun> = {};
  for (const id of plan.order) {
    const step = steps[id];
    if (step) ordered[id] = step;
  }
  return ordered;
}

const WHY_LENGTH_MAX = 1_000;
/** When the sweeper takes over work that the writing process left. */
const TAKEOVER_MS = 5_000;

/** A job to create. */
export interface Start {
  readonly stepId: string;
  readonly index: number | null;
  /** Of the loop that the step is in. */
  readonly iteration?: number;
  readonly kind: StepRef["kind"];
  readonly isCompensation?: true;
  /** The worker topic, or a reserved one for steps that are not sent. */
  readonly topic: string;
  readonly input: unknown;
  readonly meta: StepMeta;
  readonly retry: StepRetry | null;
  readonly timeoutMs: number | null;
  readonly outputBytesMax?: number;
  /** `delay`. */
  readonly untilMs?: number;
  /** `approval`. */
  readonly reason?: string;
  readonly bySubmitter?: boolean;
  /** `subworkflow`. */
  readonly workflowId?: string;
  readonly version?: number;
}

/** A job, or all open children of a step, to cancel. */
export type Stop =
  | { readonly kind: "job"; readonly stepId: string; readonly jobId: string; readonly why: string }
  | { readonly kind: "children"; readonly stepId: string; readonly iteration?: number; readonly why: string };

/** The message of a `notify` step. */
export interface Notification {
  readonly stepId: string;
  readonly level: "INFO" | "WARN" | "ERROR";
  readonly message: string;
}

/** To be written to the blob store before the commit. */
export interface Blob {
  readonly ptr: string;
  readonly text: string;
}
