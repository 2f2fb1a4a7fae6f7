import type { StepRef } from "../../model/job-details.ts";
import { COMPENSABLE, isRunFinal, type Run } from "../../model/run.ts";
import type { StepCompensation } from "../../model/runs/compensation.ts";
import type { Plan } from "../definition/plan.ts";
import type { RejoinContext, Rejoined } from "./rejoin.ts";

/**
 * Redriving the job of a compensation: the compensation runs again and its result is recorded. A run that had ended is
 * ENDING until then, and ends as before.
 */
export function rejoinCompensation(
  plan: Plan,
  run: Run,
  { stepId, index }: Pick<StepRef, "stepId" | "index">,
  who: string,
  { nowMs, deadlineMs }: RejoinContext,
): Rejoined {
  const step = run.steps[stepId];
  const restored = step?.compensation && restore(step.compensation, index);
  if (!step || !restored) return { kind: "refused", why: `no compensation of step \`${stepId}\` has failed` };
  const isOver = isRunFinal(run.state);
  if (isOver ? !COMPENSABLE.includes(run.state) : run.state !== "ENDING")
    return { kind: "refused", why: `run \`${run.id}\` is ${run.state}` };
  const line = run.lineCount;
  const at = index === undefined ? { stepId } : { stepId, index };
  const { isParentTold: _, ...rest } = run;
  const rejoined: Run = {
    ...rest,
    steps: { ...run.steps, [stepId]: { ...step, compensation: { ...restored, line } } },
    lines: [...run.lines, { seq: line, atMs: nowMs, event: "compensation_redriven", ...at, who }],
    lineCount: line + 1,
    updatedMs: nowMs,
  };
  if (!isOver) return { kind: "rejoined", isReopened: false, run: rejoined };
  const untilMs = nowMs + (plan.timeoutMs ?? deadlineMs);
  const endsAs = { state: run.state as "FAILED" | "CANCELLED" | "TIMEOUT", error: run.error, line };
  const reopened: Run = { ...rejoined, state: "ENDING", endsAs, error: null, deadlineMs: untilMs, dueMs: untilMs };
  return { kind: "rejoined", isReopened: true, run: reopened };
}

/** Null if it has not failed. */
function restore(compensation: StepCompensation, index: number | undefined): StepCompensation | null {
  const { state, error, endedMs: _, fan, ...kept } = compensation;
  if (index === undefined) return state === "FAILED" ? { ...kept, state: "RUNNING" } : null;
  if (!fan || fan.failed === 0) return null;
  const failed = fan.failed - 1;
  const first = failed > 0 && error ? { error } : {};
  return { ...kept, ...first, state: "RUNNING", fan: { ...fan, failed, open: fan.open + 1 } };
}
