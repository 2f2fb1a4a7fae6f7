import { isRunFinal, isStepSettled, type RunEnd } from "../../model/run.ts";
import type { WireError } from "../../retry/intent.ts";
import type { Plan, PlanStep } from "../definition/plan.ts";
import { runEventOf } from "./outcomes.ts";
import { type Draft, fault, tooLarge } from "./run-draft.ts";
import { cancelStep } from "./settle-step.ts";

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
  const from = draft.note("run_ending", { who, why: error?.message, cause });
  draft.set({ state: "ENDING", endsAs: { state, error, line: from } });
  for (const id of draft.plan.order) {
    const step = draft.plan.steps.get(id);
    if (step) cancelStep(draft, step, `the run ends as ${state}`, from);
  }
}

/** Moves the run to its final state if all steps have settled. */
export function concludeRun(draft: Draft): void {
  const { run, plan } = draft;
  // A paused run ends after it is resumed, so that it can be inspected.
  if (isRunFinal(run.state) || run.state === "PAUSED" || !plan.order.every((id) => isStepSettled(draft.stateOf(id))))
    return;
  if (run.state === "ENDING") {
    conclude(draft, run.endsAs?.state ?? "FAILED", run.endsAs?.error ?? null);
    return;
  }
  if (!draft.mayRead()) return;
  const output = outputOf(draft);
  if (output.kind === "bad") {
    conclude(draft, "FAILED", fault("ExpressionFailed", `the run's \`output\`: ${output.problem}`));
    return;
  }
  const kept = output.kind === "ok" ? draft.keep(output.value, `res:${run.id}`) : null;
  draft.set({ output: kept });
  if (kept) conclude(draft, "SUCCEEDED", null);
  else conclude(draft, "FAILED", tooLarge("the run's output"));
}

function conclude(draft: Draft, state: RunEnd, error: WireError | null): void {
  const cause = draft.run.endsAs?.line ?? lastLine(draft);
  draft.note(runEventOf[state], { why: error?.message, cause });
  draft.end(state, error);
}

/** The line of the step settled last, or of the start of the run. */
function lastLine(draft: Draft): number {
  return Math.max(0, ...draft.plan.order.map((id) => draft.step(id)?.line ?? 0));
}

/** The definition's `output`, else the outputs of the last steps. Outputs of `for_each` children are not included. */
function outputOf(draft: Draft) {
  const { plan } = draft;
  if (plan.output) return plan.output.render(draft.scope(null, plan.output.refs));
  const last = plan.order.filter((id) => {
    const step = plan.steps.get(id);
    const { state, output } = draft.step(id) ?? {};
    return step && isLast(plan, step) && state === "SUCCEEDED" && output && output.kind !== "children";
  });
  const outputs = draft.outputsOf(last);
  return outputs ? ({ kind: "ok", value: outputs } as const) : ({ kind: "too_large" } as const);
}

/** No step follows it. Branches belong to their step, and a handler replaces its step. */
function isLast(plan: Plan, { id, branchOf, dependents }: PlanStep): boolean {
  const goesOn = (other: PlanStep | undefined) => other && other.branchOf !== id && !other.handles.includes(id);
  return branchOf === null && !dependents.some((other) => goesOn(plan.steps.get(other)));
}
