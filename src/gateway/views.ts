/** Records as clients see them: snake case, times as ISO 8601 in UTC, payloads only where one record is asked for. */
import type { DeadLetter } from "../model/dead-letter.ts";
import type { Attempt, Job, Wait } from "../model/job.ts";

/** A job without its payloads, as lists show it. */
export function jobView(job: Job): Readonly<Record<string, unknown>> {
  return {
    job_id: job.id,
    state: job.state,
    topic: job.topic,
    tenant_id: job.org,
    priority: job.priority,
    attempt: job.attempt,
    wait: job.wait === null ? null : waitView(job.wait),
    safety: job.safety === null ? null : safetyView(job.safety),
    labels: job.labels,
    risk_tags: job.riskTags,
    requires: job.requires,
    capability: job.capability,
    actor_id: job.actorId,
    trace_id: job.traceId,
    worker_id: job.workerId,
    created_at: iso(job.createdMs),
    updated_at: iso(job.updatedMs),
    deadline_at: iso(job.deadlineMs),
    error: job.error,
  };
}

export function jobDetail(job: Job, input: unknown, result: unknown): Readonly<Record<string, unknown>> {
  return { ...jobView(job), input, result, history: job.history.map(attemptView) };
}

export function deadLetterView(letter: DeadLetter): Readonly<Record<string, unknown>> {
  const { source } = letter;
  const about =
    source.kind === "job"
      ? { job_id: source.jobId, topic: source.topic, attempt: source.attempt }
      : { subject: source.subject, message_id: source.messageId, deliveries: source.deliveries };
  return {
    id: letter.id,
    reason: letter.reason,
    source: source.kind,
    ...about,
    tenant_id: letter.org,
    created_at: iso(letter.createdMs),
    error: letter.error,
  };
}

/** With what could not be done: the job's input, or the message's bytes. */
export function deadLetterDetail(letter: DeadLetter, input: unknown): Readonly<Record<string, unknown>> {
  const { source } = letter;
  const history = letter.history.map(attemptView);
  switch (source.kind) {
    case "job":
      return { ...deadLetterView(letter), input, history };
    case "message":
      return { ...deadLetterView(letter), base64: source.base64, history };
    default:
      return source satisfies never;
  }
}

function waitView(wait: Wait): object {
  return { reason: wait.reason, until: iso(wait.untilMs), retry_class: wait.retryClass, policy: wait.setBy };
}

function safetyView({ effect, ruleId, reason, snapshot }: NonNullable<Job["safety"]>): object {
  return { decision: effect.toUpperCase(), rule_id: ruleId, reason, snapshot, bypassed: false };
}

function attemptView(line: Attempt): object {
  return {
    attempt: line.attempt,
    at: iso(line.atMs),
    outcome: line.outcome,
    error: line.error,
    retry_class: line.retryClass,
    delay_ms: line.delayMs,
    policy: line.setBy,
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
