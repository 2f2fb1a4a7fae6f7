import { type Admitted, admit } from "../flow/admit.ts";
import { checkSubmission, type Submission } from "../jobs/submission.ts";
import { JOB_STATES, JOBS, type Job, type JobState, jobsOf } from "../model/job.ts";
import { suggestion } from "../model/nearest.ts";
import { listPage, queryText } from "./page.ts";
import { payloadValue } from "./payload.ts";
import { Problem } from "./problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "./route.ts";
import { jobDetail, jobView } from "./views.ts";

export const JOB_ROUTES: readonly Route[] = [
  { method: "POST", path: "/api/v1/jobs", handle: submitJob },
  { method: "GET", path: "/api/v1/jobs", handle: listJobs },
  { method: "GET", path: "/api/v1/jobs/:id", handle: getJob },
];

async function submitJob(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const admitted = await admit(gateway.flow, submissionOf(request));
  switch (admitted.kind) {
    case "accepted":
    case "replayed":
      if (admitted.state === "DENIED") throw await denial(gateway, admitted);
      return ok({
        job_id: admitted.jobId,
        trace_id: admitted.traceId,
        state: admitted.state,
        replayed: admitted.kind === "replayed",
      });
    case "conflict":
      throw new Problem(
        "idempotency_conflict",
        "the same key or id came with another body before; use a new one for a new job",
        { job_id: admitted.jobId },
      );
    default:
      return admitted satisfies never;
  }
}

async function listJobs({ flow }: Gateway, { org, query }: GatewayRequest): Promise<Answer> {
  const state = readState(queryText(query, "state"));
  return listPage(flow.world.store, JOBS, jobsOf(org, state), query, (item) => jobView(item.value));
}

async function getJob({ flow }: Gateway, { org, params }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const found = await flow.world.store.load(JOBS, id);
  // Somebody else's job is not there: saying "forbidden" would tell that it exists.
  if (found === null || found.value.org !== org) {
    throw new Problem("job_not_found", `no job \`${id}\` of tenant \`${org}\`; \`GET /api/v1/jobs\` lists them`);
  }
  const [input, result] = await Promise.all([
    payloadValue(flow.world.blobs, found.value.input),
    payloadValue(flow.world.blobs, found.value.output),
  ]);
  return ok(jobDetail(found.value, input, result));
}

async function denial({ flow }: Gateway, admitted: { jobId: string; traceId: string }): Promise<Problem> {
  const safety = (await flow.world.store.load<Job>(JOBS, admitted.jobId))?.value.safety;
  return new Problem("denied", safety?.reason ?? "the safety policy denies it", {
    job_id: admitted.jobId,
    trace_id: admitted.traceId,
    state: "DENIED" satisfies Extract<Admitted, { state: JobState }>["state"],
    rule_id: safety?.ruleId ?? null,
    snapshot: safety?.snapshot ?? null,
  });
}

/** The body in the dialect's names; the key also as a header. */
function submissionOf({ org, headers, body }: GatewayRequest): Submission {
  if (body !== undefined && (typeof body !== "object" || body === null || Array.isArray(body))) {
    throw new Problem(
      "invalid_submission",
      'the body must be a JSON object, such as `{"topic": "demo.echo", "input": {}}`',
    );
  }
  const fields = (body ?? {}) as Readonly<Record<string, unknown>>;
  const checked = checkSubmission({
    org,
    topic: fields.topic,
    input: inputOf(fields, org),
    jobId: fields.job_id,
    priority: fields.priority,
    labels: fields.labels,
    riskTags: fields.risk_tags,
    requires: fields.requires,
    capability: fields.capability,
    actorId: fields.actor_id ?? fields.principal_id,
    idempotencyKey: keyOf(headers["idempotency-key"], fields.idempotency_key),
    traceId: fields.trace_id,
  });
  if (checked.kind === "ok") return checked.submission;
  const problems = checked.problems.map(inDialect);
  throw new Problem("invalid_submission", problems.join("; "), { problems });
}

/**
 * What the worker gets: `input` as it is, or for a `prompt` the object that workers of the wire protocol expect. Without
 * a time of creation in it: a repeated request must be the same request.
 */
function inputOf(fields: Readonly<Record<string, unknown>>, org: string): unknown {
  if (fields.input !== undefined) return fields.input;
  if (fields.prompt === undefined && fields.context === undefined) return null;
  const { prompt, adapter_id, priority, topic, context } = fields;
  return { prompt, adapter_id, priority, topic, tenant_id: org, context };
}

function keyOf(header: string | readonly string[] | undefined, field: unknown): unknown {
  if (header === undefined) return field;
  if (field === undefined || field === header) return header;
  throw new Problem("invalid_request", "`Idempotency-Key` and `idempotency_key` differ; send one of them");
}

function readState(text: string | undefined): JobState | undefined {
  if (text === undefined) return undefined;
  const wanted = text.toUpperCase();
  const state = JOB_STATES.find((known) => known === wanted);
  if (state !== undefined) return state;
  const known = JOB_STATES.map((name) => `\`${name}\``).join(", ");
  const hint = suggestion(wanted, JOB_STATES) || `; there are ${known}`;
  throw new Problem("invalid_request", `unknown state \`${text.slice(0, 40)}\`${hint}`);
}

/** Sentences about a submission name its fields as the code does; clients know them in snake case. */
function inDialect(problem: string): string {
  return problem.replace(/`(riskTags|jobId|actorId|traceId|org)`/g, (_, field: string) => `\`${DIALECT[field]}\``);
}

const DIALECT: Readonly<Record<string, string>> = {
  riskTags: "risk_tags",
  jobId: "job_id",
  actorId: "actor_id",
  traceId: "trace_id",
  org: "x-tenant-id",
};
