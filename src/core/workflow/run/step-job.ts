import { requestApproval } from "../../jobs/approval.ts";
import { newJob } from "../../jobs/lifecycle.ts";
import type { DecisionContext } from "../../jobs/transitions.ts";
import type { Job, Payload, StepRef } from "../../model/job.ts";
import { type Run, stepJobId } from "../../model/run.ts";
import type { Writable } from "../../model/table.ts";
import type { Start } from "./effects.ts";

/**
 * The job for a step. It is of the run's tenant, submitter and trace; its labels say where it belongs, for policies and
 * people alike. A worker's job still has to pass the safety kernel; the others are where they wait already.
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
      actorId: meta.actorId ?? run.actorId ?? null,
      idempotencyKey: null,
      traceId: run.traceId,
      actorType: meta.actorType,
      packId: meta.packId,
      submittedBy: run.submittedBy ?? null,
      traceparent: run.traceparent ?? null,
    },
    { jobId: stepJobId(run.id, start.stepId, start.index), traceId: run.traceId },
    input,
    context,
  );
  job.step = refOf(run, start);
  if (timeoutMs !== null) Object.assign(job, deadline(job, timeoutMs, context));
  return waitingFor(job, start, context);
}

function waitingFor(job: Job, start: Start, context: DecisionContext): Job {
  const { nowMs, settings } = context;
  switch (start.kind) {
    case "worker":
      return job;
    case "approval": {
      const expiresMs = start.timeoutMs ?? settings.approval.expiresMs;
      const asked = { ...job, deadlineMs: Math.max(job.deadlineMs, nowMs + expiresMs) };
      const approval = { expiresMs, bySubmitter: start.bySubmitter ?? false };
      const reason = start.reason ?? "";
      return requestApproval(
        asked,
        { effect: "require_approval", ruleId: null, reason, snapshot: STEP_SNAPSHOT, approval },
        context,
      );
    }
    case "delay":
      return untilThen(job, start.untilMs ?? nowMs, start.timeoutMs);
    case "subworkflow":
      return {
        ...job,
        dueMs: Math.min(job.deadlineMs, nowMs + START_LEFT_MS),
        deadlineMs: start.timeoutMs === null ? nowMs + settings.run.deadlineMs : job.deadlineMs,
      };
    default:
      return start.kind satisfies never;
  }
}

/** A second life: it waits for what it waited for, and has as much time for that as the first time. */
export function waitAnew(revived: Job, timeoutMs: number | null, context: DecisionContext): Job {
  const { nowMs, settings } = context;
  const { step } = revived;
  const job = timeoutMs === null ? revived : { ...revived, ...deadline(revived, timeoutMs, context) };
  switch (step?.kind) {
    case "approval": {
      const expiresMs = timeoutMs ?? settings.approval.expiresMs;
      const asked = { ...job, deadlineMs: Math.max(job.deadlineMs, nowMs + expiresMs) };
      const approval = { expiresMs, bySubmitter: job.safety?.approval?.bySubmitter ?? false };
      const safety = { effect: "require_approval", ruleId: null, snapshot: STEP_SNAPSHOT, approval } as const;
      return requestApproval(asked, { ...safety, reason: job.safety?.reason ?? "" }, context);
    }
    case "delay":
      return untilThen(job, step.untilMs ?? nowMs, timeoutMs);
    case "subworkflow": {
      const { subRunId: _, isSubRunLeft: __, ...kept } = step;
      const deadlineMs = timeoutMs === null ? nowMs + settings.run.deadlineMs : job.deadlineMs;
      return { ...job, step: kept, deadlineMs, dueMs: Math.min(deadlineMs, nowMs + START_LEFT_MS) };
    }
    default:
      return job;
  }
}

/** A job that waited for another run ends without it: that one has to be stopped, and the job says so until it was. */
export function leaveSubRun(job: Job, { nowMs }: DecisionContext): Job {
  const { step } = job;
  const isLeft = step?.subRunId !== undefined && (job.state === "CANCELLED" || job.state === "TIMEOUT");
  if (!isLeft || step === undefined) return job;
  return { ...job, step: { ...step, isSubRunLeft: true }, dueMs: nowMs + LEFT_MS };
}

function untilThen(job: Job, untilMs: number, timeoutMs: number | null): Job {
  const deadlineMs = timeoutMs === null ? untilMs + DELAY_GRACE_MS : job.deadlineMs;
  return { ...job, deadlineMs, dueMs: Math.min(untilMs, deadlineMs) };
}

function refOf(run: Run, { stepId, kind, index, retry, untilMs, workflowId, version }: Start): StepRef {
  // A whole workflow is not done again unless somebody asked for that.
  const often = retry ?? (kind === "subworkflow" ? NEVER_AGAIN : null);
  const ref: Writable<StepRef> = { runId: run.id, stepId, kind };
  if (index !== null) ref.index = index;
  if (often !== null) ref.retry = often;
  if (untilMs !== undefined) ref.untilMs = untilMs;
  if (workflowId !== undefined) ref.workflowId = workflowId;
  if (version !== undefined) ref.version = version;
  return ref;
}

function deadline(job: Job, timeoutMs: number, { nowMs }: DecisionContext): Pick<Job, "deadlineMs" | "dueMs"> {
  const deadlineMs = nowMs + timeoutMs;
  return { deadlineMs, dueMs: Math.min(job.dueMs, deadlineMs) };
}

/** Stands where a policy's snapshot would: an approval step is asked for by the workflow, whatever the policy says. */
export const STEP_SNAPSHOT = "workflow";

const NEVER_AGAIN = { retriesMax: 0, initialMs: 1_000, maxMs: 60_000, multiplier: 2, jitter: "full" } as const;
const DELAY_GRACE_MS = 24 * 3_600_000;
/** When the sweeper starts a sub-run that the process which made the job has not. */
const START_LEFT_MS = 5_000;
/** When the sweeper stops one that the process which left it has not. */
const LEFT_MS = 5_000;
