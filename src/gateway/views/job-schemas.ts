/** Request and response schemas of jobs, approvals and dead letters. */
import { type TSchema, Type } from "typebox";
import { LABELS_MAX, TEXT_LENGTH_MAX } from "../../core/jobs/submission.ts";
import { JOB_STATES } from "../../core/model/job.ts";
import { NO_APPROVER } from "../auth/approvers.ts";

const text = (description: string) => Type.String({ minLength: 1, maxLength: TEXT_LENGTH_MAX, description });
const names = (description: string) =>
  Type.Array(Type.String({ maxLength: TEXT_LENGTH_MAX }), { maxItems: LABELS_MAX, description });
const orNull = (schema: TSchema) => Type.Union([schema, Type.Null()]);
const instant = (description: string) => Type.String({ format: "date-time", description });
const STATE = Type.Union(JOB_STATES.map((state) => Type.Literal(state)));
const LABELS = Type.Record(Type.String(), Type.String({ maxLength: TEXT_LENGTH_MAX }));
const REASON = { minLength: 1, maxLength: 500 };

const TOKENS = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "Token limit for the worker; 0 for none.",
});
const DURATION = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "Time for all attempts, from the submission; 0 for the default.",
});
const PRIORITY = Type.Union([Type.Literal("interactive"), Type.Literal("batch"), Type.Literal("critical")], {
  default: "batch",
});
const ACTOR_TYPE = Type.Union([Type.Literal("human"), Type.Literal("service")]);
const ENV = Type.Record(Type.String(), Type.String({ maxLength: 4_096 }), {
  description: "Environment for the worker.",
});
const BUDGET = Type.Object(
  {
    max_input_tokens: Type.Optional(TOKENS),
    max_output_tokens: Type.Optional(TOKENS),
    max_total_tokens: Type.Optional(TOKENS),
    deadline_ms: Type.Optional(DURATION),
  },
  { description: "Token limits for the worker; `deadline_ms` also limits the job's deadline." },
);
const CONTEXT_HINTS = Type.Object(
  {
    max_input_tokens: Type.Optional(TOKENS),
    allow_summarization: Type.Optional(Type.Boolean()),
    allow_retrieval: Type.Optional(Type.Boolean()),
    tags: Type.Optional(names("Tags.")),
  },
  { description: "How the worker may build its context." },
);
const COMPENSATION = Type.Object(
  {
    topic: Type.Optional(Type.String()),
    context_ptr: Type.Optional(Type.String()),
    priority: Type.Optional(PRIORITY),
    adapter_id: Type.Optional(text("Adapter.")),
    env: Type.Optional(ENV),
    memory_id: Type.Optional(text("Memory.")),
    context_hints: Type.Optional(CONTEXT_HINTS),
    budget: Type.Optional(BUDGET),
    tenant_id: Type.Optional(text("Tenant.")),
    principal_id: Type.Optional(text("Actor.")),
    labels: Type.Optional(LABELS),
    meta: Type.Optional(
      Type.Object({
        tenant_id: Type.Optional(text("Tenant.")),
        actor_id: Type.Optional(text("Actor.")),
        actor_type: Type.Optional(ACTOR_TYPE),
        idempotency_key: Type.Optional(text("Idempotency key.")),
        capability: Type.Optional(text("Capability.")),
        risk_tags: Type.Optional(names("Risk tags.")),
        requires: Type.Optional(names("Capabilities of the worker.")),
        pack_id: Type.Optional(text("Pack.")),
        labels: Type.Optional(LABELS),
      }),
    ),
  },
  { description: "The job that would undo this one; passed to the worker, not run by Cordum." },
);

export const SUBMIT_BODY = Type.Object({
  topic: Type.String({ minLength: 1, description: "The kind of work, such as `demo.echo`." }),
  input: Type.Optional(Type.Unknown({ description: "Input of the worker; any JSON value." })),
  prompt: Type.Optional(Type.String({ description: "Prompt for an agent, in place of `input`." })),
  context: Type.Optional(Type.Unknown({ description: "Additional context for `prompt`." })),
  adapter_id: Type.Optional(text("Adapter of the agent; also part of the input of a `prompt`.")),
  priority: Type.Optional(PRIORITY),
  labels: Type.Optional(LABELS),
  risk_tags: Type.Optional(names("Risk tags, matched by the policy.")),
  requires: Type.Optional(names("Capabilities that the worker must have.")),
  capability: Type.Optional(text("Capability of the job, matched by the policy.")),
  actor_id: Type.Optional(text("The actor on whose behalf the job runs.")),
  principal_id: Type.Optional(text("Alias of `actor_id`; if both are sent, also passed to the worker.")),
  actor_type: Type.Optional(ACTOR_TYPE),
  pack_id: Type.Optional(text("The pack of the job.")),
  mcp: Type.Optional(
    Type.Object(
      {
        server: Type.Optional(text("MCP server.")),
        tool: Type.Optional(text("MCP tool.")),
        resource: Type.Optional(text("MCP resource.")),
        action: Type.Optional(text("MCP action.")),
      },
      { description: "The MCP call of the job; the policy sees it as the labels `mcp.server`, `mcp.tool` and so on." },
    ),
  ),
  idempotency_key: Type.Optional(text("Idempotency key; also accepted as the header `Idempotency-Key`.")),
  job_id: Type.Optional(text("Job id chosen by the client.")),
  tenant_id: Type.Optional(text("The tenant, in place of the header `X-Tenant-ID`.")),
  org_id: Type.Optional(text("Alias of `tenant_id`.")),
  memory_id: Type.Optional(text("Passed to the worker.")),
  env: Type.Optional(ENV),
  parent_job_id: Type.Optional(text("Passed to the worker.")),
  workflow_id: Type.Optional(text("Workflow of the submitter's own orchestrator; passed to the worker.")),
  step_index: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1, description: "Passed to the worker." })),
  context_hints: Type.Optional(CONTEXT_HINTS),
  budget: Type.Optional(BUDGET),
  compensation: Type.Optional(COMPENSATION),
  deadline_ms: Type.Optional(DURATION),
  max_input_tokens: Type.Optional(TOKENS),
  max_output_tokens: Type.Optional(TOKENS),
  max_total_tokens: Type.Optional(TOKENS),
  allow_summarization: Type.Optional(Type.Boolean({ description: "The same as in `context_hints`." })),
  allow_retrieval: Type.Optional(Type.Boolean({ description: "The same as in `context_hints`." })),
  tags: Type.Optional(names("The same as in `context_hints`.")),
  trace_id: Type.Optional(text("Groups related jobs; see `GET /api/v1/traces/{id}`.")),
});

const REMEDIATION = Type.Object({
  id: Type.String(),
  title: Type.String(),
  summary: orNull(Type.String()),
  replacement_topic: orNull(Type.String()),
  replacement_capability: orNull(Type.String()),
  add_labels: LABELS,
  remove_labels: Type.Array(Type.String()),
});

export const SUBMIT_RESPONSE = Type.Object({
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
});

const HISTORY_LINE = Type.Object({
  at: instant("Time of the event."),
  event: Type.String(),
  attempt: Type.Integer(),
  who: orNull(Type.String()),
  why: orNull(Type.String()),
  retry_class: orNull(Type.String()),
  delay_ms: orNull(Type.Number()),
  policy: orNull(Type.String()),
});

const SAFETY = Type.Object({
  decision: Type.String({ description: "`ALLOW`, `DENY`, `REQUIRE_APPROVAL`, `THROTTLE`, `ALLOW_WITH_CONSTRAINTS`." }),
  rule_id: orNull(Type.String()),
  reason: Type.String(),
  snapshot: Type.String({ description: "Hash of the policy that decided." }),
  bypassed: Type.Boolean({ description: "Dispatched without a safety check, under a fail-open lease." }),
  constraints: Type.Optional(Type.Unknown()),
  remediations: Type.Optional(Type.Array(REMEDIATION)),
});

const APPROVAL = Type.Object({
  job_hash: Type.String(),
  snapshot: Type.String(),
  rule_id: orNull(Type.String()),
  requested_at: instant("When approval was requested."),
  expires_at: instant("When the request expires and the job ends."),
  by_submitter: Type.Boolean(),
  decided_by: orNull(Type.String()),
  decided_at: orNull(Type.String()),
});

const BYPASS = Type.Object({
  lease_id: Type.String(),
  reason: Type.String(),
  at: instant("When the check was bypassed."),
  reviewed_by: orNull(Type.String()),
  reviewed_at: orNull(Type.String()),
});

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
};

const JOB_FIELDS = {
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
  error: orNull(Type.Unknown()),
};
/** Shared by every view that contains payloads. */
export const PAYLOAD_PROBLEMS = Type.Optional(
  Type.Array(Type.String(), { description: "Stored payloads that are missing or damaged; they are shown as null." }),
);
export const JOB = Type.Object(JOB_FIELDS);
const HIDDEN = Type.Array(Type.String(), {
  description: "Paths of redacted values, at most 100; `POST /api/v1/approvals/{id}/reveal` returns them.",
});

export const JOB_DETAIL = Type.Object({
  ...JOB_FIELDS,
  input: Type.Unknown({ description: "Redacted." }),
  hidden: Type.Optional(HIDDEN),
  result: Type.Unknown(),
  payload_problems: PAYLOAD_PROBLEMS,
  history: Type.Array(HISTORY_LINE),
  ...IDEMPOTENCY_KEY,
  ...REQUEST_DETAILS,
  ...RESULT_DETAILS,
});

export const EXPLANATION = Type.Object({
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
  facts: Type.Unknown(),
});

export const DECISIONS = Type.Object({
  job_id: Type.String(),
  safety: orNull(SAFETY),
  approval: orNull(APPROVAL),
  bypass: orNull(BYPASS),
  items: Type.Array(HISTORY_LINE),
  next_cursor: Type.Null(),
});

export const JOB_STATE_CHANGE = Type.Object({
  job_id: Type.String(),
  id: Type.String({ description: "The same as `job_id`." }),
  state: STATE,
});
export const CANCEL_BODY = Type.Object({ reason: Type.Optional(Type.String(REASON)) });
export const REMEDIATE_BODY = Type.Object({
  remediation_id: Type.Optional(text("Id of a remediation of the denial; optional if it offers exactly one.")),
  job_id: Type.Optional(text("Id of the new job.")),
});

export const PENDING_APPROVAL = Type.Object({
  ...SUBMISSION,
  rule_id: orNull(Type.String()),
  reason: orNull(Type.String()),
  job_hash: orNull(Type.String({ description: "Hash of everything that the approval covers." })),
  snapshot: orNull(Type.String()),
  requested_at: orNull(Type.String()),
  expires_at: orNull(Type.String()),
  by_submitter: Type.Boolean({ description: "True if the submitter can approve the job." }),
  input: Type.Unknown({ description: "Redacted." }),
  hidden: HIDDEN,
  ...REQUEST_DETAILS,
});
export const REVEAL_BODY = Type.Object({ reason: Type.String({ ...REASON, description: "For the audit log." }) });
export const REVEALED = Type.Object({
  job_id: Type.String(),
  input: Type.Unknown(),
  labels: LABELS,
  risk_tags: Type.Array(Type.String()),
  ...REQUEST_DETAILS,
});
export const APPROVE_BODY = Type.Object({
  reason: Type.Optional(Type.String({ ...REASON, description: "Why; kept with the decision." })),
  note: Type.Optional(Type.String({ ...REASON, description: "Alias of `reason`." })),
  job_hash: Type.Optional(text("The value that was reviewed; the approval is refused if it has changed.")),
  snapshot: Type.Optional(text("The value that was reviewed; the approval is refused if it has changed.")),
});
export const REJECT_BODY = Type.Object({ reason: Type.String(REASON) });

const DEAD_LETTER_FIELDS = {
  id: Type.String(),
  reason: Type.String(),
  source: Type.String({ description: "`job` or `message`." }),
  tenant_id: Type.String(),
  created_at: instant("When the job or message was dead-lettered."),
  error: Type.Unknown(),
  job_id: Type.Optional(Type.String()),
  topic: Type.Optional(Type.String()),
  attempt: Type.Optional(Type.Integer()),
  subject: Type.Optional(Type.String()),
  message_id: Type.Optional(Type.String()),
  deliveries: Type.Optional(Type.Integer()),
};
export const DEAD_LETTER = Type.Object(DEAD_LETTER_FIELDS);
export const DEAD_LETTER_DETAIL = Type.Object({
  ...DEAD_LETTER_FIELDS,
  history: Type.Array(HISTORY_LINE),
  input: Type.Optional(Type.Unknown()),
  payload_problems: PAYLOAD_PROBLEMS,
  packet: Type.Optional(Type.Unknown({ description: "The redacted message." })),
  base64: Type.Optional(Type.String({ description: "The raw bytes of a message that cannot be decoded." })),
});
export const RETRIED = Type.Object({
  job_id: Type.Optional(Type.String()),
  message_id: Type.Optional(Type.String()),
  subject: Type.Optional(Type.String()),
  state: Type.String({ description: "State of the job; `SENT` for a message." }),
});
export const DROPPED = Type.Object({ id: Type.String(), dropped: Type.Boolean() });
