import type { JobPriority } from "../../../protocol/packet.ts";
import { outOfRange } from "../../jobs/submission.ts";
import type { Caller } from "../../model/caller.ts";
import { nonFiniteIn } from "../../model/canonical.ts";
import type { Payload } from "../../model/job.ts";
import {
  isStepFailure,
  type Run,
  type RunSchedule,
  type StepOutput,
  type StepRun,
  type TimelineLine,
} from "../../model/run.ts";
import type { Writable } from "../../model/table.ts";
import type { Plan } from "../definition/plan.ts";
import { bytesOf } from "./run-draft.ts";

export interface RunRequest {
  readonly runId: string;
  readonly org: string;
  readonly version: number;
  readonly traceId: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly priority: JobPriority | null;
  readonly submittedBy: string | null;
  readonly caller?: Caller | undefined;
  readonly actorId: string | null;
  readonly traceparent: string | null;
  readonly parent: Run["parent"] | null;
  readonly schedule?: RunSchedule | undefined;
}

/** Why the input of a run is refused; empty if it is accepted. */
export function inputProblems(plan: Plan, input: unknown): readonly string[] {
  const badNumber = nonFiniteIn(input, "input");
  return badNumber === null ? (plan.inputSchema?.problemsOf(input) ?? []) : [outOfRange(badNumber)];
}

/** A run before its first step; `advance` with a `time` event starts it. */
export function openRun(
  plan: Plan,
  order: RunRequest,
  input: Payload,
  context: { readonly nowMs: number; readonly deadlineMs: number },
): Run {
  const { nowMs } = context;
  const { submittedBy, caller, traceparent, parent, priority } = order;
  const actorId = caller?.actorId ?? order.actorId;
  const deadlineMs = nowMs + (plan.timeoutMs ?? context.deadlineMs);
  const begun: TimelineLine = {
    ...{ seq: 0, atMs: nowMs, event: "run_started" },
    ...(order.schedule && { why: startedBy(order.schedule) }),
  };
  const run: Writable<Run> = {
    id: order.runId,
    org: order.org,
    workflowId: plan.id,
    version: order.version,
    state: "RUNNING",
    createdMs: nowMs,
    updatedMs: nowMs,
    deadlineMs,
    dueMs: deadlineMs,
    traceId: order.traceId,
    input,
    output: null,
    error: null,
    steps: {},
    lines: [submittedBy === null ? begun : { ...begun, who: submittedBy }],
    lineCount: 1,
    inlineBytes: inlineBytesOf(input),
    labels: order.labels,
    lock: null,
  };
  if (submittedBy !== null) run.submittedBy = submittedBy;
  if (caller !== undefined) run.caller = caller;
  if (actorId !== null) run.actorId = actorId;
  if (traceparent !== null) run.traceparent = traceparent;
  if (priority !== null) run.priority = priority;
  if (parent) run.parent = parent;
  if (order.schedule) run.schedule = order.schedule;
  return run;
}

const startedBy = ({ id, slotMs }: RunSchedule): string =>
  `schedule \`${id}\`, ${slotMs === undefined ? "triggered" : `slot ${new Date(slotMs).toISOString()}`}`;

export const inlineBytesOf = (payload: Payload): number =>
  payload.kind === "inline" ? bytesOf(JSON.stringify(payload.value ?? null)) : 0;

/**
 * The steps to repeat in a rerun: `fromStep` and everything after it. A `parallel` step is repeated with all its
 * branches, a loop from its first iteration.
 */
export function stepsAfter(plan: Plan, fromStep: string): ReadonlySet<string> {
  const after = new Set([fromStep]);
  for (let size = 0; size !== after.size; ) {
    size = after.size;
    for (const id of plan.order) {
      const step = plan.steps.get(id);
      if (step?.dependsOn.some((before) => after.has(before))) after.add(id);
      if (step && step.branchOf !== null && after.has(id)) after.add(step.branchOf);
      if (step && step.loopOf !== null && after.has(id)) after.add(step.loopOf);
    }
  }
  return after;
}

export interface RerunScope {
  /** Repeated steps: those that the caller chose, and those that the earlier run has undone, with all that follow. */
  readonly again: ReadonlySet<string>;
  /** Steps before them that ask a person again; the results between both are kept. */
  readonly asks: readonly string[];
}

/**
 * The steps that a rerun executes. An approval is valid for the run it was given in: an approval before a repeated step
 * is asked for again (L62). A branch and a step of a loop are not repeated alone, but with the `parallel` step or loop. `asking`: the
 * steps that ask a person, empty if the earlier approvals are kept.
 */
export function rerunScope(plan: Plan, before: Run, fromStep: string, asking: ReadonlySet<string>): RerunScope {
  const again = new Set([fromStep, ...undoneSteps(before)].flatMap((id) => [...stepsAfter(plan, id)]));
  const precedes = (id: string, within: string | null) =>
    [...again].some((later) => {
      const ancestors = plan.steps.get(later)?.ancestors;
      return ancestors?.has(id) || (within !== null && ancestors?.has(within));
    });
  const asks = new Set<string>();
  for (let size = -1; size !== again.size + asks.size; ) {
    size = again.size + asks.size;
    for (const id of plan.order) {
      const { branchOf = null, loopOf = null } = plan.steps.get(id) ?? {};
      const within = loopOf ?? branchOf;
      if (!asking.has(id) || again.has(id) || before.steps[id]?.state !== "SUCCEEDED") continue;
      if (!precedes(id, within)) continue;
      if (within === null) asks.add(id);
      else for (const later of stepsAfter(plan, id)) again.add(later);
    }
  }
  return { again, asks: [...asks].filter((id) => !again.has(id)) };
}

const undoneSteps = ({ steps }: Run): readonly string[] =>
  Object.keys(steps).filter((id) => steps[id]?.compensation?.state === "SUCCEEDED");

/**
 * Why the run cannot be rerun from the step: the compensation of an earlier one failed, so that its result can neither be
 * kept nor made again.
 */
export function halfUndone(plan: Plan, { steps }: Run, fromStep: string): string | null {
  const again = stepsAfter(plan, fromStep);
  const failed = plan.order.filter((id) => !again.has(id) && steps[id]?.compensation?.state === "FAILED");
  if (failed.length === 0) return null;
  const names = failed.map((id) => `\`${id}\``).join(", ");
  return `the compensation of ${names} failed: redrive its dead letter, or rerun from \`${failed[0]}\``;
}

/**
 * Whether a rerun keeps the step's outcome: the earlier run continued with it. A failed branch is counted by its
 * `parallel` step and is kept or repeated with it; a step of a loop is kept only with its loop.
 */
function isKept(plan: Plan, id: string, steps: Run["steps"]): boolean {
  const state = steps[id]?.state ?? "PENDING";
  const step = plan.steps.get(id);
  if (step && step.loopOf !== null && !isKept(plan, step.loopOf, steps)) return false;
  if (state === "SUCCEEDED" || state === "SKIPPED") return true;
  if (!step || !isStepFailure(state)) return false;
  return step.branchOf === null ? step.onError.kind !== "fail" : isKept(plan, step.branchOf, steps);
}

/** Copies the steps of the earlier run that are not repeated, with their outputs. */
export function keepSteps(
  plan: Plan,
  run: Run,
  before: Run,
  fromStep: string,
  { again, asks }: RerunScope,
  outputOf: (stepId: string, output: StepOutput) => Payload,
): Run {
  const steps: Record<string, StepRun> = {};
  const lines: TimelineLine[] = [...run.lines];
  let { inlineBytes } = run;
  for (const id of plan.order) {
    const step = before.steps[id];
    if (!step || again.has(id) || asks.includes(id) || !isKept(plan, id, before.steps)) continue;
    const { fan: _, jobId: __, dueMs: ___, awaits: ____, compensation: _____, loop, output: earlier, ...kept } = step;
    const output = earlier && outputOf(id, earlier);
    const seq = run.lineCount + lines.length - run.lines.length;
    steps[id] = { ...kept, ...(output === undefined ? {} : { output }), line: seq };
    if (loop) steps[id] = { ...steps[id], loop: { iteration: loop.iteration, iterationsMax: loop.iterationsMax } };
    if (output) inlineBytes += inlineBytesOf(output);
    lines.push({ seq, atMs: run.createdMs, event: "step_kept", stepId: id, why: `from run ${before.id}`, cause: 0 });
  }
  const lineCount = run.lineCount + lines.length - run.lines.length;
  const rerunOf = { runId: before.id, fromStep, ...(asks.length === 0 ? {} : { asks }) };
  return { ...run, steps, lines, lineCount, inlineBytes, rerunOf };
}
