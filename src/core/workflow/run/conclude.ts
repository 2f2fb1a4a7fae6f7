import { isRunFinal, isStepSettled, type RunEnd } from "../../model/run.ts";
import { compensationProgress, describeCompensation } from "../../model/runs/compensation.ts";
import type { WireError } from "../../retry/intent.ts";
import type { Plan, PlanStep } from "../definition/plan.ts";
import { compensateSteps, compensationOrder } from "./compensate.ts";
import { type Draft, fault, type Readable, tooLarge } from "./run-draft.ts";
import { endRun, runEventOf } from "./settle.ts";

/** Moves the run to its final state if all steps have settled and, unless it succeeds, all compensations have ended. */
export function concludeRun(draft: Draft): void {
  const { run, plan } = draft;
  // A paused run ends after it is resumed, so that it can be inspected.
  if (isRunFinal(run.state) || run.state === "PAUSED" || !plan.order.every((id) => isStepSettled(draft.stateOf(id))))
    return;
  if (run.state === "ENDING") {
    if (compensateSteps(draft) === "done") conclude(draft, run.endsAs?.state ?? "FAILED", run.endsAs?.error ?? null);
    return;
  }
  if (!draft.canRead()) return;
  const output = outputOf(draft);
  if (output.kind === "bad") {
    failRun(draft, output.error);
    return;
  }
  const kept = draft.store(output.value);
  draft.set({ output: kept });
  if (kept) conclude(draft, "SUCCEEDED", null);
  else failRun(draft, tooLarge("the run's output"));
}

/** All steps have ended, but the output of the run cannot be built. */
function failRun(draft: Draft, error: WireError): void {
  if (compensationOrder(draft).length === 0) {
    conclude(draft, "FAILED", error);
    return;
  }
  endRun(draft, "FAILED", error, lastLine(draft));
  concludeRun(draft);
}

function conclude(draft: Draft, state: RunEnd, error: WireError | null): void {
  const cause = draft.run.endsAs?.line ?? lastLine(draft);
  const progress = compensationProgress({ compensation: draft.run.compensation, steps: draft.steps });
  const whys = [error?.message, progress && describeCompensation(progress)].filter((why) => why);
  draft.addLine(runEventOf[state], { why: whys.length === 0 ? undefined : whys.join("; "), cause });
  draft.end(state, error);
}

/** The line of the step settled last, or of the start of the run. */
function lastLine(draft: Draft): number {
  return Math.max(0, ...draft.plan.order.map((id) => draft.step(id)?.line ?? 0));
}

/** The definition's `output`, else the outputs of the last steps. Outputs of `for_each` children are not included. */
function outputOf(draft: Draft): Readable<unknown> {
  const { plan } = draft;
  if (plan.output) {
    const rendered = plan.output.render(draft.scope(null, plan.output.refs));
    if (rendered.kind === "ok") return rendered;
    return { kind: "bad", error: fault("ExpressionFailed", `the run's \`output\`: ${rendered.problem}`) };
  }
  return draft.outputsOf(lastSteps(draft, null), "the run's output");
}

/** The last steps of the run, or of the body of a loop, that have an output of their own. */
export function lastSteps(draft: Draft, loopOf: string | null): readonly string[] {
  const { plan } = draft;
  return plan.order.filter((id) => {
    const step = plan.steps.get(id);
    const { state, output } = draft.step(id) ?? {};
    if (step?.loopOf !== loopOf || !isLast(plan, step)) return false;
    return state === "SUCCEEDED" && output && output.kind !== "children";
  });
}

/** No step follows it. Branches and bodies belong to their step, and a handler replaces its step. */
function isLast(plan: Plan, { id, branchOf, dependents }: PlanStep): boolean {
  const goesOn = (other: PlanStep | undefined) =>
    other && other.branchOf !== id && other.loopOf !== id && !other.handles.includes(id);
  return branchOf === null && !dependents.some((other) => goesOn(plan.steps.get(other)));
}
