import type { Job } from "../../model/job.ts";
import { type StepRun, stepJobId } from "../../model/run.ts";
import type { CompensationFan, StepCompensation } from "../../model/runs/compensation.ts";
import type { Writable } from "../../model/table.ts";
import type { WireError } from "../../retry/intent.ts";
import type { Compensate, Evaluated, PlanStep, Scope } from "../definition/plan.ts";
import { FAILURE_LINES_MAX } from "./for-each.ts";
import { type Draft, fault } from "./run-draft.ts";
import { type Item, inputOf, outputProblem } from "./start-step.ts";

/**
 * Undoes the completed steps of a run that did not succeed.
 *
 * 1. The steps and their order follow from the record, once all steps have settled: those that succeeded, the last one to
 *    complete first. They are undone one after the other.
 * 2. Of a list, each child that succeeded is undone, the last one first, at most `max_parallel` at once.
 * 3. A compensation that fails does not stop the others, and does not change how the run ends.
 * 4. A step that a rerun kept belongs to the earlier run and is not undone.
 */
export function compensateSteps(draft: Draft): "done" | "open" {
  const order = compensationOrder(draft);
  if (order.length === 0) return "done";
  const { compensation } = draft.run;
  if (compensation?.order.length !== order.length) draft.set({ compensation: { ...compensation, order } });
  for (const id of order) {
    const step = draft.plan.steps.get(id);
    if (!step?.compensate) continue;
    if (!advanceCompensation(draft, step, step.compensate)) return "open";
    if (draft.step(id)?.compensation?.state === "RUNNING") return "open";
  }
  return "done";
}

/** The steps to undo, in this order. Call when all steps have settled. */
export function compensationOrder(draft: Draft): readonly string[] {
  const known = draft.run.compensation?.order ?? [];
  if (known.length > 0) return known;
  const completed = draft.plan.order.filter((id) => {
    const step = draft.step(id);
    return step !== undefined && draft.plan.steps.get(id)?.compensate && hasCompleted(step);
  });
  const lineOf = (id: string) => draft.step(id)?.line ?? 0;
  return completed.sort((a, b) => lineOf(b) - lineOf(a));
}

/** A kept step has neither a job nor children. */
const hasCompleted = ({ state, jobId, fan }: StepRun): boolean =>
  fan === undefined ? state === "SUCCEEDED" && jobId !== undefined : fan.succeeded > 0;

/** An operator stops it: no further compensation starts, and those that have started end. */
export function stopCompensation(draft: Draft, by: string, why: string): void {
  const { compensation, endsAs } = draft.run;
  const isUseless = [...draft.plan.steps.values()].every(({ compensate }) => compensate === null);
  if (isUseless || compensation?.isStopped || draft.run.state !== "ENDING") return;
  draft.addLine("compensation_stopped", { who: by, why, cause: endsAs?.line });
  draft.set({ compensation: { order: compensation?.order ?? [], isStopped: true } });
}

/** False if the rest is left to the next commit. */
function advanceCompensation(draft: Draft, step: PlanStep, compensate: Compensate): boolean {
  const before = draft.step(step.id);
  if (!before) return true;
  const { compensation: own, fan } = before;
  if (own === undefined && draft.run.compensation?.isStopped) return true;
  if (own === undefined && fan) {
    const line = draft.addLine("compensation_started", {
      stepId: step.id,
      why: `${fan.succeeded} items`,
      cause: before.line,
    });
    const children = { left: fan.spawned, open: 0, succeeded: 0, failed: 0 };
    setCompensation(draft, step, { state: "RUNNING", startedMs: draft.nowMs, line, fan: children });
  } else if (own === undefined) return startCompensation(draft, step, compensate, before);
  return compensateChildren(draft, step, compensate);
}

function startCompensation(draft: Draft, step: PlanStep, compensate: Compensate, before: StepRun): boolean {
  if (!hasRoom(draft)) return false;
  const input = undoInputOf(draft, step, compensate, before.output, null);
  const jobId = stepJobId(draft.run.id, step.id, null, { isCompensation: true });
  const made = input.kind === "ok" ? { jobId } : {};
  const line = draft.addLine("compensation_started", { stepId: step.id, ...made, cause: before.line });
  setCompensation(draft, step, { state: "RUNNING", startedMs: draft.nowMs, line, ...made });
  if (input.kind === "ok") start(draft, step, compensate, input.value, null);
  else {
    draft.failedStarts += 1;
    settleCompensation(draft, step, fault("ExpressionFailed", input.problem));
  }
  return true;
}

/** Starts compensations of children up to the limits; ends with the last one. */
function compensateChildren(draft: Draft, step: PlanStep, compensate: Compensate): boolean {
  for (let looked = 0; ; looked += 1) {
    const { state, fan } = draft.step(step.id)?.compensation ?? {};
    if (!fan || state !== "RUNNING") return true;
    if (fan.left === 0 || draft.run.compensation?.isStopped) {
      if (fan.open === 0) endChildren(draft, step, fan);
      return true;
    }
    if (fan.open >= (step.forEach?.parallelMax ?? 1)) return true;
    if (looked >= LOOKED_MAX || !hasRoom(draft)) {
      draft.hasMore = true;
      return false;
    }
    compensateChild(draft, step, compensate, fan);
  }
}

function compensateChild(draft: Draft, step: PlanStep, compensate: Compensate, fan: CompensationFan): void {
  const index = fan.left - 1;
  const child = draft.childOf(step.id, index);
  if (child === null || outputProblem(draft, step, child.output) !== null) {
    setFan(draft, step, { ...fan, left: index });
    return;
  }
  const input = undoInputOf(draft, step, compensate, child.output ?? undefined, itemOf(draft, step, index));
  setFan(draft, step, { ...fan, left: index, open: fan.open + 1 });
  if (input.kind === "ok") start(draft, step, compensate, input.value, index);
  else {
    draft.failedStarts += 1;
    countChild(draft, step, index, fault("ExpressionFailed", `item ${index}: ${input.problem}`));
  }
}

function itemOf(draft: Draft, step: PlanStep, index: number): Item {
  const items = draft.step(step.id)?.fan?.items;
  const list = items && draft.valueOf(items, step.id);
  return { item: list?.kind === "ok" ? (list.value as readonly unknown[])[index] : null, index };
}

function hasRoom(draft: Draft): boolean {
  if (draft.starts.length + draft.failedStarts < draft.limits.startsMax) return draft.canRead();
  draft.hasMore = true;
  return false;
}

function start(draft: Draft, step: PlanStep, compensate: Compensate, input: unknown, index: number | null): void {
  const { topic, meta, retry, timeoutMs } = compensate;
  draft.starts.push({
    ...{ stepId: step.id, index, kind: "worker", isCompensation: true },
    ...{ topic, input, meta, retry, timeoutMs },
  });
}

/** The input of a step follows from its template again: what it reads does not change any more. */
function undoInputOf(
  draft: Draft,
  step: PlanStep,
  { input }: Compensate,
  output: StepRun["output"],
  child: Item | null,
): Evaluated {
  const own: Record<string, unknown> = {};
  if (input.refs.own.has("input")) {
    const rendered = inputOf(draft, step, child);
    if (rendered.kind === "bad") return { kind: "bad", problem: `\`step.input\`: ${rendered.problem}` };
    own.input = rendered.value;
  }
  if (input.refs.own.has("output")) {
    const read = output === undefined ? ({ kind: "ok", value: null } as const) : draft.valueOf(output, step.id);
    if (read.kind === "bad") return { kind: "bad", problem: `\`step.output\`: ${read.error.message}` };
    own.output = read.value;
  }
  const scope: Scope = { ...draft.scope(step, input.refs, child), step: own };
  const rendered = input.render(scope);
  return rendered.kind === "ok" ? rendered : { kind: "bad", problem: `\`compensate.input\`: ${rendered.problem}` };
}

/** Applies the end of a compensation. */
export function endCompensation(draft: Draft, step: PlanStep, job: Job): void {
  const own = draft.step(step.id)?.compensation;
  if (own?.state !== "RUNNING") return;
  const error =
    job.state === "SUCCEEDED" ? null : (job.error ?? fault("CompensationFailed", `job ended as ${job.state}`));
  if (job.step?.index !== undefined) countChild(draft, step, job.step.index, error);
  else if (own.jobId === job.id) settleCompensation(draft, step, error);
}

function countChild(draft: Draft, step: PlanStep, index: number, error: WireError | null): void {
  const own = draft.step(step.id)?.compensation;
  if (!own?.fan) return;
  const fan = { ...own.fan, open: own.fan.open - 1 };
  if (error === null) {
    setFan(draft, step, { ...fan, succeeded: fan.succeeded + 1 });
    return;
  }
  if (fan.failed < FAILURE_LINES_MAX) {
    const jobId = stepJobId(draft.run.id, step.id, index, { isCompensation: true });
    draft.addLine("compensation_failed", { stepId: step.id, index, jobId, why: error.message, cause: own.line });
  }
  const failed = { ...fan, failed: fan.failed + 1 };
  setCompensation(draft, step, { ...own, fan: failed, error: own.error ?? error });
}

function endChildren(draft: Draft, step: PlanStep, { left, failed }: CompensationFan): void {
  const own = draft.step(step.id)?.compensation;
  const stopped = left > 0 ? fault("CompensationStopped", `stopped with ${left} of its items left`) : null;
  const error = own?.error ?? (failed > 0 ? fault("CompensationFailed", `${failed} items failed`) : stopped);
  settleCompensation(draft, step, error);
}

function settleCompensation(draft: Draft, step: PlanStep, error: WireError | null): void {
  const own = draft.step(step.id)?.compensation;
  if (!own) return;
  const event = error === null ? "compensation_succeeded" : "compensation_failed";
  const line = draft.addLine(event, { stepId: step.id, jobId: own.jobId, why: error?.message, cause: own.line });
  const ended: Writable<StepCompensation> = { ...own, state: error === null ? "SUCCEEDED" : "FAILED", line };
  ended.endedMs = draft.nowMs;
  if (error !== null) ended.error = error;
  setCompensation(draft, step, ended);
}

function setFan(draft: Draft, step: PlanStep, fan: CompensationFan): void {
  const own = draft.step(step.id)?.compensation;
  if (own) setCompensation(draft, step, { ...own, fan });
}

function setCompensation(draft: Draft, step: PlanStep, compensation: StepCompensation): void {
  const before = draft.step(step.id);
  if (before) draft.setStep(step.id, { ...before, compensation });
}

/** Children that one commit reads, including those that need no compensation. */
const LOOKED_MAX = 256;
