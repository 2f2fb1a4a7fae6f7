import type { StepRef } from "../../model/job-details.ts";
import { isRunFinal, isStepFailure, REJOINABLE, type Run, type StepRun } from "../../model/run.ts";
import type { Plan, PlanStep } from "../definition/plan.ts";
import { stepsAfter } from "./open-run.ts";
import { rejoinCompensation } from "./rejoin-compensation.ts";

/**
 * Rejoin: redriving a step's job returns the step to its run, so that the result counts (L42).
 *
 * 1. The step is RUNNING again. Steps that were skipped or cancelled because of its failure are reset.
 * 2. A run that ended because of the failure is RUNNING again, after admission by the caller. The same holds for its
 *    `parallel` step.
 * 3. A run that continued without the step (`on_error`) and started later steps cannot rejoin it: work would be done
 *    twice. Neither can a run whose completed steps were undone: the step would build on them.
 */
export type Rejoined =
  | { readonly kind: "rejoined"; readonly run: Run; readonly isReopened: boolean }
  | { readonly kind: "refused"; readonly why: string };

export interface RejoinContext {
  readonly nowMs: number;
  /** The default deadline of a run, from now. */
  readonly deadlineMs: number;
}

export function rejoin(
  plan: Plan,
  run: Run,
  ref: Pick<StepRef, "stepId" | "index" | "isCompensation">,
  who: string,
  context: RejoinContext,
): Rejoined {
  if (ref.isCompensation) return rejoinCompensation(plan, run, ref, who, context);
  const step = plan.steps.get(ref.stepId);
  const before = run.steps[ref.stepId];
  if (!step || !before) return refused(`run \`${run.id}\` has no step \`${ref.stepId}\``);
  if (step.loopOf !== null)
    return refused(`step \`${step.id}\` belongs to loop \`${step.loopOf}\`; rerun from \`${step.loopOf}\``);
  const isOver = isRunFinal(run.state);
  const problem = closedProblem(run, context.nowMs);
  if (problem !== null) return refused(`run \`${run.id}\` ${problem}`);
  const restored = restore(step, before, ref.index, context.nowMs);
  if (typeof restored === "string") return refused(restored);
  const siblings = siblingsOf(plan, run, step, context.nowMs);
  if (typeof siblings === "string") return refused(siblings);
  const after = new Set([...stepsAfter(plan, ref.stepId)].filter((id) => !siblings.has(id)));
  const cause = plan.order.find((id) => !after.has(id) && !siblings.has(id) && failsRun(plan, run, id));
  if (cause !== undefined)
    return refused(`run \`${run.id}\` ended because step \`${cause}\` failed; redrive that step`);
  const done = [...after].find((id) => id !== ref.stepId && hadEffects(run.steps[id]));
  if (done !== undefined) return refused(`run \`${run.id}\` continued without it: step \`${done}\` has started`);
  const steps: Record<string, StepRun> = {};
  for (const [id, known] of Object.entries(run.steps)) {
    const kept = siblings.get(id);
    if (id === ref.stepId) steps[id] = { ...restored, line: run.lineCount };
    else if (siblings.has(id)) {
      if (kept) steps[id] = kept;
    }
    // Steps that the end of the run kept from starting are reset. Steps that it cancelled are not: their jobs, or those
    // of their children, exist under the ids that would be reused.
    else if (!after.has(id) && !(isOver && known.state === "CANCELLED")) steps[id] = known;
    else if (isOver && known.state === "CANCELLED" && (known.jobId !== undefined || known.fan || known.loop)) {
      return refused(`step \`${id}\` was cancelled when the run ended; rerun from it or from \`${ref.stepId}\``);
    }
  }
  const line = { seq: run.lineCount, atMs: context.nowMs, event: "run_rejoined", stepId: ref.stepId, who } as const;
  const { endsAs: _, isParentTold: __, compensation: ___, ...rest } = run;
  const deadlineMs = isOver ? context.nowMs + (plan.timeoutMs ?? context.deadlineMs) : run.deadlineMs;
  return {
    kind: "rejoined",
    isReopened: isOver,
    run: {
      ...rest,
      state: isOver ? "RUNNING" : run.state,
      error: null,
      steps,
      lines: [...run.lines, line],
      lineCount: run.lineCount + 1,
      deadlineMs,
      dueMs: deadlineMs,
      updatedMs: context.nowMs,
    },
  };
}

function restore(step: PlanStep, before: StepRun, index: number | undefined, nowMs: number): StepRun | string {
  const { error: _, endedMs: __, output: ___, why: ____, ...kept } = before;
  if (index === undefined) {
    if (!isStepFailure(before.state)) return `step \`${step.id}\` is ${before.state}`;
    return { ...kept, state: "RUNNING" };
  }
  const { fan } = before;
  if (!fan || fan.failed === 0) return `no child of step \`${step.id}\` has failed`;
  if (before.state !== "RUNNING" && !isStepFailure(before.state)) return `step \`${step.id}\` is ${before.state}`;
  if (fan.cancelled > 0 || fan.endsAs !== undefined)
    return `the other children of step \`${step.id}\` were cancelled; rerun from it`;
  const { error: _error, ...counts } = fan;
  const failed = fan.failed - 1;
  const first = failed > 0 && fan.error ? { error: fan.error } : {};
  return {
    ...kept,
    state: "RUNNING",
    fan: { ...counts, ...first, ...dueOf(step, nowMs), failed, open: fan.open + 1 },
  };
}

/** The full timeout again, like the job. */
const dueOf = ({ timeoutMs }: PlanStep, nowMs: number) => (timeoutMs === null ? {} : { dueMs: nowMs + timeoutMs });

/**
 * Restores the `parallel` step of a branch: the step waits again, other branches keep their state, and branches that
 * never started may start (null). A string says why that is impossible; an empty map means the step is no branch.
 */
function siblingsOf(plan: Plan, run: Run, step: PlanStep, nowMs: number): ReadonlyMap<string, StepRun | null> | string {
  const parallel = plan.steps.get(step.branchOf ?? "");
  const before = run.steps[parallel?.id ?? ""];
  if (parallel?.act.type !== "parallel" || !before) return new Map();
  const { error: _, endedMs: __, ...kept } = before;
  if (before.state !== "RUNNING" && !isStepFailure(before.state)) return `step \`${parallel.id}\` is ${before.state}`;
  const siblings = new Map<string, StepRun | null>([
    [parallel.id, { ...kept, state: "RUNNING", ...dueOf(parallel, nowMs) }],
  ]);
  for (const id of parallel.act.branches.filter((other) => other !== step.id)) {
    const branch = run.steps[id] ?? null;
    if (branch?.state === "CANCELLED" && hadEffects(branch))
      return `step \`${id}\` was cancelled when \`${parallel.id}\` ended; rerun from it`;
    siblings.set(id, branch?.state === "CANCELLED" ? null : branch);
  }
  const states = parallel.act.branches.map((id) => (id === step.id ? "RUNNING" : siblings.get(id)?.state));
  const possible = states.filter((state) => state === undefined || state === "RUNNING" || state === "SUCCEEDED").length;
  if (possible >= parallel.act.need) return siblings;
  return `step \`${parallel.id}\` needs ${parallel.act.need} of its branches, but others failed as well; rerun from it`;
}

/** Why no step of the run can be redriven. */
function closedProblem({ state, deadlineMs, steps }: Run, nowMs: number): string | null {
  const isOver = isRunFinal(state);
  if (isOver && !REJOINABLE.includes(state)) return `is ${state}`;
  // Such a run would end in the same commit.
  if (state === "ENDING" || (!isOver && nowMs >= deadlineMs)) return "is ending; retry when it has ended";
  const undone = Object.keys(steps).filter((id) => steps[id]?.compensation !== undefined);
  if (undone.length === 0) return null;
  return `has undone ${undone.map((id) => `\`${id}\``).join(", ")}; start it again with \`cordum run rerun\``;
}

/** Without `on_error`, the step's failure ends the run. */
function failsRun(plan: Plan, run: Run, id: string): boolean {
  const { onError, branchOf } = plan.steps.get(id) ?? {};
  return isStepFailure(run.steps[id]?.state ?? "PENDING") && onError?.kind === "fail" && branchOf === null;
}

/** The step had effects that cannot be undone. */
function hadEffects(step: StepRun | undefined): boolean {
  if (!step) return false;
  const hasStarted = step.jobId !== undefined || step.fan !== undefined || step.loop !== undefined;
  return step.state !== "SKIPPED" && (step.state !== "CANCELLED" || hasStarted);
}

const refused = (why: string): Rejoined => ({ kind: "refused", why });
