import { isRunFinal, isStepFailure, REJOINABLE, type Run, type StepRun } from "../../model/run.ts";
import type { Plan, PlanStep } from "../definition/plan.ts";
import { stepsAfter } from "./open-run.ts";

/**
 * A step's job gets a second life: its run takes it back, so that its result is not ignored (L42).
 *
 * 1. The step is RUNNING again, and what was skipped or cancelled because it had failed is as if nothing had happened.
 * 2. A run that has ended because of it is RUNNING again: the caller sees to it that it passes the gate. So is the `parallel`
 *    step that it is a branch of, if it failed because of it.
 * 3. A run that went on without the step (its `on_error` says so), and did what follows, cannot take it back: that would do
 *    things twice.
 */
export type Rejoined =
  | { readonly kind: "rejoined"; readonly run: Run; readonly isReopened: boolean }
  | { readonly kind: "objection"; readonly why: string };

export function rejoin(
  plan: Plan,
  run: Run,
  ref: { readonly stepId: string; readonly index?: number },
  who: string,
  moment: { readonly nowMs: number; readonly deadlineMs: number },
): Rejoined {
  const step = plan.steps.get(ref.stepId);
  const before = run.steps[ref.stepId];
  if (!step || !before) return objection(`run \`${run.id}\` knows nothing of step \`${ref.stepId}\``);
  const isOver = isRunFinal(run.state);
  if (isOver && !REJOINABLE.includes(run.state)) return objection(`run \`${run.id}\` is ${run.state}`);
  // It would end in the very commit that gives the job another life.
  const isEnding = run.state === "ENDING" || (!isOver && moment.nowMs >= run.deadlineMs);
  if (isEnding) return objection(`run \`${run.id}\` is about to end; try again when it has`);
  const restored = restore(step, before, ref.index, moment.nowMs);
  if (typeof restored === "string") return objection(restored);
  const around = aroundOf(plan, run, step, moment.nowMs);
  if (typeof around === "string") return objection(around);
  const after = new Set([...stepsAfter(plan, ref.stepId)].filter((id) => !around.has(id)));
  const cause = plan.order.find((id) => !after.has(id) && !around.has(id) && endedRun(plan, run, id));
  if (cause !== undefined) return objection(`run \`${run.id}\` ended because step \`${cause}\` failed; try that again`);
  const done = [...after].find((id) => id !== ref.stepId && hasHappened(run.steps[id]));
  if (done !== undefined) return objection(`run \`${run.id}\` went on without it: step \`${done}\` has begun`);
  const steps: Record<string, StepRun> = {};
  for (const [id, known] of Object.entries(run.steps)) {
    const kept = around.get(id);
    if (id === ref.stepId) steps[id] = { ...restored, line: run.lineCount };
    else if (around.has(id)) {
      if (kept) steps[id] = kept;
    }
    // What the end of the run kept from beginning begins as if it had never been asked for. What it stopped cannot: its
    // jobs, or those of its children, are there under the ids that they would be made with.
    else if (!after.has(id) && !(isOver && known.state === "CANCELLED")) steps[id] = known;
    else if (isOver && known.state === "CANCELLED" && (known.jobId !== undefined || known.fan)) {
      return objection(`step \`${id}\` was stopped when the run ended; rerun from it or from \`${ref.stepId}\``);
    }
  }
  const line = { seq: run.lineCount, atMs: moment.nowMs, event: "run_rejoined", stepId: ref.stepId, who } as const;
  const { endsAs: _, isParentTold: __, ...rest } = run;
  const deadlineMs = isOver ? moment.nowMs + (plan.timeoutMs ?? moment.deadlineMs) : run.deadlineMs;
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
      updatedMs: moment.nowMs,
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
    return `the other children of step \`${step.id}\` were stopped; rerun the run from it`;
  const { error: _error, ...counts } = fan;
  const failed = fan.failed - 1;
  const first = failed > 0 && fan.error ? { error: fan.error } : {};
  return {
    ...kept,
    state: "RUNNING",
    fan: { ...counts, ...first, ...dueOf(step, nowMs), failed, open: fan.open + 1 },
  };
}

/** As much time as the first time, like the job itself. */
const dueOf = ({ timeoutMs }: PlanStep, nowMs: number) => (timeoutMs === null ? {} : { dueMs: nowMs + timeoutMs });

/**
 * What a branch takes back with it: its `parallel` step waits again, and the other branches are as they were; those that never
 * began may begin (null). In words, why that cannot be. Nothing for a step that is no branch.
 */
function aroundOf(plan: Plan, run: Run, step: PlanStep, nowMs: number): ReadonlyMap<string, StepRun | null> | string {
  const parallel = plan.steps.get(step.branchOf ?? "");
  const before = run.steps[parallel?.id ?? ""];
  if (parallel?.act.type !== "parallel" || !before) return new Map();
  const { error: _, endedMs: __, ...kept } = before;
  if (before.state !== "RUNNING" && !isStepFailure(before.state)) return `step \`${parallel.id}\` is ${before.state}`;
  const around = new Map<string, StepRun | null>([
    [parallel.id, { ...kept, state: "RUNNING", ...dueOf(parallel, nowMs) }],
  ]);
  for (const id of parallel.act.branches.filter((other) => other !== step.id)) {
    const branch = run.steps[id] ?? null;
    if (branch?.state === "CANCELLED" && hasHappened(branch))
      return `step \`${id}\` was stopped when \`${parallel.id}\` ended; rerun from it`;
    around.set(id, branch?.state === "CANCELLED" ? null : branch);
  }
  const states = parallel.act.branches.map((id) => (id === step.id ? "RUNNING" : around.get(id)?.state));
  const possible = states.filter((state) => state === undefined || state === "RUNNING" || state === "SUCCEEDED").length;
  if (possible >= parallel.act.need) return around;
  return `step \`${parallel.id}\` needs ${parallel.act.need} of its branches, and others failed too; rerun from it`;
}

/** Nobody has said what else should follow from its failure: the run would have to end at once. */
function endedRun(plan: Plan, run: Run, id: string): boolean {
  const { onError, branchOf } = plan.steps.get(id) ?? {};
  return isStepFailure(run.steps[id]?.state ?? "PENDING") && onError?.kind === "fail" && branchOf === null;
}

/** Something was done that cannot be taken back. */
function hasHappened(step: StepRun | undefined): boolean {
  if (!step) return false;
  return step.state !== "SKIPPED" && !(step.state === "CANCELLED" && step.jobId === undefined && !step.fan);
}

const objection = (why: string): Rejoined => ({ kind: "objection", why });
