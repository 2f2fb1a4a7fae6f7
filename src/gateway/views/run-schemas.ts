/** Request and response schemas of workflows and runs. */
import { Type } from "typebox";
import { LABELS_MAX, TEXT_LENGTH_MAX } from "../../core/jobs/submission.ts";
import { RUN_STATES } from "../../core/model/run.ts";
import { WORKFLOW_LIMITS } from "../../core/workflow/definition/limits.ts";
import { EVENT_IDS_MAX, EVENT_TEXT_MAX } from "../../core/workflow/run/wait.ts";
import { RUN_COMPENSATION, STEP_COMPENSATION } from "./compensation-schemas.ts";
import { APPROVAL, PAYLOAD_PROBLEMS } from "./job-schemas.ts";
import { KEY_NAME, SUBMITTER_NAME } from "./key-names.ts";
import { ERROR_INFO, instant, json, orNull, RECORD_VERSION } from "./schemas.ts";

const text = (description: string) => Type.String({ minLength: 1, maxLength: TEXT_LENGTH_MAX, description });
const STATE = Type.Enum([...RUN_STATES], { title: "RunState" });
const LABELS = Type.Record(Type.String(), Type.String({ maxLength: TEXT_LENGTH_MAX }), { maxProperties: LABELS_MAX });
const VERSION = Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: "Defaults to the latest version." });
const REASON = Type.String({ minLength: 1, maxLength: 500 });
const KEY = text("Idempotency key; also accepted as the header `Idempotency-Key`.");
const INPUT = json("Input of the run. Defaults to `{}`.");

/** Left open: definitions are validated by the workflow compiler. */
export const APPLY_BODY = Type.Object(
  {
    source: Type.Optional(
      Type.String({ description: "The definition as YAML or JSON text, in place of all other fields." }),
    ),
    file: Type.Optional(text("The file name of `source`, for error messages.")),
    id: Type.Optional(json("Workflow id; an existing id creates a new version.")),
    steps: Type.Optional(json("Steps by id.")),
  },
  {
    title: "WorkflowDefinition",
    additionalProperties: true,
    description: "The definition, or `{source, file}`; also accepted as `application/yaml`.",
  },
);
export const APPLIED = Type.Object(
  {
    workflow_id: Type.String(),
    version: Type.Integer(),
    created: Type.Boolean({ description: "False if the definition equals the latest version." }),
  },
  { title: "WorkflowApplied" },
);

const WORKFLOW_FIELDS = {
  workflow_id: Type.String(),
  version: Type.Integer(),
  tenant_id: Type.String(),
  hash: Type.String({ description: "Hash of the definition, independent of key order." }),
  created_at: instant("When the workflow was first applied; for a version, when that version was applied."),
};
export const WORKFLOW = Type.Object(
  {
    ...WORKFLOW_FIELDS,
    name: orNull(Type.String()),
    updated_at: instant("When the latest version was applied."),
  },
  { title: "Workflow" },
);
export const WORKFLOW_VERSION = Type.Object(
  { ...WORKFLOW_FIELDS, created_by: orNull(Type.String()), created_by_name: KEY_NAME },
  { title: "WorkflowVersion" },
);
export const WORKFLOW_DETAIL = Type.Object(
  {
    ...WORKFLOW_FIELDS,
    created_by: orNull(Type.String()),
    created_by_name: KEY_NAME,
    definition: Type.Record(Type.String(), json("A field of the definition."), {
      description: "The definition as applied.",
    }),
  },
  { title: "WorkflowDetail" },
);
export const WORKFLOW_QUERY = Type.Object({ version: Type.Optional(VERSION) });
const JSON_SCHEMA = json("A JSON Schema, or null for any value.");
export const WORKFLOW_SCHEMAS = Type.Object(
  {
    workflow_id: Type.String(),
    version: Type.Integer(),
    input_schema: JSON_SCHEMA,
    steps: Type.Record(Type.String(), Type.Object({ input_schema: JSON_SCHEMA, output_schema: JSON_SCHEMA })),
  },
  { title: "WorkflowSchemas" },
);
export const WORKFLOW_DELETED = Type.Object(
  { workflow_id: Type.String(), deleted: Type.Boolean() },
  { title: "WorkflowDeleted" },
);

/** Shared by start and dry run. */
const START_FIELDS = {
  input: Type.Optional(INPUT),
  version: Type.Optional(VERSION),
  labels: Type.Optional(LABELS),
  priority: Type.Optional(
    Type.Union([Type.Literal("interactive"), Type.Literal("batch"), Type.Literal("critical")], {
      description: "Priority of jobs whose step defines none.",
    }),
  ),
  actor_id: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: TEXT_LENGTH_MAX,
      pattern: "^[A-Za-z0-9_.:@-]+$",
      description: "The actor on whose behalf the run is done.",
    }),
  ),
};
export const START_BODY = Type.Object(
  { ...START_FIELDS, idempotency_key: Type.Optional(KEY) },
  { title: "StartRequest" },
);
const STARTED_FIELDS = {
  run_id: Type.String(),
  workflow_id: Type.String(),
  version: Type.Optional(Type.Integer({ description: "Only if the request named a version." })),
  state: STATE,
  replayed: Type.Boolean({ description: "True if the run already existed with this key." }),
};
export const STARTED = Type.Object(STARTED_FIELDS, { title: "RunStarted" });
export const RUN_STATE_CHANGE = Type.Object({ run_id: Type.String(), state: STATE }, { title: "RunStateChange" });
export const RUN_DELETED = Type.Object({ run_id: Type.String(), deleted: Type.Boolean() }, { title: "RunDeleted" });
export const CONTROL_BODY = Type.Object({ reason: Type.Optional(REASON) }, { title: "RunControlRequest" });
export const CANCEL_BODY = Type.Object(
  {
    reason: Type.Optional(REASON),
    compensate: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          "`false`: completed steps are not undone; also stops the compensation of a run that is ending. Requires `operate` access.",
      }),
    ),
  },
  { title: "RunCancelRequest" },
);

export const EVENT_BODY = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: WORKFLOW_LIMITS.idLength, pattern: "^[A-Za-z0-9_.:/-]+$" }),
    data: Type.Optional(json("Output of the `wait` step that takes the event. Defaults to null.")),
    correlation_key: Type.Optional(
      Type.Union([Type.String({ maxLength: EVENT_TEXT_MAX }), Type.Number()], {
        description: "A `wait` step with `correlate` takes only events with an equal key; compared as text.",
      }),
    ),
    event_id: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: EVENT_TEXT_MAX,
        description: `Makes the request repeatable: among the latest ${EVENT_IDS_MAX} ids of a run, an event is applied once.`,
      }),
    ),
  },
  { title: "RunEventRequest" },
);
export const EVENT_ACCEPTED = Type.Object(
  {
    run_id: Type.String(),
    outcome: Type.Enum(["delivered", "kept", "duplicate"], {
      description: "`kept`: no step waits for it yet. `duplicate`: an event with this id was accepted before.",
    }),
    step_id: orNull(Type.String({ description: "The step that took the event." })),
  },
  { title: "RunEventAccepted" },
);

export const DRY_BODY = Type.Object(START_FIELDS, { title: "DryRunRequest" });
const VERDICT = {
  decision: orNull(
    Type.Object({
      decision: Type.String(),
      rule_id: orNull(Type.String()),
      reason: Type.String(),
      snapshot: Type.String(),
    }),
  ),
  unavailable: orNull(Type.String({ description: "Why the policy could not be evaluated." })),
};
const DRY_STEP = Type.Object(
  {
    step_id: Type.String(),
    type: Type.String(),
    topic: orNull(Type.String()),
    depends_on: Type.Array(Type.String()),
    input: json("Redacted input of the worker; null if unknown."),
    input_known: Type.Boolean({ description: "False if the input depends on outputs of other steps." }),
    problem: orNull(Type.String({ description: "Why the step would fail, if already known." })),
    ...VERDICT,
    compensation: orNull(
      Type.Object(
        { topic: Type.String(), ...VERDICT },
        { description: "The job that undoes the step; decided without its input, which depends on the step's output." },
      ),
    ),
  },
  { title: "DryRunStep" },
);
const DRY_FIELDS = { workflow_id: Type.String(), version: Type.Integer(), steps: Type.Array(DRY_STEP) };
export const DRY = Type.Object(DRY_FIELDS, { title: "DryRun" });

export const RERUN_BODY = Type.Object(
  {
    from_step: Type.String({
      minLength: 1,
      maxLength: 64,
      description: "The first step to repeat; all steps after it are repeated too.",
    }),
    dry_run: Type.Optional(Type.Boolean({ default: false, description: "Return the plan without starting a run." })),
    keep_approvals: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          "Keep the approvals before `from_step` instead of asking again; requires `operate` access; audited.",
      }),
    ),
    idempotency_key: Type.Optional(KEY),
  },
  { title: "RerunRequest" },
);
export const RERUN_RESPONSE = Type.Union(
  [
    Type.Object({ ...STARTED_FIELDS, rerun_of: Type.String(), from_step: Type.String() }),
    Type.Object({ ...DRY_FIELDS, rerun_of: Type.String(), from_step: Type.String(), dry_run: Type.Literal(true) }),
  ],
  { title: "RerunResponse" },
);

const FAN = Type.Object(
  {
    count: Type.Integer(),
    spawned: Type.Integer(),
    open: Type.Integer(),
    succeeded: Type.Integer(),
    failed: Type.Integer(),
    cancelled: Type.Integer(),
  },
  { title: "StepChildren" },
);
const STEP = Type.Object(
  {
    state: Type.String(),
    type: orNull(Type.String()),
    depends_on: orNull(Type.Array(Type.String(), { description: "Explicit and derived dependencies." })),
    job_id: orNull(Type.String({ description: "The job of the step." })),
    attempt: orNull(Type.Integer({ description: "Dispatches of the job, or starts of the sub-run." })),
    worker_id: orNull(Type.String({ description: "The worker of the last attempt." })),
    sub_run_id: orNull(Type.String({ description: "The latest run of a `subworkflow` step." })),
    approval: orNull(APPROVAL),
    started_at: orNull(Type.String()),
    ended_at: orNull(Type.String()),
    output: json("Redacted; the job has the unredacted result."),
    output_at: orNull(Type.String({ description: "Path of the output if it is too large for this response." })),
    error: orNull(ERROR_INFO),
    why: orNull(Type.String({ description: "Why the step was skipped or cancelled." })),
    arm: orNull(Type.String({ description: "The branch chosen by a `condition` or `switch`." })),
    arms: Type.Optional(
      Type.Array(Type.String(), { description: "The branches chosen for the items of a `for_each`." }),
    ),
    children: Type.Optional(FAN),
    loop: Type.Optional(Type.String({ description: "The `loop` step whose body the step belongs to." })),
    iteration: Type.Optional(Type.Integer({ description: "The current iteration of a `loop` step, from 1." })),
    max_iterations: Type.Optional(Type.Integer({ description: "The limit of a `loop` step." })),
    awaits: Type.Optional(
      Type.Object(
        { event: Type.String(), correlation_key: orNull(Type.String({ description: "null: any key." })) },
        { description: "The event of a `wait` step." },
      ),
    ),
    compensation: Type.Optional(STEP_COMPENSATION),
  },
  { title: "RunStep" },
);

const RUN_FIELDS = {
  record_version: RECORD_VERSION,
  run_id: Type.String(),
  workflow_id: Type.String(),
  version: Type.Integer(),
  state: STATE,
  tenant_id: Type.String(),
  created_at: instant("Start time."),
  updated_at: instant("Time of the last change."),
  deadline: instant("When the run ends as TIMEOUT."),
  labels: LABELS,
  error: orNull(ERROR_INFO),
  trace_id: Type.String(),
  submitted_by: orNull(Type.String()),
  submitted_by_name: SUBMITTER_NAME,
  actor_id: orNull(Type.String()),
  priority: orNull(Type.String({ description: "Default priority of the jobs; null for `batch`." })),
  ends_as: orNull(Type.String({ description: "The final state of an ENDING run." })),
  ends_with: orNull(ERROR_INFO),
  compensation: orNull(RUN_COMPENSATION),
  parent: orNull(Type.Object({ run_id: Type.String(), job_id: Type.String(), depth: Type.Integer() })),
  schedule: orNull(
    Type.Object(
      { id: Type.String(), slot: orNull(instant("null for a start by `trigger`.")) },
      { description: "The schedule that started the run." },
    ),
  ),
  rerun_of: orNull(
    Type.Object({
      run_id: Type.String(),
      from_step: Type.String(),
      asks: Type.Array(Type.String(), { description: "Earlier steps whose approval is asked for again." }),
    }),
  ),
};
export const RUN = Type.Object(
  {
    ...RUN_FIELDS,
    step_counts: Type.Record(Type.String(), Type.Integer(), {
      description: "Started steps by state.",
    }),
  },
  { title: "Run" },
);
export const RUN_DETAIL = Type.Object(
  {
    ...RUN_FIELDS,
    input: json("Redacted."),
    output: json("Null until the run succeeds."),
    payload_problems: PAYLOAD_PROBLEMS,
    steps: Type.Record(Type.String(), STEP, { description: "In definition order." }),
    lock: orNull(
      Type.Object(
        { holder: Type.String(), fence: Type.Integer(), waited_ms: Type.Number(), attempts: Type.Integer() },
        { description: "The holder of the run lock at the last write, and how the lock was acquired." },
      ),
    ),
  },
  { title: "RunDetail" },
);

export const TIMELINE_LINE = Type.Object(
  {
    seq: Type.Integer(),
    at: instant("Time of the event."),
    event: Type.String(),
    step_id: orNull(Type.String()),
    index: orNull(Type.Integer({ description: "Index of the `for_each` child." })),
    job_id: orNull(Type.String()),
    who: orNull(Type.String()),
    who_name: KEY_NAME,
    why: orNull(Type.String()),
    cause: orNull(Type.Integer({ description: "The `seq` of the event that caused this one." })),
  },
  { title: "TimelineLine" },
);

export const RUN_EXPLANATION = Type.Object(
  {
    run_id: Type.String(),
    state: STATE,
    waits: Type.Array(
      Type.Object({
        step_id: orNull(Type.String({ description: "null for the run itself." })),
        state: Type.String(),
        reason: Type.String(),
        until: orNull(Type.String()),
        unblocks: Type.String(),
        job_id: orNull(Type.String()),
      }),
    ),
  },
  { title: "RunExplanation" },
);

export const CHILDREN_QUERY = {
  iteration: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: WORKFLOW_LIMITS.iterations,
      description: "Of a `for_each` in a loop: the iteration. Defaults to the current one.",
    }),
  ),
};
export const CHILD = Type.Object(
  {
    index: orNull(Type.Integer()),
    iteration: orNull(Type.Integer({ description: "Of the loop that the step is in." })),
    job_id: Type.String({ description: "See `GET /api/v1/jobs/{id}`." }),
    state: Type.String(),
    attempt: Type.Integer({ description: "Number of dispatches so far." }),
    waits_for: orNull(Type.String()),
    worker_id: orNull(Type.String()),
    created_at: instant("Creation time."),
    updated_at: instant("Time of the last change."),
    error: orNull(ERROR_INFO),
    result: json("Redacted; null if it is too large for this response."),
    payload_problems: PAYLOAD_PROBLEMS,
    sub_run_id: orNull(Type.String({ description: "The run of a `subworkflow` child." })),
  },
  { title: "RunChild" },
);
