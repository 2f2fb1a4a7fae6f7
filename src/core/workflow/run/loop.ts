import { isStepSettled, type LoopRun, type StepOutcome, type StepRun } from "../../model/run.ts";
import type { Loop, PlanStep } from "../definition/plan.ts";
import { lastSteps } from "./conclude.ts";
import { type Draft, fault, tooLarge } from "./run-draft.ts";
import { endLoop, settleStep } from "./settle.ts";
import { outputFault } from "./start-step.ts";

/**
 * A `loop` step repeats the steps of its body, which are steps of the run.
 *
 * 1. The run keeps the states of the current iteration, and of the previous one what expressions read. Their number does not
 *    grow with the iterations; the jobs of earlier iterations have ids and lists of their own.
 * 2. An iteration ends when all steps of the body have settled. Then `until` decides about the next one.
 * 3. A step of the body that fails without error handling fails the loop, not the run.
 * 4. The loop ends after `iterationsMax` iterations and at its deadline. Results are applied before the deadline.
 * 5. One decision starts at most one iteration, so that a body without jobs does not block other runs.
 */
export function startLoop(draft: Draft, step: PlanStep, { iterationsMax }: Loop, cause: number | undefined): void {
  draft.addLine("step_started", { stepId: step.id, cause });
  const due = step.timeoutMs === null ? {} : { dueMs: draft.nowMs + step.timeoutMs };
  const base: StepRun = { state: "RUNNING", startedMs: draft.nowMs, ...due };
  startIteration(draft, step, base, { iteration: 1, iterationsMax });
}

/** Ends the iteration, and the loop if it was the last one. */
export function settleLoop(draft: Draft, step: PlanStep, act: Loop): void {
  const before = draft.step(step.id);
  if (!before?.loop || before.state !== "RUNNING") return;
  if (!act.body.every((id) => isStepSettled(draft.stateOf(id)))) return;
  const answer = act.until.evaluate(draft.scope(step, act.until.refs));
  const { iteration } = before.loop;
  if (answer.kind === "bad") {
    endLoop(draft, step, "FAILED", fault("ExpressionFailed", `\`until\`: ${answer.problem}`));
  } else if (answer.value === true) succeed(draft, step);
  else if (iteration >= act.iterationsMax) {
    const message = `\`until\` is false after ${iteration} iterations, the limit of the loop`;
    endLoop(draft, step, "FAILED", fault("LoopExhausted", message));
  } else if (isExpired(draft, before)) return;
  else if (draft.iterated.has(step.id)) draft.hasMore = true;
  else {
    const previous = previousOf(draft, act);
    draft.reset(act.body, before.loop.previous, previous);
    const next: LoopRun = { ...before.loop, iteration: iteration + 1 };
    startIteration(draft, step, before, previous === undefined ? next : { ...next, previous });
  }
}

/** Ends the step as TIMEOUT at its deadline. */
export function expireLoop(draft: Draft, step: PlanStep, act: Loop): void {
  const before = draft.step(step.id);
  if (!before?.loop || before.state !== "RUNNING" || !isExpired(draft, before)) return;
  settleLoop(draft, step, act);
  if (draft.stateOf(step.id) !== "RUNNING") return;
  const done = before.loop.iteration - (act.body.every((id) => isStepSettled(draft.stateOf(id))) ? 0 : 1);
  const message = `${done} of at most ${act.iterationsMax} iterations completed before the deadline`;
  endLoop(draft, step, "TIMEOUT", fault("DeadlineExceeded", message));
}

function startIteration(draft: Draft, step: PlanStep, before: StepRun, loop: LoopRun): void {
  const why = `iteration ${loop.iteration} of at most ${loop.iterationsMax}`;
  const line = draft.addLine("iteration_started", { stepId: step.id, why, cause: before.line });
  draft.iterated.add(step.id);
  draft.setStep(step.id, { ...before, line, loop });
}

/** The outputs of the last steps of the last iteration. */
function succeed(draft: Draft, step: PlanStep): void {
  const what = "the combined output of the loop";
  const outputs = draft.outputsOf(lastSteps(draft, step.id), what);
  const problem = outputs.kind === "bad" ? outputs.error : outputFault(step, outputs.value);
  if (problem || outputs.kind === "bad") {
    settleStep(draft, step, "FAILED", { error: problem ?? undefined });
    return;
  }
  const output = draft.store(outputs.value);
  if (output) settleStep(draft, step, "SUCCEEDED", { output });
  else settleStep(draft, step, "FAILED", { error: tooLarge(what) });
}

/** Undefined if no expression reads the previous iteration. */
function previousOf(draft: Draft, { carries }: Loop): LoopRun["previous"] {
  if (carries.length === 0) return undefined;
  const outcomes: Record<string, StepOutcome> = {};
  for (const id of carries) {
    const { state = "PENDING", output, error } = draft.step(id) ?? {};
    outcomes[id] = { state, ...(output && { output }), ...(error && { error }) };
  }
  return outcomes;
}

const isExpired = ({ nowMs }: Draft, { dueMs }: StepRun): boolean => dueMs !== undefined && nowMs >= dueMs;
