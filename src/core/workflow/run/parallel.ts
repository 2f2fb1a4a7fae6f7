import { isStepFailure, isStepSettled } from "../../model/run.ts";
import type { Act, PlanStep } from "../definition/plan.ts";
import { type Draft, fault, tooLarge } from "./run-draft.ts";
import { cancelStep, settleStep } from "./settle.ts";
import { madeFault } from "./start-step.ts";

type Parallel = Extract<Act, { type: "parallel" }>;

/**
 * A `parallel` step waits for its branches, which start with it (see `ready.ts`).
 *
 * 1. It ends when enough branches have succeeded, when too few still can, or at its deadline. Open branches are then
 *    cancelled.
 * 2. Branch results are applied before the deadline.
 */
export function settleParallel(draft: Draft, step: PlanStep, act: Parallel): void {
  const ended = act.branches.filter((id) => isStepSettled(draft.stateOf(id)));
  const succeeded = ended.filter((id) => draft.stateOf(id) === "SUCCEEDED");
  const left = act.branches.length - ended.length;
  if (succeeded.length >= act.need) {
    const what = "the combined output of the branches";
    const outputs = draft.outputsOf(succeeded, what);
    const problem = outputs.kind === "bad" ? outputs.error : madeFault(draft, step, outputs.value);
    const output = problem || outputs.kind === "bad" ? null : draft.store(outputs.value);
    if (problem) settleStep(draft, step, "FAILED", { error: problem });
    else if (output) settleStep(draft, step, "SUCCEEDED", { output });
    else settleStep(draft, step, "FAILED", { error: tooLarge(what) });
  } else if (succeeded.length + left < act.need) {
    const first = ended.find((id) => isStepFailure(draft.stateOf(id)));
    const message = `${succeeded.length} of ${act.branches.length} branches succeeded, ${act.need} required`;
    const error = (first === undefined ? undefined : draft.step(first)?.error) ?? fault("NotEnoughBranches", message);
    settleStep(draft, step, "FAILED", { error });
  } else return;
  cancelBranches(draft, step, act, "has ended");
}

/** Ends the step as TIMEOUT at its deadline. */
export function expireParallel(draft: Draft, step: PlanStep, act: Parallel): void {
  const { state, dueMs = Number.POSITIVE_INFINITY } = draft.step(step.id) ?? {};
  if (state !== "RUNNING" || draft.nowMs < dueMs) return;
  settleParallel(draft, step, act);
  if (draft.stateOf(step.id) !== "RUNNING") return;
  const done = act.branches.filter((id) => draft.stateOf(id) === "SUCCEEDED").length;
  const message = `${done} of ${act.branches.length} branches completed before the deadline, ${act.need} required`;
  settleStep(draft, step, "TIMEOUT", { error: fault("DeadlineExceeded", message) });
  cancelBranches(draft, step, act, "timed out");
}

function cancelBranches(draft: Draft, step: PlanStep, act: Parallel, why: string): void {
  for (const id of act.branches) {
    const branch = draft.plan.steps.get(id);
    if (branch) cancelStep(draft, branch, `step \`${step.id}\` ${why}`, draft.step(step.id)?.line);
  }
}
