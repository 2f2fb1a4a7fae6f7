import { copyStep, isStepFailure, isStepSettled, type StepRun, type StepState } from "../../model/run.ts";
import type { Writable } from "../../model/table.ts";
import type { WireError } from "../../retry/intent.ts";
import type { PlanStep } from "../definition/plan.ts";
import { endRun } from "./end-run.ts";
import { stepEventOf } from "./outcomes.ts";
import { type Draft, fault } from "./run-draft.ts";

/** Ends a step of any kind and applies the consequences for the run. */
export function settleStep(
  draft: Draft,
  step: PlanStep,
  state: Exclude<StepState, "PENDING" | "RUNNING">,
  { output, error, why, arm, arms, who, cause }: Settled = {},
): void {
  const before = draft.step(step.id);
  const line = draft.note(stepEventOf[state], {
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
  if (isStepFailure(state)) failed(draft, step, error ?? fault("StepFailed", `step \`${step.id}\` failed`));
}

interface Settled {
  readonly output?: StepRun["output"] | undefined;
  readonly error?: WireError | undefined;
  readonly why?: string | undefined;
  readonly arm?: string | undefined;
  readonly arms?: readonly string[] | undefined;
  readonly who?: string | undefined;
  readonly cause?: number | undefined;
}

/** A failure ends the run unless `on_error` or a `parallel` step handles it. */
function failed(draft: Draft, step: PlanStep, error: WireError): void {
  if (step.branchOf !== null || step.onError.kind !== "fail") return;
  endRun(draft, "FAILED", error, draft.step(step.id)?.line);
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
