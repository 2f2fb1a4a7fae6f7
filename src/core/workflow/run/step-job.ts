import { requestApproval } from "../../jobs/approval.ts";
import { newJob } from "../../jobs/lifecycle.ts";
import type { DecisionContext } from "../../jobs/transitions.ts";
import type { Job, Payload } from "../../model/job.ts";
import type { StepRef } from "../../model/job-details.ts";
import { type Run, stepJobId } from "../../model/run.ts";
import type { Writable } from "../../model/table.ts";
import type { Start } from "./run-draft.ts";

/**
 * The job of a step. It inherits tenant, submitter, caller and trace of the run; reserved labels name its workflow, run and
 * step. Worker jobs are still checked by the safety kernel; the others are created in their waiting state.
 */
export function stepJob(run: Run, start: Start, input: Payload, context: DecisionContext): Job {
  const { meta, timeoutMs } = start;
  const job = newJob(
    {
      org: run.org,
      topic: start.topic,
      input: null,
      isStamped: false,
      inputPtr: null,
      jobId: null,
      priority: meta.priority ?? run.priority ?? "batch",
      labels: {
        ...run.labels,
        ...meta.labels,
        workflow_id: run.workflowId,
        run_id: run.id,
        step_id: start.stepId,
      },
      riskTags: meta.riskTags,
      requires: meta.requires,
      capability: meta.capability,
      // The actor that the key of the run is bound to precedes that of the workflow.
      actorId: run.caller?.actorId ?? meta.actorId ?? run.actorId ?? null,
      idempotencyKey: null,
      traceId: run.traceId,
      actorType: run.caller?.actorType ?? meta.actorType,
      packId: meta.packId,
      submittedBy: run.submittedBy ?? null,
      caller: run.caller,
      traceparent: run.traceparent ?? null,
    },
    { jobId: stepJobId(run.id, start.stepId, start.index, start), traceId: run.traceId },
    input,
    context,
  );
  job.step = refOf(run, start);
  if (run.arms !== undefined) job.arms = run.arms;
  if (timeoutMs !== null) Object.assign(job, deadline(job, timeoutMs, context));
  return inWaitingState(job, start, context);
}

function inWaitingState(job: Job, start: Start, context: DecisionContext): Job {
  const { nowMs, settings } = context;
  switch (start.kind) {
    case "worker":
      return job;
    case "approval": {
      const expiresMs = start.timeoutMs ?? settings.approval.expiresMs;
      const extended = { ...job, deadlineMs: Math.max(job.deadlineMs, nowMs + expiresMs) };
      const approval = { expiresMs, bySubmitter: start.bySubmitter ?? false };
      const reason = start.reason ?? "";
      return requestApproval(
        extended,
        { effect: "require_approval", ruleId: null, reason, snapshot: STEP_SNAPSHOT, approval },
        context,
      );
    }
    case "delay":
      return delayUntil(job, start.untilMs ?? nowMs, start.timeoutMs);
    case "subworkflow":
      return {
        ...job,
        dueMs: Math.min(job.deadlineMs, nowMs + START_TAKEOVER_MS),
        deadlineMs: start.timeoutMs === null ? nowMs + settings.run.deadlineMs : job.deadlineMs,
      };
    default:
      return start.kind satisfies never;
  }
}

/** Redrive: the job waits for the same thing again, with the full timeout. */
export function redriveStepJob(redriven: Job, timeoutMs: number | null, context: DecisionContext): Job {
  const { nowMs, settings } = context;
  const { step } = redriven;
  const job = timeoutMs === null ? redriven : { ...redriven, ...deadline(redriven, timeoutMs, context) };
  switch (step?.kind) {
    case "approval": {
      const expiresMs = timeoutMs ?? settings.approval.expiresMs;
      const extended = { ...job, deadlineMs: Math.max(job.deadlineMs, nowMs + expiresMs) };
      const approval = { expiresMs, bySubmitter: job.safety?.approval?.bySubmitter ?? false };
      const safety = { effect: "require_approval", ruleId: null, snapshot: STEP_SNAPSHOT, approval } as const;
      return requestApproval(extended, { ...safety, reason: job.safety?.reason ?? "" }, context);
    }
    case "delay":
      return delayUntil(job, step.untilMs ?? nowMs, timeoutMs);
    case "subworkflow": {
      const { subRunId: _, isSubRunLeft: __, ...kept } = step;
      const deadlineMs = timeoutMs === null ? nowMs + settings.run.deadlineMs : job.deadlineMs;
      return { ...job, step: kept, deadlineMs, dueMs: Math.min(deadlineMs, nowMs + START_TAKEOVER_MS) };
    }
    default:
      return job;
  }
}

/** A job that ends before its sub-run is marked until the sub-run has been cancelled. */
export function markSubRunLeft(job: Job, { nowMs }: DecisionContext): Job {
  const { step } = job;
  const isLeft = step?.subRunId !== undefined && (job.state === "CANCELLED" || job.state === "TIMEOUT");
  if (!isLeft || step === undefined) return job;
  return { ...job, step: { ...step, isSubRunLeft: true }, dueMs: nowMs + CANCEL_TAKEOVER_MS };
}

function delayUntil(job: Job, untilMs: number, timeoutMs: number | null): Job {
  const deadlineMs = timeoutMs === null ? untilMs + DELAY_GRACE_MS : job.deadlineMs;
  return { ...job, deadlineMs, dueMs: Math.min(untilMs, deadlineMs) };
}

function refOf(run: Run, start: Start): StepRef {
  const { stepId, kind, index, iteration, isCompensation, retry, untilMs, workflowId, version, outputBytesMax } = start;
  // A sub-workflow is not retried unless the step has a `retry`.
  const effectiveRetry = retry ?? (kind === "subworkflow" ? NO_RETRY : null);
  const ref: Writable<StepRef> = { runId: run.id, stepId, kind };
  if (index !== null) ref.index = index;
  if (isCompensation) ref.isCompensation = true;
  if (outputBytesMax !== undefined) ref.outputBytesMax = outputBytesMax;
  if (iteration !== undefined) ref.iteration = iteration;
  if (effectiveRetry !== null) ref.retry = effectiveRetry;
  if (untilMs !== undefined) ref.untilMs = untilMs;
  if (workflowId !== undefined) ref.workflowId = workflowId;
  if (version !== undefined) ref.version = version;
  return ref;
}

function deadline(job: Job, timeoutMs: number, { nowMs }: DecisionContext): Pick<Job, "deadlineMs" | "dueMs"> {
  const deadlineMs = nowMs + timeoutMs;
  return { deadlineMs, dueMs: Math.min(job.dueMs, deadlineMs) };
}

/** The snapshot of approval steps: they are requested by the workflow, not by a policy. */
export const STEP_SNAPSHOT = "workflow";

const NO_RETRY = { retriesMax: 0, initialMs: 1_000, maxMs: 60_000, multiplier: 2, jitter: "full" } as const;
const DELAY_GRACE_MS = 24 * 3_600_000;
/** When the sweeper starts a sub-run that the creating process did not start. */
const START_TAKEOVER_MS = 5_000;
/** When the sweeper cancels a sub-run that was left. */
const CANCEL_TAKEOVER_MS = 5_000;
