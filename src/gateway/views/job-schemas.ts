/** What the routes of jobs, approvals and dead letters take and give: for the check of requests and for the document. */
import { type TSchema, Type } from "typebox";
import { LABELS_MAX, TEXT_LENGTH_MAX } from "../../core/jobs/submission.ts";
import { JOB_STATES } from "../../core/model/job.ts";

const text = (description: string) => Type.String({ minLength: 1, maxLength: TEXT_LENGTH_MAX, description });
const names = (description: string) =>
  Type.Array(Type.String({ maxLength: TEXT_LENGTH_MAX }), { maxItems: LABELS_MAX, description });
const orNull = (schema: TSchema) => Type.Union([schema, Type.Null()]);
const instant = (description: string) => Type.String({ format: "date-time", description });
const STATE = Type.Union(JOB_STATES.map((state) => Type.Literal(state)));
const LABELS = Type.Record(Type.String(), Type.String({ maxLength: TEXT_LENGTH_MAX }));
const WHY = { minLength: 1, maxLength: 500 };

export const SUBMIT_BODY = Type.Object({
  topic: Type.String({ minLength: 1, description: "What kind of work it is, such as `demo.echo`." }),
  input: Type.Optional(Type.Unknown({ description: "What the worker gets. Any JSON value." })),
  prompt: Type.Optional(Type.String({ description: "In place of `input`: what an agent is asked." })),
  context: Type.Optional(Type.Unknown({ description: "With `prompt`: what else the agent should know." })),
  adapter_id: Type.Optional(text("With `prompt`: how the agent is reached.")),
  priority: Type.Optional(
    Type.Union([Type.Literal("interactive"), Type.Literal("batch"), Type.Literal("critical")], { default: "batch" }),
  ),
  labels: Type.Optional(LABELS),
  risk_tags: Type.Optional(names("What is dangerous about it, for the policy.")),
  requires: Type.Optional(names("What a worker must be able to do.")),
  capability: Type.Optional(text("What it makes use of, for the policy.")),
  actor_id: Type.Optional(text("On whose behalf it is done.")),
  principal_id: Type.Optional(text("Another name of `actor_id`.")),
  actor_type: Type.Optional(Type.Union([Type.Literal("human"), Type.Literal("service")])),
  pack_id: Type.Optional(text("The pack that it belongs to.")),
  mcp: Type.Optional(
    Type.Object(
      {
        server: Type.Optional(text("The server.")),
        tool: Type.Optional(text("The tool.")),
        resource: Type.Optional(text("The resource.")),
        action: Type.Optional(text("What is done with it.")),
      },
      { description: "The MCP call that it makes; the policy sees it as the labels `mcp.server` and so on." },
    ),
  ),
  idempotency_key: Type.Optional(text("The same again is the same job; also as the header `Idempotency-Key`.")),
  job_id: Type.Optional(text("An id of the client's own.")),
  trace_id: Type.Optional(text("What it belongs to.")),
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

export const SUBMIT_ANSWER = Type.Object({
  job_id: Type.String(),
  trace_id: Type.String(),
  state: STATE,
  replayed: Type.Boolean({ description: "The job was there before, by its key or its id." }),
  status: Type.Optional(Type.Literal("approval_required", { description: "A human must decide first." })),
  reason: Type.Optional(orNull(Type.String())),
  rule_id: Type.Optional(orNull(Type.String())),
  expires_at: Type.Optional(orNull(Type.String())),
});

const LINE = Type.Object({
  at: instant("When."),
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
  snapshot: Type.String({ description: "Of the policy that decided." }),
  bypassed: Type.Boolean({ description: "Sent out without a verdict, under a fail-open lease." }),
  constraints: Type.Optional(Type.Unknown()),
  remediations: Type.Optional(Type.Array(REMEDIATION)),
});

const APPROVAL = Type.Object({
  job_hash: Type.String(),
  snapshot: Type.String(),
  rule_id: orNull(Type.String()),
  requested_at: instant("When it was asked for."),
  expires_at: instant("When the job ends without it."),
  by_submitter: Type.Boolean(),
  decided_by: orNull(Type.String()),
  decided_at: orNull(Type.String()),
});

const BYPASS = Type.Object({
  lease_id: Type.String(),
  reason: Type.String(),
  at: instant("When."),
  reviewed_by: orNull(Type.String()),
  reviewed_at: orNull(Type.String()),
});

/** What a job and an approval have in common. */
const ASKED = {
  job_id: Type.String(),
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
};

const JOB_FIELDS = {
  ...ASKED,
  state: STATE,
  attempt: Type.Integer({ description: "Dispatches so far." }),
  waits_for: orNull(Type.String({ description: "Why it does not move; `explain` says more." })),
  wait: orNull(
    Type.Object({ reason: Type.String(), until: instant("Until."), retry_class: Type.String(), policy: Type.String() }),
  ),
  safety: orNull(SAFETY),
  approval: orNull(APPROVAL),
  bypass: orNull(BYPASS),
  progress: orNull(
    Type.Object({ percent: orNull(Type.Number()), message: orNull(Type.String()), at: instant("When.") }),
  ),
  trace_id: Type.String(),
  worker_id: orNull(Type.String()),
  created_at: instant("When it was submitted."),
  updated_at: instant("When it last changed."),
  deadline_at: instant("When it ends as TIMEOUT, whatever it waits for."),
  error: orNull(Type.Unknown()),
};
export const JOB = Type.Object(JOB_FIELDS);
export const JOB_DETAIL = Type.Object({
  ...JOB_FIELDS,
  input: Type.Unknown({ description: "Without secrets." }),
  result: Type.Unknown(),
  history: Type.Array(LINE),
});

export const EXPLANATION = Type.Object({
  job_id: Type.String(),
  state: STATE,
  wait: orNull(
    Type.Object({
      reason: Type.String(),
      since: instant("Since."),
      until: instant("Until."),
      retry_class: orNull(Type.String()),
      policy: orNull(Type.String({ description: "Who chose the time." })),
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
  items: Type.Array(LINE),
  next_cursor: Type.Null(),
});

export const MOVED = Type.Object({ job_id: Type.String(), state: STATE });
export const CANCEL_BODY = Type.Object({ reason: Type.Optional(Type.String(WHY)) });
export const REMEDIATE_BODY = Type.Object({
  remediation_id: Type.Optional(text("One of the `remediations` of the denial; may be left out where there is one.")),
  job_id: Type.Optional(text("An id for the new job.")),
});

export const WAITING = Type.Object({
  ...ASKED,
  rule_id: orNull(Type.String()),
  reason: orNull(Type.String()),
  job_hash: orNull(Type.String({ description: "Of everything that is decided about." })),
  snapshot: orNull(Type.String()),
  requested_at: orNull(Type.String()),
  expires_at: orNull(Type.String()),
  by_submitter: Type.Boolean({ description: "Whoever submitted it may approve it." }),
  input: Type.Unknown({ description: "Without secrets." }),
});
export const APPROVE_BODY = Type.Object({
  note: Type.Optional(Type.String(WHY)),
  job_hash: Type.Optional(text("As it was shown: another one is refused.")),
  snapshot: Type.Optional(text("As it was shown: another one is refused.")),
});
export const REJECT_BODY = Type.Object({ reason: Type.String(WHY) });

const LETTER_FIELDS = {
  id: Type.String(),
  reason: Type.String(),
  source: Type.String({ description: "`job` or `message`." }),
  tenant_id: Type.String(),
  created_at: instant("When it was given up."),
  error: Type.Unknown(),
  job_id: Type.Optional(Type.String()),
  topic: Type.Optional(Type.String()),
  attempt: Type.Optional(Type.Integer()),
  subject: Type.Optional(Type.String()),
  message_id: Type.Optional(Type.String()),
  deliveries: Type.Optional(Type.Integer()),
};
export const LETTER = Type.Object(LETTER_FIELDS);
export const LETTER_DETAIL = Type.Object({
  ...LETTER_FIELDS,
  history: Type.Array(LINE),
  input: Type.Optional(Type.Unknown()),
  packet: Type.Optional(Type.Unknown({ description: "The message, without its secrets." })),
  base64: Type.Optional(Type.String({ description: "The bytes of a message that cannot be read." })),
});
export const RETRIED = Type.Object({
  job_id: Type.Optional(Type.String()),
  message_id: Type.Optional(Type.String()),
  subject: Type.Optional(Type.String()),
  state: Type.String({ description: "Of the job; `SENT` for a message." }),
});
export const DROPPED = Type.Object({ id: Type.String(), dropped: Type.Boolean() });
