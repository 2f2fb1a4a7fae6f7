import type { Job } from "../../model/job.ts";
import { isRunFinal, isStepSettled, type Run, type StepRun, type TimelineLine } from "../../model/run.ts";
import type { Plan, PlanStep } from "../definition/plan.ts";
import { endCompensation, stopCompensation } from "./compensate.ts";
import { concludeRun } from "./conclude.ts";
import { endChild, expireFan, spawn, startFan, stopChildren } from "./for-each.ts";
import { expireLoop, settleLoop, startLoop } from "./loop.ts";
import { expireParallel, settleParallel } from "./parallel.ts";
import { readinessOf } from "./ready.ts";
import { type Blob, Draft, fault, type Limits, type Notification, type Start, type Stop } from "./run-draft.ts";
import { endRun, settleStep, stepStateOf } from "./settle.ts";
import { failStep, outputProblem, startStep } from "./start-step.ts";
import type { Values } from "./values.ts";
import { type EventAnswer, expireWait, type ReceivedEvent, receiveEvent, startWait } from "./wait.ts";

/**
 * Advances a run: a pure function of the plan, the run, the events and the time.
 *
 * 1. A step starts once, after all its dependencies have settled. The order in which jobs end affects only the
 *    timeline.
 * 2. Events about settled steps are ignored.
 * 3. A run ends when every step has settled; its end state is decided once (see `settle.ts`).
 * 4. A value that is not loaded yet is requested by throwing `Missing`; the call then has no effect.
 */
export type RunEvent =
  | { readonly kind: "job_ended"; readonly job: Job }
  /** Open children of a step were cancelled. */
  | { readonly kind: "children_stopped"; readonly stepId: string; readonly count: number }
  | { readonly kind: "received"; readonly event: ReceivedEvent }
  /** A timer fired, or the previous commit left work. */
  | { readonly kind: "time" }
  /** `skipsCompensation`: completed steps are not undone; also ends the compensation of an ending run. */
  | { readonly kind: "cancel"; readonly by: string; readonly why: string; readonly skipsCompensation?: true }
  | { readonly kind: "pause"; readonly by: string; readonly why: string }
  | { readonly kind: "resume"; readonly by: string; readonly why: string };

export interface Advance {
  readonly run: Run;
  readonly starts: readonly Start[];
  readonly stops: readonly Stop[];
  readonly notifications: readonly Notification[];
  readonly blobs: readonly Blob[];
  /** Lines moved from the run to a timeline page. */
  readonly page: readonly TimelineLine[] | null;
  /** Events to be applied after the stops: they may end the run, and steps that ended before still have open children. */
  readonly left: readonly RunEvent[];
  /** More work is left for another commit. */
  readonly hasMore: boolean;
  /** What became of each `received` event. */
  readonly answers: ReadonlyMap<object, EventAnswer>;
}

export interface AdvanceContext {
  readonly nowMs: number;
  readonly limits: Limits;
}

export function advance(
  plan: Plan,
  run: Run,
  events: readonly RunEvent[],
  values: Values,
  context: AdvanceContext,
): Advance {
  const draft = new Draft(plan, run, values, context.nowMs, context.limits);
  let left: readonly RunEvent[] = [];
  for (const [at, event] of events.entries()) {
    // Earlier events are applied first: a run whose last step has settled is not cancelled by a later event of the same
    // batch.
    if (at > 0 && isEnding(draft, event)) {
      settleRun(draft, false);
      if (childrenToStop(draft).length > 0) {
        left = events.slice(at);
        break;
      }
    }
    if (!isRunFinal(draft.run.state)) applyEvent(draft, event);
  }
  settleRun(draft, true);
  const { notifications, blobs, answers } = draft;
  // Steps that started and were cancelled in the same decision get no job.
  const starts = draft.starts.filter(
    ({ stepId, isCompensation }) => isCompensation || draft.stateOf(stepId) === "RUNNING",
  );
  const stops = [
    ...draft.stops.filter((stop) => !draft.starts.some(({ stepId }) => stepId === stop.stepId)),
    ...childrenToStop(draft),
  ];
  const { run: next, page } = draft.finish();
  return { run: next, page, starts, stops, notifications, blobs, left, hasMore: draft.hasMore, answers };
}

function isEnding({ nowMs, run }: Draft, { kind }: RunEvent): boolean {
  return kind === "cancel" || (kind === "time" && nowMs >= run.dueMs);
}

/** An ending run undoes its steps after the last event, which may complete one more. */
function settleRun(draft: Draft, isLast: boolean): void {
  if (isRunFinal(draft.run.state)) return;
  settleAll(draft);
  if (isLast || draft.run.state !== "ENDING") concludeRun(draft);
}

/** Children to cancel: as many as fit into one commit, the rest with the next. */
function childrenToStop(draft: Draft): readonly Stop[] {
  const stops: Stop[] = [];
  for (const stepId of draft.plan.order) {
    const step = draft.step(stepId);
    if (!step?.fan || step.state !== "RUNNING" || step.fan.endsAs === undefined || step.fan.open === 0) continue;
    const late = step.fan.endsAs === "TIMEOUT" ? `step \`${stepId}\` timed out` : undefined;
    const { iteration } = step.fan;
    const of = iteration === undefined ? { stepId } : { stepId, iteration };
    stops.push({ kind: "children", ...of, why: step.why ?? late ?? step.fan.error?.message ?? "the run is ending" });
    draft.hasMore = true;
  }
  return stops;
}

function applyEvent(draft: Draft, event: RunEvent): void {
  switch (event.kind) {
    case "job_ended":
      applyJobEnd(draft, event.job);
      return;
    case "children_stopped": {
      const step = draft.plan.steps.get(event.stepId);
      if (step?.forEach) stopChildren(draft, step, step.forEach, event.count);
      return;
    }
    case "received":
      draft.answers.set(event, receiveEvent(draft, event.event));
      return;
    case "time":
      if (draft.nowMs < draft.run.deadlineMs) {
        expireAll(draft);
        return;
      }
      endRun(draft, "TIMEOUT", fault("DeadlineExceeded", "run deadline exceeded"));
      return;
    case "cancel":
      endRun(draft, "CANCELLED", fault("Cancelled", event.why), undefined, event.by);
      if (event.skipsCompensation) stopCompensation(draft, event.by, event.why);
      return;
    case "pause":
      if (draft.run.state !== "RUNNING") return;
      draft.addLine("run_paused", { who: event.by, why: event.why });
      draft.set({ state: "PAUSED" });
      return;
    case "resume":
      if (draft.run.state !== "PAUSED") return;
      draft.addLine("run_resumed", { who: event.by, why: event.why });
      draft.set({ state: "RUNNING" });
      return;
    default:
      event satisfies never;
  }
}

/** Expires steps that have a deadline of their own. */
function expireAll(draft: Draft): void {
  for (const step of draft.plan.steps.values()) {
    if (step.forEach) expireFan(draft, step, step.forEach);
    else if (step.act.type === "parallel") expireParallel(draft, step, step.act);
    else if (step.act.type === "wait") expireWait(draft, step, step.act);
    else if (step.act.type === "loop") expireLoop(draft, step, step.act);
  }
}

function applyJobEnd(draft: Draft, job: Job): void {
  const step = draft.plan.steps.get(job.step?.stepId ?? "");
  const before = step && draft.step(step.id);
  if (step && job.step?.isCompensation) {
    endCompensation(draft, step, job);
    return;
  }
  if (!step || !before || (before.state !== "RUNNING" && !isDoneAnyway(step, before, job))) return;
  const problem = job.state === "SUCCEEDED" ? outputProblem(draft, step, job.output) : null;
  if (job.step?.index !== undefined) {
    if (step.forEach && job.step.iteration === draft.iterationOf(step))
      endChild(draft, step, step.forEach, job, problem);
    return;
  }
  if (before.jobId !== job.id) return;
  if (problem) {
    settleStep(draft, step, "FAILED", { error: problem });
    return;
  }
  if (job.state === "SUCCEEDED") {
    const output = draft.storePayload(job.output);
    settleStep(draft, step, "SUCCEEDED", { output, who: actorOf(job) });
    return;
  }
  const state = stepStateOf[job.state as keyof typeof stepStateOf];
  const error = job.error ?? fault("StepFailed", `job ended as ${job.state}`);
  settleStep(draft, step, state, { error, who: actorOf(job) });
}

/** Its worker completed the step in the batch that cancelled it: it must be undone with the others. */
const isDoneAnyway = ({ compensate, forEach }: PlanStep, { state, jobId }: StepRun, job: Job): boolean =>
  compensate !== null && forEach === null && state === "CANCELLED" && job.state === "SUCCEEDED" && jobId === job.id;

function actorOf({ approval, workerId }: Job): string | undefined {
  return approval?.decidedBy ?? workerId ?? undefined;
}

/** Iterates to a fixed point: a settled step can settle others before and after it in the order. */
function settleAll(draft: Draft): void {
  const { plan } = draft;
  for (let moved = true; moved; ) {
    moved = false;
    for (const id of plan.order) {
      const step = plan.steps.get(id);
      const before = draft.step(id);
      if (!step || (before && isStepSettled(before.state))) continue;
      if (!draft.canRead()) return;
      if (before) continueStep(draft, step);
      else if (draft.run.state === "RUNNING") startIfReady(draft, step);
      if (draft.step(id) !== before) moved = true;
    }
  }
}

function continueStep(draft: Draft, step: PlanStep): void {
  if (step.forEach && draft.step(step.id)?.fan) spawn(draft, step, step.forEach);
  else if (step.act.type === "parallel") settleParallel(draft, step, step.act);
  else if (step.act.type === "loop") settleLoop(draft, step, step.act);
}

function startIfReady(draft: Draft, step: PlanStep): void {
  const readiness = readinessOf(draft.plan, step, (id) => draft.step(id), draft.run.rerunOf?.asks);
  if (readiness.kind === "waits") return;
  const cause = causeIn(draft, step);
  if (readiness.kind === "skip") {
    settleStep(draft, step, "SKIPPED", { why: readiness.why, cause });
    return;
  }
  if (step.condition) {
    const answer = step.condition.evaluate(draft.scope(step, step.condition.refs));
    if (answer.kind === "bad") {
      failStep(draft, step, "ExpressionFailed", `\`condition\`: ${answer.problem}`, cause);
      return;
    }
    if (answer.value === false) {
      settleStep(draft, step, "SKIPPED", { why: "condition is false", cause });
      return;
    }
    if (answer.value !== true) {
      failStep(draft, step, "ExpressionFailed", "`condition` is not a boolean", cause);
      return;
    }
  }
  if (step.forEach) startFan(draft, step, step.forEach, cause);
  else if (step.act.type === "wait") startWait(draft, step, step.act, cause);
  else if (step.act.type === "loop") startLoop(draft, step, step.act, cause);
  else startStep(draft, step, cause);
}

/** The latest timeline line among the step's dependencies. */
function causeIn(draft: Draft, step: PlanStep): number | undefined {
  const before = step.branchOf === null ? step.dependsOn : [step.branchOf];
  const lines = before.map((id) => draft.step(id)?.line ?? 0);
  return lines.length === 0 ? 0 : Math.max(...lines);
}
