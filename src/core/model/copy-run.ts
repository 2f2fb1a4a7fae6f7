import type { Run, StepRun } from "./run.ts";
import type { Writable } from "./writable.ts";

/** The caller's to change. Field by field, so that all runs have one shape (see `move-job.ts`). */
export function copyRun(run: Run): Writable<Run> {
  const copy: Writable<Run> = {
    id: run.id,
    org: run.org,
    workflowId: run.workflowId,
    version: run.version,
    state: run.state,
    createdMs: run.createdMs,
    updatedMs: run.updatedMs,
    deadlineMs: run.deadlineMs,
    dueMs: run.dueMs,
    traceId: run.traceId,
    input: run.input,
    output: run.output,
    error: run.error,
    steps: run.steps,
    lines: run.lines,
    lineCount: run.lineCount,
    inlineBytes: run.inlineBytes,
    labels: run.labels,
    lock: run.lock,
  };
  if (run.submittedBy !== undefined) copy.submittedBy = run.submittedBy;
  if (run.actorId !== undefined) copy.actorId = run.actorId;
  if (run.traceparent !== undefined) copy.traceparent = run.traceparent;
  if (run.priority !== undefined) copy.priority = run.priority;
  if (run.endsAs !== undefined) copy.endsAs = run.endsAs;
  if (run.parent !== undefined) copy.parent = run.parent;
  if (run.isParentTold !== undefined) copy.isParentTold = run.isParentTold;
  if (run.reservation !== undefined) copy.reservation = run.reservation;
  if (run.rerunOf !== undefined) copy.rerunOf = run.rerunOf;
  return copy;
}

/** The same for a step. Most of those that are copied were begun with a job. */
export function copyStep(step: StepRun): Writable<StepRun> {
  const { state, startedMs, jobId, line } = step;
  if (startedMs === undefined || jobId === undefined || line === undefined) return { ...step };
  const copy: Writable<StepRun> = { state, startedMs, jobId, line };
  if (step.endedMs !== undefined) copy.endedMs = step.endedMs;
  if (step.output !== undefined) copy.output = step.output;
  if (step.error !== undefined) copy.error = step.error;
  if (step.why !== undefined) copy.why = step.why;
  if (step.arm !== undefined) copy.arm = step.arm;
  if (step.arms !== undefined) copy.arms = step.arms;
  if (step.fan !== undefined) copy.fan = step.fan;
  if (step.dueMs !== undefined) copy.dueMs = step.dueMs;
  return copy;
}
