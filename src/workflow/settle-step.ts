import { isStepFailure, isStepSettled, type StepRun, type StepState } from "../model/run.ts";
import type { WireError } from "../retry/contract.ts";
import { type Draft, fault } from "./draft.ts";
import { endRun } from "./end-run.ts";
import { stepEventOf } from "./outcomes.ts";
import type { PlanStep } from "./plan.ts";

/** The end of a step, whatever kind it is: written down once, and what follows for the run. */
export function settleStep(
  draft: Draft,
  step: PlanStep,
  state: Exclude<StepState, "PENDING" | "RUNNING">,
  facts: Pick<StepRun, "output" | "error" | "why" | "arm"> & { readonly who?: string; readonly cause?: number } = {},
): void {
  const before = draft.step(step.id);
  const { who, cause, ...rest } = facts;
  const why = rest.why ?? rest.error?.message;
  const line = draft.note(stepEventOf[state], {
    stepId: step.id,
    ...(before?.jobId === undefined ? {} : { jobId: before.jobId }),
    ...(who === undefined ? {} : { who }),
    ...(why === undefined ? {} : { why }),
    ...causeOf(cause ?? before?.line),
  });
  const { fan, ...kept } = before ?? { state };
  draft.setStep(step.id, {
    ...kept,
    ...(fan ? { fan: withoutEnd(fan) } : {}),
    ...rest,
    state,
    endedMs: draft.nowMs,
    line,
  });
  if (isStepFailure(state)) failed(draft, step, rest.error ?? fault("StepFailed", `step \`${step.id}\` failed`));
}

/** A failure ends the run, unless somebody said what else should follow from it. */
function failed(draft: Draft, step: PlanStep, error: WireError): void {
  if (step.branchOf !== null || step.onError.kind !== "fail") return;
  endRun(draft, "FAILED", error, draft.step(step.id)?.line);
}

/** What is open is to be stopped, what has not begun never begins. */
export function cancelStep(draft: Draft, step: PlanStep, why: string, cause?: number): void {
  const before = draft.step(step.id);
  if (before && isStepSettled(before.state)) return;
  if (before?.fan && before.fan.open > 0) {
    if (before.fan.endsAs === undefined)
      draft.setStep(step.id, { ...before, why, fan: { ...before.fan, endsAs: "CANCELLED" } });
    return;
  }
  if (before?.jobId !== undefined) draft.stops.push({ kind: "job", stepId: step.id, jobId: before.jobId, why });
  settleStep(draft, step, "CANCELLED", { why, ...causeOf(cause) });
}

export const causeOf = (cause: number | undefined): { readonly cause?: number } =>
  cause === undefined ? {} : { cause };

function withoutEnd<T extends { readonly endsAs?: unknown }>(fan: T): Omit<T, "endsAs"> {
  const { endsAs: _, ...rest } = fan;
  return rest;
}
