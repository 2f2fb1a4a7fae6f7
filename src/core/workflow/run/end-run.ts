import { isRunFinal, isStepSettled, type RunEnd } from "../../model/run.ts";
import type { WireError } from "../../retry/intent.ts";
import type { Plan, PlanStep } from "../definition/plan.ts";
import { runEventOf } from "./outcomes.ts";
import { type Draft, fault, tooLarge } from "./run-draft.ts";
import { cancelStep } from "./settle-step.ts";

/**
 * The end of a run.
 *
 * 1. It ends once: what it ends as is decided by whoever comes first.
 * 2. Whatever is open is stopped, whatever has not begun never begins. Where that is more than one commit holds, the run
 *    is ENDING until the last one has been stopped; it keeps its slot until then.
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

/** Ends the run for good if nothing is left of it. */
export function concludeRun(draft: Draft): void {
  const { run, plan } = draft;
  // A run that is paused ends when it goes on: whoever paused it may want to look.
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

/** Of the step that was settled last; where there is none, that the run began. */
function lastLine(draft: Draft): number {
  return Math.max(0, ...draft.plan.order.map((id) => draft.step(id)?.line ?? 0));
}

/** As the definition says; else what the last steps have put out. Children of a `for_each` keep theirs to themselves. */
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

/** Nothing goes on from it: its own branches are part of it, and a handler runs in its place. */
function isLast(plan: Plan, { id, branchOf, dependents }: PlanStep): boolean {
  const goesOn = (other: PlanStep | undefined) => other && other.branchOf !== id && !other.handles.includes(id);
  return branchOf === null && !dependents.some((other) => goesOn(plan.steps.get(other)));
}
