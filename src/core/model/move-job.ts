import { JOB_MOVES, type Job, type JobState } from "./job.ts";
import type { Writable } from "./writable.ts";

/** The job in its next state. It is a copy, and the caller's to complete. */
export function moveJob(job: Job, to: JobState, nowMs: number): Writable<Job> {
  const legal: readonly JobState[] = JOB_MOVES[job.state];
  if (!legal.includes(to)) throw new IllegalMove(`job \`${job.id}\` cannot go from ${job.state} to ${to}`);
  const next = copyOf(job);
  next.wait = null;
  next.state = to;
  next.updatedMs = nowMs;
  return next;
}

export class IllegalMove extends Error {
  override readonly name = "IllegalMove";
}

/**
 * Written out, and not spread: so all jobs have their fields in one order and at the same places, whatever they have been
 * through, and all code that reads them is fast. A chain of spreads gives a job of each history a shape of its own, and
 * then a copy takes ten times as long, and so does writing it down.
 */
function copyOf(job: Job): Writable<Job> {
  const copy: Writable<Job> = {
    id: job.id,
    org: job.org,
    topic: job.topic,
    priority: job.priority,
    state: job.state,
    createdMs: job.createdMs,
    updatedMs: job.updatedMs,
    deadlineMs: job.deadlineMs,
    dueMs: job.dueMs,
    traceId: job.traceId,
    actorId: job.actorId,
    capability: job.capability,
    riskTags: job.riskTags,
    requires: job.requires,
    labels: job.labels,
    input: job.input,
    output: job.output,
    safety: job.safety,
    attempt: job.attempt,
    dispatchedMs: job.dispatchedMs,
    workerId: job.workerId,
    wait: job.wait,
    patience: job.patience,
    error: job.error,
    history: job.history,
  };
  if (job.submittedBy !== undefined) copy.submittedBy = job.submittedBy;
  if (job.actorType !== undefined) copy.actorType = job.actorType;
  if (job.packId !== undefined) copy.packId = job.packId;
  if (job.traceparent !== undefined) copy.traceparent = job.traceparent;
  if (job.approval !== undefined) copy.approval = job.approval;
  if (job.bypass !== undefined) copy.bypass = job.bypass;
  if (job.leaseId !== undefined) copy.leaseId = job.leaseId;
  if (job.progress !== undefined) copy.progress = job.progress;
  if (job.failures !== undefined) copy.failures = job.failures;
  if (job.step !== undefined) copy.step = job.step;
  return copy;
}
