import type { JobState } from "../../model/job.ts";
import {
  copyStep,
  isRunFinal,
  isStepFailure,
  isStepSettled,
  type RunEnd,
  type RunState,
  type StepRun,
  type StepState,
  type TimelineEvent,
} from "../../model/run.ts";
import type { Writable } from "../../model/table.ts";
import type { WireError } from "../../retry/intent.ts";
import type { PlanStep } from "../definition/plan.ts";
import { type Draft, fault } from "./run-draft.ts";

/** Ends a step of any kind and applies the consequences for the run. */
export function settleStep(
  draft: Draft,
  step: PlanStep,
  state: Exclude<StepState, "PENDING" | "RUNNING">,
  { output, error, why, arm, arms, who, cause }: StepEnd = {},
): void {
  const before = draft.step(step.id);
  const line = draft.addLine(stepEventOf[state], {
    stepId: step.id,
    jobId: before?.jobId,
    who,
    why: why ?? error?.message,
    cause: cause ?? before?.line,
  });
  const next: Writable<StepRun> = before ? copyStep(before) : { state };
  next.state = state;
  next.line = line;
  next.endedMs = draft.nowMs;
  if (before?.fan) next.fan = withoutEnd(before.fan);
  if (output !== undefined) next.output = output;
  if (error !== undefined) next.error = error;
  if (why !== undefined) next.why = why;
  if (arm !== undefined) next.arm = arm;
  if (arms !== undefined) next.arms = arms;
  draft.setStep(step.id, next);
  if (isStepFailure(state)) endAfterFailure(draft, step, error ?? fault("StepFailed", `step \`${step.id}\` failed`));
}

interface StepEnd {
  readonly output?: StepRun["output"] | undefined;
  readonly error?: WireError | undefined;
  readonly why?: string | undefined;
  readonly arm?: string | undefined;
  readonly arms?: readonly string[] | undefined;
  readonly who?: string | undefined;
  readonly cause?: number | undefined;
}

/** A failure ends the loop that the step is in, or the run, unless `on_error` or a `parallel` step handles it. */
function endAfterFailure(draft: Draft, step: PlanStep, error: WireError): void {
  if (step.branchOf !== null || step.onError.kind !== "fail") return;
  const cause = draft.step(step.id)?.line;
  const loop = draft.plan.steps.get(step.loopOf ?? "");
  if (!loop) endRun(draft, "FAILED", error, cause);
  else if (draft.stateOf(loop.id) === "RUNNING") endLoop(draft, loop, "FAILED", error, cause);
}

/** Ends a loop and cancels what is open of its iteration. */
export function endLoop(
  draft: Draft,
  loop: PlanStep,
  state: "FAILED" | "TIMEOUT",
  error: WireError,
  cause?: number,
): void {
  settleStep(draft, loop, state, { error, cause });
  const why = `loop \`${loop.id}\` ${state === "TIMEOUT" ? "timed out" : "has failed"}`;
  for (const id of loop.act.type === "loop" ? loop.act.body : []) {
    const step = draft.plan.steps.get(id);
    if (step) cancelStep(draft, step, why, draft.step(loop.id)?.line);
  }
}

/** Cancels a running step; a pending one never starts. */
export function cancelStep(draft: Draft, step: PlanStep, why: string, cause?: number): void {
  const before = draft.step(step.id);
  if (before && isStepSettled(before.state)) return;
  if (before?.fan && before.fan.open > 0) {
    if (before.fan.endsAs === undefined)
      draft.setStep(step.id, { ...before, why, fan: { ...before.fan, endsAs: "CANCELLED" } });
    return;
  }
  if (before?.jobId !== undefined) draft.stops.push({ kind: "job", stepId: step.id, jobId: before.jobId, why });
  settleStep(draft, step, "CANCELLED", { why, cause });
}

function withoutEnd<T extends { readonly endsAs?: unknown }>(fan: T): Omit<T, "endsAs"> {
  const { endsAs: _, ...rest } = fan;
  return rest;
}

/**
 * The end of a run.
 *
 * 1. A run ends once: the first end state wins.
 * 2. Open steps are cancelled and pending steps never start. If that takes more than one commit, the run stays ENDING,
 *    and keeps its slot, until the last step has stopped.
 */
export function endRun(draft: Draft, state: RunEnd, error: WireError | null, cause?: number, who?: string): void {
  const { run } = draft;
  if (isRunFinal(run.state) || run.state === "ENDING") return;
  const from = draft.addLine("run_ending", { who, why: error?.message, cause });
  draft.set({ state: "ENDING", endsAs: { state, error, line: from } });
  for (const id of draft.plan.order) {
    const step = draft.plan.steps.get(id);
    if (step) cancelStep(draft, step, `the run ends as ${state}`, from);
  }
}

export type SettledState = Exclude<StepState, "PENDING" | "RUNNING">;

export const stepStateOf: Readonly<
  Record<Extract<JobState, "SUCCEEDED" | "FAILED" | "CANCELLED" | "TIMEOUT" | "DENIED">, SettledState>
> = {
  SUCCEEDED: "SUCCEEDED",
  FAILED: "FAILED",
  // The job was cancelled, not the run: the step was not done.
  CANCELLED: "FAILED",
  TIMEOUT: "TIMEOUT",
  DENIED: "DENIED",
};

export const runEventOf: Readonly<Record<Exclude<RunState, "RUNNING" | "PAUSED" | "ENDING">, TimelineEvent>> = {
  SUCCEEDED: "run_succeeded",
  FAILED: "run_failed",
  CANCELLED: "run_cancelled",
  TIMEOUT: "run_timed_out",
};

export const stepEventOf: Readonly<Record<StepState, TimelineEvent>> = {
  PENDING: "step_started",
  RUNNING: "step_started",
  SUCCEEDED: "step_succeeded",
  FAILED: "step_failed",
  SKIPPED: "step_skipped",
  CANCELLED: "step_cancelled",
  TIMEOUT: "step_timed_out",
  DENIED: "step_denied",
};
