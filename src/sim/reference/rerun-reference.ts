import { AUDIT_PENDING, type PendingAudit } from "../../core/model/audit.ts";
import { isStepFailure, type Run, type StepState } from "../../core/model/run.ts";
import type { Change } from "../../ports/store.ts";
import type { RunPlan, SimWorkflow } from "../workload/run-plan.ts";
import type { RefState } from "./model.ts";
import { dependenciesOf } from "./run-reference.ts";
import { undoneSteps } from "./undo-reference.ts";

type StepStates = ReadonlyMap<string, StepState>;

/**
 * How a rerun starts: it keeps the steps that do not depend on the start step, or on one that was undone, and did not end
 * the run, and asks again for approvals before a repeated step. `isKeeping`: a person keeps those approvals.
 */
export function rerunRef(
  plan: RunPlan,
  workflow: SimWorkflow,
  state: RefState,
  fromStep: string,
  isKeeping: boolean,
): { readonly kept: StepStates; readonly asks: ReadonlySet<string> } {
  const earlier = state.steps;
  const given = workflow.steps.filter(({ id }) => earlier.get(id) === "SUCCEEDED" && asksIn(plan, workflow, id));
  const { again, asks } = scopeOf(
    workflow,
    given.map(({ id }) => id),
    [fromStep, ...undoneSteps(state, state.undo)],
  );
  const asked = isKeeping ? new Set<string>() : asks;
  const kept = [...earlier].filter(([id]) => !again.has(id) && !asked.has(id) && isKept(workflow, id, earlier));
  return { kept: new Map(kept), asks: asked };
}

/** Whether the commit that creates a rerun contains the audit entry of approvals that it keeps. */
export function hasKeptApprovals({ puts }: Change, { rerunOf, submittedBy }: Run): boolean {
  const pending = puts.filter(({ table }) => table === AUDIT_PENDING.name).map(({ value }) => value as PendingAudit);
  const lines = pending.flatMap((one) => one.lines).filter(({ what }) => what === "approvals kept");
  return lines.some(({ who, facts }) => who === submittedBy && facts?.run === rerunOf?.runId);
}

/** Whether the step ends only after a person approved. */
function asksIn(plan: RunPlan, workflow: SimWorkflow, stepId: string): boolean {
  const step = workflow.steps.find(({ id }) => id === stepId);
  const inner = plan.workflows.find(({ id }) => id === step?.workflowId);
  return step?.kind === "approval" || (inner?.steps.some(({ id }) => asksIn(plan, inner, id)) ?? false);
}

/** An approval before a repeated step is asked for again; one in a branch or a loop repeats the whole `parallel` step or loop. */
function scopeOf(workflow: SimWorkflow, given: readonly string[], from: readonly string[]) {
  const again = new Set(from.flatMap((id) => [...stepsAfter(workflow, id)]));
  for (let before = -1; before !== again.size; ) {
    before = again.size;
    for (const id of given) {
      const isBranch = workflow.steps.some(({ branches, loop }) => [...branches, ...(loop?.body ?? [])].includes(id));
      const after = stepsAfter(workflow, id);
      if (isBranch && [...after].some((later) => again.has(later))) for (const later of after) again.add(later);
    }
  }
  const asks = given.filter((id) => !again.has(id) && [...stepsAfter(workflow, id)].some((later) => again.has(later)));
  return { again, asks: new Set(asks) };
}

function isKept(workflow: SimWorkflow, id: string, states: StepStates): boolean {
  const state = states.get(id) ?? "PENDING";
  const around = workflow.steps.find(({ loop }) => loop?.body.includes(id));
  if (around && !isKept(workflow, around.id, states)) return false;
  if (state === "SUCCEEDED" || state === "SKIPPED") return true;
  if (!isStepFailure(state)) return false;
  const parallel = workflow.steps.find(({ branches }) => branches.includes(id));
  if (parallel) return isKept(workflow, parallel.id, states);
  return workflow.steps.find((step) => step.id === id)?.onError !== "fail";
}

export function stepsAfter(workflow: SimWorkflow, fromStep: string): ReadonlySet<string> {
  const after = new Set([fromStep]);
  for (let size = 0; size !== after.size; ) {
    size = after.size;
    for (const step of workflow.steps) {
      if (dependenciesOf(workflow, step).some((id) => after.has(id))) after.add(step.id);
      // A parallel step runs again with all its branches, a loop with its body.
      if ([...step.branches, ...(step.loop?.body ?? [])].some((id) => after.has(id))) after.add(step.id);
    }
  }
  return after;
}
