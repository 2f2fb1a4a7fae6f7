/** Request and response schemas of jobs, approvals and dead letters. */
import { Type } from "typebox";
import { JOB_STATES } from "../../core/model/job.ts";
import { NO_APPROVER } from "../auth/approvers.ts";
import { BUDGET_HOLD, BUDGET_USE, USAGE as REPORTED_USAGE } from "./budget-views.ts";
import { KEY_NAME } from "./key-names.ts";
import { EVALUATION_FIELDS } from "./policy-schemas.ts";
import { ERROR_INFO, instant, JOB_CONSTRAINTS, json, orNull, RECORD_VERSION } from "./schemas.ts";
import { BUDGET, COMPENSATION, CONTEXT_HINTS, ENV, LABELS, text } from "./submission-schemas.ts";

const STATE = Type.Enum([...JOB_STATES], { title: "JobState" });
const REASON = { minLength: 1, maxLength: 500 };

const REMEDIATION = Type.Object(
  {
    id: Type.String(),
    title: Type.String(),
    summary: orNull(Type.String()),
    replacement_topic: orNull(Type.String()),
    replacement_capability: orNull(Type.String()),
    add_labels: LABELS,
    remove_labels: Type.Array(Type.String()),
  },
  { title: "Remediation" },
);

export const SUBMIT_RESPONSE = Type.Object(
  {
    job_id: Type.String(),
    id: Type.String({ description: "The same as `job_id`." }),
    trace_id: Type.String(),
    state: STATE,
    replayed: Type.Boolean({ description: "True if the job already existed with this key or id." }),
    status: Type.Optional(Type.Literal("approval_required", { description: "The job awaits approval." })),
    reason: Type.Optional(orNull(Type.String())),
    rule_id: Type.Optional(orNull(Type.String())),
    expires_at: Type.Optional(orNull(Type.String())),
    submitter_can_approve: Type.Optional(Type.Boolean({ description: "`by_submitter` of the rule." })),
    no_approver: Type.Optional(NO_APPROVER),
  },
  { title: "SubmitResponse" },
);

const HISTORY_LINE = Type.Object(
  {
    at: instant("Time of the event."),
    event: Type.String(),
    attempt: Type.Integer(),
    who: orNull(Type.String()),
    who_name: KEY_NAME,
    why: orNull(Type.String()),
    retry_class: orNull(Type.String()),
    delay_ms: orNull(Type.Number()),
    policy: orNull(Type.String()),
  },
  { title: "HistoryLine" },
);

const SAFETY = Type.Object(
  {
    decision: Type.String({
      description: "`ALLOW`, `DENY`, `REQUIRE_APPROVAL`, `THROTTLE`, `ALLOW_WITH_CONSTRAINTS`.",
    }),
    rule_id: orNull(Type.String()),
    reason: Type.String(),
    snapshot: Type.String({ description: "Hash of the policy that decided." }),
    ...EVALUATION_FIELDS,
    bypassed: Type.Boolean({ description: "Dispatched without a safety check, under a fail-open lease." }),
    constraints: Type.Optional(JOB_CONSTRAINTS),
    remediations: Type.Optional(Type.Array(REMEDIATION)),
  },
  { title: "JobSafety" },
);

export const APPROVAL = Type.Object(
  {
    job_hash: Type.String(),
    snapshot: Type.String(),
    rule_id: orNull(Type.String()),
    requested_at: instant("When approval was requested."),
    expires_at: instant("When the request expires and the job ends."),
    by_submitter: Type.Boolean(),
    decision: orNull(Type.Enum(["approved", "rejected"])),
    decided_by: orNull(Type.String({ description: "The id of the key that approved or rejected." })),
    decided_by_name: orNull(Type.String({ description: "The name that the key had then." })),
    decided_at: orNull(Type.String()),
    note: orNull(Type.String({ description: "What the approver wrote." })),
  },
  { title: "JobApproval" },
);

const BYPASS = Type.Object(
  {
    lease_id: Type.String(),
    reason: Type.String(),
    at: instant("When the check was bypassed."),
    reviewed_by: orNull(Type.String()),
    reviewed_by_name: Type.Optional(KEY_NAME),
    reviewed_at: orNull(Type.String()),
  },
  { title: "JobBypass" },
);

/** Fields shared by jobs and approvals. */
const SUBMISSION = {
  job_id: Type.String(),
  id: Type.String({ description: "The same as `job_id`." }),
  topic: Type.String(),
  tenant_id: Type.String(),
  priority: Type.String(),
  labels: LABELS,
  risk_tags: Type.Array(Type.String()),
  requires: Type.Array(Type.String()),
  capability: orNull(Type.String()),
  actor_id: orNull(Type.String()),
  actor_type: orNull(Type.String()),
  pack_id: orNull(Type.String()),
  submitted_by: orNull(Type.String()),
  caller: orNull(
    Type.Object(
      {
        key: orNull(Type.String()),
        name: orNull(Type.String()),
        role: orNull(Type.String()),
        tenant: Type.String(),
        person: orNull(Type.String()),
      },
      { description: "The authenticated submitter, as policies see it; null if it is not authenticated." },
    ),
  ),
};

/** Optional fields of a CAP request; absent if the submitter set none. */
export const REQUEST_DETAILS = {
  adapter_id: Type.Optional(Type.String()),
  env: Type.Optional(ENV),
  parent_job_id: Type.Optional(Type.String()),
  workflow_id: Type.Optional(Type.String({ description: "Workflow of the submitter's own orchestrator." })),
  step_index: Type.Optional(Type.Integer()),
  memory_id: Type.Optional(Type.String()),
  context_hints: Type.Optional(CONTEXT_HINTS),
  budget: Type.Optional(BUDGET),
  compensation: Type.Optional(COMPENSATION),
  principal_id: Type.Optional(Type.String({ description: "The submitted principal, if it differs from `actor_id`." })),
};

/** Of the submission; absent if it had none. */
export const IDEMPOTENCY_KEY = { idempotency_key: Type.Optional(Type.String()) };

/** Optional fields of the last result; absent if the worker sent none. */
const RESULT_DETAILS = {
  execution_ms: Type.Optional(Type.Number({ description: "Measured by the worker." })),
  error_code: Type.Optional(Type.String()),
  error_code_enum: Type.Optional(Type.String({ description: "CAP error code, such as `TIMEOUT`, or its number." })),
  artifact_ptrs: Type.Optional(Type.Array(Type.String())),
  usage: Type.Optional(REPORTED_USAGE),
  budgets: Type.Optional(
    Type.Array(BUDGET_HOLD, { description: "What the job reserves and has spent of the budgets of its rule." }),
  ),
};

const JOB_FIELDS = {
  record_version: RECORD_VERSION,
  ...SUBMISSION,
  state: STATE,
  attempt: Type.Integer({ description: "Number of dispatches so far." }),
  waits_for: orNull(Type.String({ description: "What the job waits for; see `explain`." })),
  wait: orNull(
    Type.Object({
      reason: Type.String(),
      until: instant("Time of the next attempt."),
      retry_class: Type.String(),
      policy: Type.String(),
    }),
  ),
  safety: orNull(SAFETY),
  approval: orNull(APPROVAL),
  bypass: orNull(BYPASS),
  progress: orNull(
    Type.Object({
      percent: orNull(Type.Number()),
      message: orNull(Type.String()),
      at: instant("Time of the report."),
      step_id: Type.Optional(Type.String()),
      status: Type.Optional(Type.String()),
      result_ptr: Type.Optional(Type.String({ description: "Of an intermediate result; the worker's own name." })),
      artifact_ptrs: Type.Optional(Type.Array(Type.String())),
    }),
  ),
  trace_id: Type.String(),
  worker_id: orNull(Type.String()),
  created_at: instant("Time of submission."),
  updated_at: instant("Time of the last change."),
  deadline_at: instant("When the job ends as TIMEOUT."),
  error: orNull(ERROR_INFO),
};
/** Shared by every view that contains payloads. */
export const PAYLOAD_PROBLEMS = Type.Optional(
  Type.Array(Type.String(), { description: "Stored payloads that are missing or damaged; they are shown as null." }),
);
export const JOB = Type.Object(JOB_FIELDS, { title: "Job" });
const HIDDEN = Type.Array(Type.String(), {
  description: "Paths of redacted values, at most 100; `POST /api/v1/approvals/{id}/reveal` returns them.",
});

export const JOB_DETAIL = Type.Object(
  {
    ...JOB_FIELDS,
    input: json("Redacted."),
    hidden: Type.Optional(HIDDEN),
    result: json("Null without a result."),
    payload_problems: PAYLOAD_PROBLEMS,
    history: Type.Array(HISTORY_LINE),
    ...IDEMPOTENCY_KEY,
    ...REQUEST_DETAILS,
    ...RESULT_DETAILS,
  },
  { title: "JobDetail" },
);

const USAGE = { used: Type.Integer(), max: Type.Integer() };
const EXPLAIN_FACTS = Type.Object(
  {
    window: Type.Object({
      full: Type.Boolean(),
      used: Type.Optional(Type.Integer()),
      max: Type.Optional(Type.Integer()),
    }),
    tenant: orNull(Type.Object(USAGE)),
    rule: orNull(Type.Object(USAGE)),
    backlog: Type.Object({ topic: orNull(Type.Integer()), tenant: Type.Integer() }),
    workers: Type.Object({ serving: Type.Integer(), free: Type.Integer() }),
    unfit: orNull(Type.String({ description: "Why no worker is eligible now." })),
    topic_idle: Type.Boolean({ description: "The last dispatch to the topic found no worker." }),
    breaker: orNull(Type.String({ description: "Why the circuit breaker blocks safety checks." })),
    fail_open: orNull(Type.Object({ id: Type.String(), ends_at: instant("End of the fail-open lease.") })),
  },
  { title: "JobExplanationFacts" },
);

export const EXPLANATION = Type.Object(
  {
    job_id: Type.String(),
    state: STATE,
    wait: orNull(
      Type.Object({
        reason: Type.String(),
        since: instant("Start of the wait."),
        until: instant("End of the wait at the latest."),
        retry_class: orNull(Type.String()),
        policy: orNull(Type.String({ description: "The policy that chose the delay." })),
      }),
    ),
    sentence: Type.String(),
    unblocks: Type.Array(Type.Object({ what: Type.String(), command: orNull(Type.String()) })),
    approval: orNull(APPROVAL),
    budgets: Type.Optional(
      Type.Array(BUDGET_USE, { description: "What is left of the budgets that the job counts towards." }),
    ),
    shadow: EVALUATION_FIELDS.shadow,
    facts: EXPLAIN_FACTS,
  },
  { title: "JobExplanation" },
);

export const DECISIONS = Type.Object(
  {
    job_id: Type.String(),
    safety: orNull(SAFETY),
    approval: orNull(APPROVAL),
    bypass: orNull(BYPASS),
    items: Type.Array(HISTORY_LINE),
    next_cursor: Type.Null(),
  },
  { title: "JobDecisions" },
);

export const JOB_STATE_CHANGE = Type.Object(
  {
    job_id: Type.String(),
    id: Type.String({ description: "The same as `job_id`." }),
    state: STATE,
  },
  { title: "JobStateChange" },
);
export const CANCEL_BODY = Type.Object({ reason: Type.Optional(Type.String(REASON)) }, { title: "CancelRequest" });
export const REMEDIATE_BODY = Type.Object(
  {
    remediation_id: Type.Optional(text("Id of a remediation of the denial; optional if it offers exactly one.")),
    job_id: Type.Optional(text("Id of the new job.")),
  },
  { title: "RemediateRequest" },
);

export const PENDING_APPROVAL = Type.Object(
  {
    ...SUBMISSION,
    rule_id: orNull(Type.String()),
    reason: orNull(Type.String()),
    job_hash: orNull(Type.String({ description: "Hash of everything that the approval covers." })),
    snapshot: orNull(Type.String()),
    requested_at: orNull(Type.String()),
    expires_at: orNull(Type.String()),
    by_submitter: Type.Boolean({ description: "True if the submitter can approve the job." }),
    input: json("Redacted."),
    hidden: HIDDEN,
    ...REQUEST_DETAILS,
  },
  { title: "Approval" },
);
export const REVEAL_BODY = Type.Object({ reason: Type.String({ ...REASON, description: "For the audit log." }) });
export const REVEALED = Type.Object(
  {
    job_id: Type.String(),
    input: json("Unredacted."),
    labels: LABELS,
    risk_tags: Type.Array(Type.String()),
    ...REQUEST_DETAILS,
  },
  { title: "RevealedApproval" },
);
export const APPROVE_BODY = Type.Object(
  {
    reason: Type.Optional(Type.String({ ...REASON, description: "Why; kept with the decision." })),
    note: Type.Optional(Type.String({ ...REASON, description: "Alias of `reason`." })),
    job_hash: Type.Optional(text("The value that was reviewed; the approval is refused if it has changed.")),
    snapshot: Type.Optional(text("The value that was reviewed; the approval is refused if it has changed.")),
  },
  { title: "ApproveRequest" },
);
export const REJECT_BODY = Type.Object({ reason: Type.String(REASON) }, { title: "RejectRequest" });

const DEAD_LETTER_FIELDS = {
  fingerprint: Type.Optional(Type.String({ description: "The group: see `GET /api/v1/dlq/groups`." })),
  id: Type.String(),
  reason: Type.String(),
  source: Type.String({ description: "`job` or `message`." }),
  tenant_id: Type.String(),
  created_at: instant("When the job or message was dead-lettered."),
  error: orNull(ERROR_INFO),
  job_id: Type.Optional(Type.String()),
  topic: Type.Optional(Type.String()),
  attempt: Type.Optional(Type.Integer()),
  subject: Type.Optional(Type.String()),
  message_id: Type.Optional(Type.String()),
  deliveries: Type.Optional(Type.Integer()),
};
export const DEAD_LETTER = Type.Object(DEAD_LETTER_FIELDS, { title: "DeadLetter" });
export const DEAD_LETTER_DETAIL = Type.Object(
  {
    ...DEAD_LETTER_FIELDS,
    history: Type.Array(HISTORY_LINE),
    input: Type.Optional(json("Redacted input of the job.")),
    payload_problems: PAYLOAD_PROBLEMS,
    packet: Type.Optional(json("The redacted message.")),
    base64: Type.Optional(Type.String({ description: "The raw bytes of a message that cannot be decoded." })),
  },
  { title: "DeadLetterDetail" },
);
export const RETRIED = Type.Object(
  {
    job_id: Type.Optional(Type.String()),
    message_id: Type.Optional(Type.String()),
    subject: Type.Optional(Type.String()),
    state: Type.String({ description: "State of the job; `SENT` for a message." }),
  },
  { title: "DeadLetterRetried" },
);
export const DROPPED = Type.Object({ id: Type.String(), dropped: Type.Boolean() }, { title: "DeadLetterDropped" });
