/** Request schema of a submission, and the parts of it that views return. */
import { Type } from "typebox";
import { LABELS_MAX, TEXT_LENGTH_MAX } from "../../core/jobs/submission.ts";
import { json } from "./schemas.ts";

export const text = (description: string) => Type.String({ minLength: 1, maxLength: TEXT_LENGTH_MAX, description });
const names = (description: string) =>
  Type.Array(Type.String({ maxLength: TEXT_LENGTH_MAX }), { maxItems: LABELS_MAX, description });
export const LABELS = Type.Record(Type.String(), Type.String({ maxLength: TEXT_LENGTH_MAX }));

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
export const ENV = Type.Record(Type.String(), Type.String({ maxLength: 4_096 }), {
  description: "Environment for the worker.",
});
export const BUDGET = Type.Object(
  {
    max_input_tokens: Type.Optional(TOKENS),
    max_output_tokens: Type.Optional(TOKENS),
    max_total_tokens: Type.Optional(TOKENS),
    deadline_ms: Type.Optional(DURATION),
  },
  { title: "Budget", description: "Token limits for the worker; `deadline_ms` also limits the job's deadline." },
);
export const CONTEXT_HINTS = Type.Object(
  {
    max_input_tokens: Type.Optional(TOKENS),
    allow_summarization: Type.Optional(Type.Boolean()),
    allow_retrieval: Type.Optional(Type.Boolean()),
    tags: Type.Optional(names("Tags.")),
  },
  { title: "ContextHints", description: "How the worker may build its context." },
);
export const COMPENSATION = Type.Object(
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
  { title: "Compensation", description: "The job that would undo this one; passed to the worker, not run by Cordum." },
);

export const SUBMIT_BODY = Type.Object(
  {
    topic: Type.String({ minLength: 1, description: "The kind of work, such as `demo.echo`." }),
    input: Type.Optional(json("Input of the worker.")),
    prompt: Type.Optional(Type.String({ description: "Prompt for an agent, in place of `input`." })),
    context: Type.Optional(json("Additional context for `prompt`.")),
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
        {
          description: "The MCP call of the job; the policy sees it as the labels `mcp.server`, `mcp.tool` and so on.",
        },
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
  },
  { title: "SubmitRequest" },
);
