import { isStepFailure, isStepSettled, type Run, type StepRun, type StepState } from "../../model/run.ts";
import type { Plan, PlanStep } from "../definition/plan.ts";

/**
 * Whether a step can start, judged by the states of its dependencies only, so that the order of events does not matter.
 */
export type Readiness =
  | { readonly kind: "waits" }
  | { readonly kind: "skip"; readonly why: string }
  | { readonly kind: "go" };

/** `asks`: earlier steps that a rerun asks again; every step after one waits for it, also where results between them were kept. */
export function readinessOf(
  plan: Plan,
  step: PlanStep,
  stateOf: (id: string) => StepRun | undefined,
  asks: readonly string[] = [],
): Readiness {
  const state = (id: string): StepState => stateOf(id)?.state ?? "PENDING";
  if (step.branchOf !== null) {
    if (state(step.branchOf) === "RUNNING") return GO;
    return isStepSettled(state(step.branchOf)) ? skip(`step \`${step.branchOf}\` did not run`) : WAITS;
  }
  const dependsOn = step.loopOf === null ? step.dependsOn : step.dependsOn.filter((id) => id !== step.loopOf);
  if (step.loopOf !== null && state(step.loopOf) !== "RUNNING")
    return isStepSettled(state(step.loopOf)) ? skip(`loop \`${step.loopOf}\` has ended`) : WAITS;
  const asked = asks.filter((id) => step.ancestors.has(id) && !dependsOn.includes(id));
  const awaited = asked.length === 0 ? dependsOn : [...dependsOn, ...asked];
  if (!awaited.every((id) => isStepSettled(state(id)))) return WAITS;
  const failed = step.handles.filter((id) => isStepFailure(state(id)));
  if (step.handles.length > 0 && failed.length === 0) return skip("no failure to handle");
  const blocking = awaited.find((id) => isBlocking(plan, step, id, state(id)));
  if (blocking !== undefined) return skip(`step \`${blocking}\` failed`);
  for (const { stepId, arms } of step.arms) {
    const chosen = chosenBy(stateOf(stepId));
    if (chosen.some((arm) => arms.includes(arm))) continue;
    return skip(`step \`${stepId}\` chose ${chosen.map((arm) => `\`${arm}\``).join(", ") || "nothing"}`);
  }
  const isLeftOut = dependsOn.length > 0 && dependsOn.every((id) => isUnused(state(id)));
  return isLeftOut ? skip("all its dependencies were skipped") : GO;
}

/** The chosen arm; with `for_each`, the arms of all items. */
function chosenBy(step: StepRun | undefined): readonly string[] {
  if (step?.state !== "SUCCEEDED") return [];
  return step.arms ?? (step.arm === undefined ? [] : [step.arm]);
}

function isBlocking(plan: Plan, step: PlanStep, id: string, state: StepState): boolean {
  if (!isStepFailure(state) || step.handles.includes(id)) return false;
  return plan.steps.get(id)?.onError.kind !== "continue";
}

const isUnused = (state: StepState): boolean => state === "SKIPPED" || state === "CANCELLED";
const skip = (why: string): Readiness => ({ kind: "skip", why });
const WAITS: Readiness = { kind: "waits" };
const GO: Readiness = { kind: "go" };

/**
 * The number of sub-runs a run waits for, if it waits for nothing else. Null if a worker, an approval, a timer or the
 * run's own remaining work can advance it.
 */
export function subRunsOnly(plan: Plan, run: Run): number | null {
  // A paused run waits for an operator; a run with remaining work is due before its deadline.
  if (run.state !== "RUNNING" || run.dueMs < run.deadlineMs) return null;
  let count = 0;
  for (const [id, { state, fan }] of Object.entries(run.steps)) {
    if (state !== "RUNNING") continue;
    const type = plan.steps.get(id)?.act.type;
    // Its branches, or the steps of its body, are checked themselves.
    if (type === "parallel" || type === "loop") continue;
    if (type !== "subworkflow") return null;
    count += fan?.open ?? 1;
  }
  return count === 0 ? null : count;
}
