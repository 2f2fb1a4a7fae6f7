/** What the routes of workflows and runs take and give: for the check of requests and for the document. */
import { type TSchema, Type } from "typebox";
import { LABELS_MAX, TEXT_LENGTH_MAX } from "../../core/jobs/submission.ts";
import { RUN_STATES } from "../../core/model/run.ts";

const text = (description: string) => Type.String({ minLength: 1, maxLength: TEXT_LENGTH_MAX, description });
const orNull = (schema: TSchema) => Type.Union([schema, Type.Null()]);
const instant = (description: string) => Type.String({ format: "date-time", description });
const STATE = Type.Union(RUN_STATES.map((state) => Type.Literal(state)));
const LABELS = Type.Record(Type.String(), Type.String({ maxLength: TEXT_LENGTH_MAX }), { maxProperties: LABELS_MAX });
const VERSION = Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: "The newest when not said." });
const WHY = Type.String({ minLength: 1, maxLength: 500 });
const KEY = text("The same again is the same run; also as the header `Idempotency-Key`.");
const INPUT = Type.Unknown({ description: "What the run works on, any JSON value; `{}` when not said." });

/** A definition is read by the compiler, which knows more than a schema: what it says is left open here. */
export const APPLY_BODY = Type.Object(
  {
    source: Type.Optional(Type.String({ description: "In place of all else: the definition as YAML or JSON text." })),
    file: Type.Optional(text("With `source`: the name of the file, for sentences about it.")),
    id: Type.Optional(Type.Unknown({ description: "The workflow's id; the same again makes a new version of it." })),
    steps: Type.Optional(Type.Unknown({ description: "By their ids." })),
  },
  {
    additionalProperties: true,
    description: "The definition itself, or `{source, file}`; also as `application/yaml`.",
  },
);
export const APPLIED = Type.Object({
  workflow_id: Type.String(),
  version: Type.Integer(),
  created: Type.Boolean({ description: "False where this very definition was the newest version already." }),
});

const WORKFLOW_FIELDS = {
  workflow_id: Type.String(),
  version: Type.Integer(),
  tenant_id: Type.String(),
  hash: Type.String({ description: "Of the definition, whatever the order of its keys." }),
  created_at: instant("When it was first applied; of one version: when that was."),
};
export const WORKFLOW = Type.Object({
  ...WORKFLOW_FIELDS,
  name: orNull(Type.String()),
  updated_at: instant("When its newest version was applied."),
});
export const WORKFLOW_VERSION = Type.Object({ ...WORKFLOW_FIELDS, created_by: orNull(Type.String()) });
export const WORKFLOW_DETAIL = Type.Object({
  ...WORKFLOW_FIELDS,
  created_by: orNull(Type.String()),
  definition: Type.Unknown({ description: "As it was applied." }),
});
export const WORKFLOW_QUERY = Type.Object({ version: Type.Optional(VERSION) });
export const WORKFLOW_DELETED = Type.Object({ workflow_id: Type.String(), deleted: Type.Boolean() });

/** What a start says, and a dry run of it. */
const WISH_FIELDS = {
  input: Type.Optional(INPUT),
  version: Type.Optional(VERSION),
  labels: Type.Optional(LABELS),
  priority: Type.Optional(
    Type.Union([Type.Literal("interactive"), Type.Literal("batch"), Type.Literal("critical")], {
      description: "Of the jobs of steps that name none themselves.",
    }),
  ),
  actor_id: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: TEXT_LENGTH_MAX,
      pattern: "^[A-Za-z0-9_.:@-]+$",
      description: "On whose behalf it is done.",
    }),
  ),
};
export const START_BODY = Type.Object({ ...WISH_FIELDS, idempotency_key: Type.Optional(KEY) });
const STARTED_FIELDS = {
  run_id: Type.String(),
  workflow_id: Type.String(),
  version: Type.Optional(Type.Integer({ description: "Where the request named one." })),
  state: STATE,
  replayed: Type.Boolean({ description: "The run was there before, by its key." }),
};
export const STARTED = Type.Object(STARTED_FIELDS);
export const RUN_MOVED = Type.Object({ run_id: Type.String(), state: STATE });
export const RUN_DELETED = Type.Object({ run_id: Type.String(), deleted: Type.Boolean() });
export const CONTROL_BODY = Type.Object({ reason: Type.Optional(WHY) });

export const DRY_BODY = Type.Object(WISH_FIELDS);
const DRY_STEP = Type.Object({
  step_id: Type.String(),
  type: Type.String(),
  topic: orNull(Type.String()),
  depends_on: Type.Array(Type.String()),
  input: Type.Unknown({ description: "As the worker would get it, without secrets; null where it is not known yet." }),
  input_known: Type.Boolean({ description: "False where it depends on what other steps will give." }),
  problem: orNull(Type.String({ description: "Why the step would fail, as far as that is known before it begins." })),
  decision: orNull(
    Type.Object({
      decision: Type.String(),
      rule_id: orNull(Type.String()),
      reason: Type.String(),
      snapshot: Type.String(),
    }),
  ),
  unavailable: orNull(Type.String({ description: "Why the policy could not be asked." })),
});
const DRY_FIELDS = { workflow_id: Type.String(), version: Type.Integer(), steps: Type.Array(DRY_STEP) };
export const DRY = Type.Object(DRY_FIELDS);

export const RERUN_BODY = Type.Object({
  from_step: Type.String({ minLength: 1, maxLength: 64, description: "It and what comes after it are done again." }),
  dry_run: Type.Optional(Type.Boolean({ default: false, description: "Only say what would be done." })),
  idempotency_key: Type.Optional(KEY),
});
export const RERUN_ANSWER = Type.Union([
  Type.Object({ ...STARTED_FIELDS, rerun_of: Type.String(), from_step: Type.String() }),
  Type.Object({ ...DRY_FIELDS, rerun_of: Type.String(), from_step: Type.String(), dry_run: Type.Literal(true) }),
]);

const FAN = Type.Object({
  count: Type.Integer(),
  spawned: Type.Integer(),
  open: Type.Integer(),
  succeeded: Type.Integer(),
  failed: Type.Integer(),
  cancelled: Type.Integer(),
});
const STEP = Type.Object({
  state: Type.String(),
  type: orNull(Type.String()),
  depends_on: orNull(Type.Array(Type.String(), { description: "As written, and what follows from the other steps." })),
  job_id: orNull(Type.String({ description: "The job that does it, or that waits for it." })),
  attempt: orNull(Type.Integer({ description: "How often its job was sent, or its sub-run begun." })),
  worker_id: orNull(Type.String({ description: "Who did it, or is at it." })),
  sub_run_id: orNull(Type.String({ description: "The run that a `subworkflow` waits for, or waited for last." })),
  started_at: orNull(Type.String()),
  ended_at: orNull(Type.String()),
  output: Type.Unknown({ description: "Without secrets; the result as it is stands on the job." }),
  output_at: orNull(Type.String({ description: "Where the output is read, when it is too large to be shown here." })),
  error: orNull(Type.Unknown()),
  why: orNull(Type.String({ description: "Why it was skipped or cancelled." })),
  arm: orNull(Type.String({ description: "What a `condition` or `switch` chose." })),
  arms: Type.Optional(
    Type.Array(Type.String(), { description: "What it chose with `for_each`, for any of the items." }),
  ),
  children: Type.Optional(FAN),
});

const RUN_FIELDS = {
  run_id: Type.String(),
  workflow_id: Type.String(),
  version: Type.Integer(),
  state: STATE,
  tenant_id: Type.String(),
  created_at: instant("When it was started."),
  updated_at: instant("When it last changed."),
  deadline: instant("When it ends as TIMEOUT."),
  labels: LABELS,
  error: orNull(Type.Unknown()),
  trace_id: Type.String(),
  submitted_by: orNull(Type.String()),
  actor_id: orNull(Type.String()),
  priority: orNull(Type.String({ description: "Of its jobs; null where each has its own, or `batch`." })),
  ends_as: orNull(Type.String({ description: "What a run that is ENDING will be." })),
  parent: orNull(Type.Object({ run_id: Type.String(), job_id: Type.String(), depth: Type.Integer() })),
  rerun_of: orNull(Type.Object({ run_id: Type.String(), from_step: Type.String() })),
};
export const RUN = Type.Object({
  ...RUN_FIELDS,
  step_counts: Type.Record(Type.String(), Type.Integer(), {
    description: "Steps that something happened to, by state.",
  }),
});
export const RUN_DETAIL = Type.Object({
  ...RUN_FIELDS,
  input: Type.Unknown({ description: "Without secrets." }),
  output: Type.Unknown(),
  steps: Type.Record(Type.String(), STEP, { description: "In the order of the definition." }),
  lock: orNull(
    Type.Object(
      { holder: Type.String(), fence: Type.Integer(), waited_ms: Type.Number(), attempts: Type.Integer() },
      { description: "Who held the run's lock when it was last written, and how it was got." },
    ),
  ),
});

export const LINE = Type.Object({
  seq: Type.Integer(),
  at: instant("When."),
  event: Type.String(),
  step_id: orNull(Type.String()),
  index: orNull(Type.Integer({ description: "Which child of a `for_each`." })),
  job_id: orNull(Type.String()),
  who: orNull(Type.String()),
  why: orNull(Type.String()),
  cause: orNull(Type.Integer({ description: "The `seq` of the line that it follows from." })),
});

export const RUN_EXPLANATION = Type.Object({
  run_id: Type.String(),
  state: STATE,
  waits: Type.Array(
    Type.Object({
      step_id: orNull(Type.String({ description: "null: the run itself." })),
      state: Type.String(),
      reason: Type.String(),
      until: orNull(Type.String()),
      unblocks: Type.String(),
      job_id: orNull(Type.String()),
    }),
  ),
});

export const CHILD = Type.Object({
  index: orNull(Type.Integer()),
  job_id: Type.String({ description: "`GET /api/v1/jobs/{id}` has all of it." }),
  state: Type.String(),
  attempt: Type.Integer({ description: "Dispatches so far." }),
  waits_for: orNull(Type.String()),
  worker_id: orNull(Type.String()),
  created_at: instant("When it was made."),
  updated_at: instant("When it last changed."),
  error: orNull(Type.Unknown()),
  result: Type.Unknown({ description: "Without secrets; null where it is too large to be shown here." }),
  sub_run_id: orNull(Type.String({ description: "Of a `subworkflow`." })),
});
