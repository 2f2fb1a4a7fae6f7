/** Responses about jobs, approvals and dead letters. Errors, reasons and labels are redacted. */
import { REJECTED } from "../../core/jobs/approval.ts";
import { type ExplainContext, type Explanation, waitReasonOf } from "../../core/jobs/explain.ts";
import type { Caller } from "../../core/model/caller.ts";
import type { DeadLetter } from "../../core/model/dead-letter.ts";
import type { Bypass, HistoryLine, Job, JobEvent, Progress, Wait } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { redact, redactText } from "../../core/model/redact.ts";
import type { BudgetUse } from "../../engine/limits/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { fromBase64 } from "../../protocol/base64.ts";
import { decodePacket } from "../../protocol/codec.ts";
import { detailsToJson } from "../../protocol/request-json.ts";
import { usageToJson } from "../../protocol/usage.ts";
import { budgetUseView, holdView } from "./budget-views.ts";
import { type Problematic, problemsView } from "./payloads.ts";
import { evaluationView } from "./policy-views.ts";

type View = Readonly<Record<string, unknown>>;

/** The list view of a job, without payloads. */
export function jobView({ value: job, version }: Versioned<Job>): View {
  return {
    job_id: clientJobId(job.org, job.id),
    id: clientJobId(job.org, job.id),
    state: job.state,
    topic: job.topic,
    tenant_id: job.org,
    priority: job.priority,
    attempt: job.attempt,
    waits_for: waitReasonOf(job),
    wait: job.wait === null ? null : waitView(job.wait),
    safety: job.safety === null ? null : safetyView(job),
    approval: approvalView(job),
    bypass: job.bypass === undefined ? null : bypassView(job.bypass),
    progress: job.progress === undefined ? null : progressView(job.progress),
    ...submissionView(job),
    trace_id: job.traceId,
    worker_id: job.workerId,
    created_at: iso(job.createdMs),
    updated_at: iso(job.updatedMs),
    record_version: version,
    deadline_at: iso(job.deadlineMs),
    error: redact(job.error),
  };
}

function submissionView(job: Job): View {
  return {
    labels: redact(job.labels),
    risk_tags: job.riskTags.map(redactText),
    requires: job.requires,
    capability: job.capability,
    actor_id: job.actorId,
    actor_type: job.actorType ?? null,
    pack_id: job.packId ?? null,
    submitted_by: job.submittedBy ?? null,
    caller: job.caller === undefined ? null : callerView(job, job.caller),
  };
}

function callerView({ org, submittedBy }: Job, { name, role, tenant, person }: Caller): View {
  return {
    key: submittedBy ?? null,
    name: name ?? null,
    role: role ?? null,
    tenant: tenant ?? org,
    person: person ?? null,
  };
}

export function jobDetail(
  found: Versioned<Job>,
  input: unknown,
  result: unknown,
  problems: readonly Problematic[] = [],
): View {
  const job = found.value;
  const history = job.history.map(historyView);
  const budgets = job.budgets === undefined ? {} : { budgets: job.budgets.map((hold) => holdView(job, hold)) };
  const details = { ...requestDetailsView(job), ...resultDetailsView(job), ...budgets };
  return { ...jobView(found), ...keyView(job), input, result, ...problemsView(problems), history, ...details };
}

/** The idempotency key of the submission, if it had one. */
const keyView = ({ idempotencyKey }: Job): View =>
  idempotencyKey === undefined ? {} : { idempotency_key: redactText(idempotencyKey) };

function requestDetailsView({ details }: Job): View {
  return details === undefined ? {} : (redact(detailsToJson(details)) as View);
}

function resultDetailsView({ resultDetails }: Job): View {
  if (resultDetails === undefined) return {};
  const { executionMs, errorCode, errorCodeEnum, artifactPtrs, usage } = resultDetails;
  return {
    ...(executionMs === undefined ? {} : { execution_ms: executionMs }),
    ...(errorCode === undefined ? {} : { error_code: redactText(errorCode) }),
    ...(errorCodeEnum === undefined ? {} : { error_code_enum: String(errorCodeEnum).toUpperCase() }),
    ...(artifactPtrs === undefined ? {} : { artifact_ptrs: artifactPtrs }),
    ...(usage === undefined ? {} : { usage: usageToJson(usage) }),
  };
}

/** A job that awaits approval, with everything that the approval covers. */
export function pendingApprovalView(job: Job, input: unknown, hidden: string[]): View {
  const { approval } = job;
  redact(revealedFields(job), { hidden });
  return {
    job_id: clientJobId(job.org, job.id),
    id: clientJobId(job.org, job.id),
    topic: job.topic,
    tenant_id: job.org,
    priority: job.priority,
    ...submissionView(job),
    rule_id: approval?.ruleId ?? null,
    reason: job.safety?.reason ?? null,
    job_hash: approval?.jobHash ?? null,
    snapshot: approval?.snapshot ?? null,
    requested_at: approval ? iso(approval.requestedMs) : null,
    expires_at: approval ? iso(approval.expiresMs) : null,
    by_submitter: approval?.bySubmitter ?? false,
    input,
    hidden,
    ...requestDetailsView(job),
  };
}

/** What an approval covers besides the input, in full. */
export function revealedFields({ labels, riskTags, details }: Job): View {
  return { labels, risk_tags: riskTags, ...(details === undefined ? {} : detailsToJson(details)) };
}

export function decisionsView(job: Job): View {
  return {
    job_id: clientJobId(job.org, job.id),
    safety: job.safety === null ? null : safetyView(job),
    approval: approvalView(job),
    bypass: job.bypass === undefined ? null : bypassView(job.bypass),
    items: job.history.filter(({ event }) => DECISIONS.has(event)).map(historyView),
    next_cursor: null,
  };
}

export function explanationView(
  job: Job,
  { wait, sentence, unblocks }: Explanation,
  around: ExplainContext,
  budgets: readonly BudgetUse[] = [],
): View {
  return {
    job_id: clientJobId(job.org, job.id),
    state: job.state,
    wait:
      wait === null
        ? null
        : {
            reason: wait.reason,
            since: iso(wait.sinceMs),
            until: iso(wait.untilMs),
            retry_class: wait.retryClass,
            policy: wait.setBy,
          },
    sentence: redactText(sentence),
    unblocks,
    approval: approvalView(job),
    ...(budgets.length === 0 ? {} : { budgets: budgets.map(budgetUseView) }),
    ...shadowView(job),
    facts: {
      window: { full: around.window.isFull, ...around.window.use },
      tenant: around.tenant,
      rule: around.rule,
      backlog: around.backlog,
      workers: around.workers,
      unfit: around.unfit,
      topic_idle: around.isIdle,
      breaker: around.breaker,
      fail_open: around.failOpen && { id: around.failOpen.id, ends_at: iso(around.failOpen.endsMs) },
    },
  };
}

export function deadLetterView(deadLetter: DeadLetter): View {
  const { source } = deadLetter;
  const about =
    source.kind === "job"
      ? { job_id: clientJobId(deadLetter.org, source.jobId), topic: source.topic, attempt: source.attempt }
      : { subject: source.subject, message_id: source.messageId, deliveries: source.deliveries };
  return {
    id: deadLetter.id,
    reason: deadLetter.reason,
    ...(deadLetter.fingerprint === undefined ? {} : { fingerprint: deadLetter.fingerprint }),
    source: source.kind,
    ...about,
    tenant_id: deadLetter.org,
    created_at: iso(deadLetter.createdMs),
    error: redact(deadLetter.error),
  };
}

/** With the input of the job, or the content of the message. */
export function deadLetterDetail(
  deadLetter: DeadLetter,
  input: unknown,
  paths: readonly string[],
  problems: readonly Problematic[] = [],
): View {
  const { source } = deadLetter;
  const history = deadLetter.history.map(historyView);
  switch (source.kind) {
    case "job":
      return { ...deadLetterView(deadLetter), input, ...problemsView(problems), history };
    case "message":
      return { ...deadLetterView(deadLetter), ...contentOf(source.base64, paths), history };
    default:
      return source satisfies never;
  }
}

/** The redacted packet, or the raw bytes of a message that cannot be decoded. */
function contentOf(base64: string, paths: readonly string[]): View {
  try {
    const packet = decodePacket(fromBase64(base64));
    const plain: unknown = JSON.parse(JSON.stringify(packet, (_, part) => (part instanceof Uint8Array ? null : part)));
    return { packet: redact(plain, { paths: paths.map((path) => `body.${path}`) }) };
  } catch {
    return { base64 };
  }
}

const DECISIONS: ReadonlySet<JobEvent> = new Set<JobEvent>([
  "unavailable",
  "throttled",
  "approval_required",
  "approved",
  "rejected",
  "approval_void",
  "approval_expired",
  "bypassed",
  "denied",
]);

function waitView(wait: Wait): View {
  return {
    reason: redactText(wait.reason),
    until: iso(wait.untilMs),
    retry_class: wait.retryClass,
    policy: wait.setBy,
  };
}

const shadowView = ({ safety }: Job): View => {
  const shadow = safety === null ? undefined : evaluationView(safety).shadow;
  return shadow === undefined ? {} : { shadow };
};

function safetyView({ safety, bypass }: Job): View | null {
  if (safety === null) return null;
  const { effect, ruleId, reason, snapshot, constraints, remediations } = safety;
  return {
    decision: effect.toUpperCase(),
    rule_id: ruleId,
    reason,
    snapshot,
    bypassed: bypass !== undefined,
    ...evaluationView(safety),
    ...(constraints === undefined ? {} : { constraints }),
    ...(remediations === undefined ? {} : { remediations: remediations.map(remediationView) }),
  };
}

export function remediationView(remedy: NonNullable<NonNullable<Job["safety"]>["remediations"]>[number]): View {
  return {
    id: remedy.id,
    title: remedy.title,
    summary: remedy.summary ?? null,
    replacement_topic: remedy.replacementTopic ?? null,
    replacement_capability: remedy.replacementCapability ?? null,
    add_labels: remedy.addLabels ?? {},
    remove_labels: remedy.removeLabels ?? [],
  };
}

/** null for a job that needs no approval. */
export function approvalView({ approval, state, error }: Pick<Job, "approval" | "state" | "error">): View | null {
  if (approval === undefined) return null;
  const isRejected = state === "DENIED" && error?.name === REJECTED;
  return {
    job_hash: approval.jobHash,
    snapshot: approval.snapshot,
    rule_id: approval.ruleId,
    requested_at: iso(approval.requestedMs),
    expires_at: iso(approval.expiresMs),
    by_submitter: approval.bySubmitter,
    decision: approval.decidedBy === undefined ? null : isRejected ? "rejected" : "approved",
    decided_by: approval.decidedBy ?? null,
    decided_by_name: approval.decidedByName ?? null,
    decided_at: approval.decidedMs === undefined ? null : iso(approval.decidedMs),
    note: approval.note === undefined ? null : redactText(approval.note),
  };
}

function bypassView(bypass: Bypass): View {
  return {
    lease_id: bypass.leaseId,
    reason: redactText(bypass.reason),
    at: iso(bypass.atMs),
    reviewed_by: bypass.reviewedBy ?? null,
    reviewed_at: bypass.reviewedMs === undefined ? null : iso(bypass.reviewedMs),
  };
}

const progressView = ({ percent, message, atMs, details }: Progress): View => ({
  percent,
  message: message === null ? null : redactText(message),
  at: iso(atMs),
  ...(details?.stepId === undefined ? {} : { step_id: redactText(details.stepId) }),
  ...(details?.status === undefined ? {} : { status: details.status.toUpperCase() }),
  ...(details?.resultPtr === undefined ? {} : { result_ptr: details.resultPtr }),
  ...(details?.artifactPtrs === undefined ? {} : { artifact_ptrs: details.artifactPtrs }),
});

function historyView({ atMs, event, attempt, who, why, retry }: HistoryLine): View {
  return {
    at: iso(atMs),
    event,
    attempt,
    who: who ?? null,
    why: why === undefined ? null : redactText(why),
    retry_class: retry?.retryClass ?? null,
    delay_ms: retry?.delayMs ?? null,
    policy: retry?.setBy ?? null,
  };
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
