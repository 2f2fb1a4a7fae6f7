/**
 * Jobs over HTTP: submitted, listed, read, explained, cancelled, remediated. A tenant's jobs are there for that tenant
 * alone; what is shown of an input has passed the redaction.
 */
import { Type } from "typebox";
import { applyRemediation } from "../../core/jobs/submission.ts";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { JOB_STATES, JOBS, type Job, type JobState, jobsOf } from "../../core/model/job.ts";
import { redact } from "../../core/model/redact.ts";
import { suggestion } from "../../core/model/suggestion.ts";
import type { Remediation } from "../../core/policy/decision.ts";
import { cancelOwnJob } from "../../engine/dispatch/index.ts";
import { explain } from "../../engine/observe/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import {
  CANCEL_BODY,
  DECISIONS,
  EXPLANATION,
  JOB,
  JOB_DETAIL,
  MOVED,
  REMEDIATE_BODY,
  SUBMIT_ANSWER,
  SUBMIT_BODY,
} from "../views/job-schemas.ts";
import { decisionsView, explanationView, jobDetail, jobView } from "../views/job-views.ts";
import { listPage, pageOf, pageQuery, queryText } from "../views/page.ts";
import { payloadValue } from "../views/payload.ts";
import { checked, type Fields, keyOf, submissionOf, submit, whoAsks } from "./submit.ts";

export const JOB_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/jobs",
    summary: "Submits a job",
    access: "submit",
    body: SUBMIT_BODY,
    answer: SUBMIT_ANSWER,
    invalid: "invalid_submission",
    handle: async (gateway, request) => submit(gateway, submissionOf(gateway, request)),
  },
  {
    method: "GET",
    path: "/api/v1/jobs",
    summary: "Jobs, newest first",
    access: "read",
    query: pageQuery({ state: Type.Optional(Type.String({ description: "Only those in this state." })) }),
    answer: pageOf(JOB),
    handle: listJobs,
  },
  {
    method: "GET",
    path: "/api/v1/jobs/:id",
    summary: "A job with its input, its result and its history",
    access: "read",
    answer: JOB_DETAIL,
    handle: getJob,
  },
  {
    method: "GET",
    path: "/api/v1/jobs/:id/explain",
    summary: "Why a job does not move, until when, and what unblocks it",
    access: "read",
    answer: EXPLANATION,
    handle: explainJob,
  },
  {
    method: "GET",
    path: "/api/v1/jobs/:id/decisions",
    summary: "What was decided about a job, by the policy and by people",
    access: "read",
    answer: DECISIONS,
    handle: async (gateway, request) => ok(decisionsView(await loadJob(gateway, request))),
  },
  {
    method: "POST",
    path: "/api/v1/jobs/:id/cancel",
    summary: "Ends a job that is not wanted any more",
    // Who may ask for work may take the wish back.
    access: "submit",
    body: CANCEL_BODY,
    answer: MOVED,
    handle: cancelJob,
  },
  {
    method: "POST",
    path: "/api/v1/jobs/:id/remediate",
    summary: "Submits a denied job again, changed as its denial suggests",
    access: "submit",
    body: REMEDIATE_BODY,
    answer: SUBMIT_ANSWER,
    handle: remediateJob,
  },
];

/** Somebody else's job is not there: saying "forbidden" would tell that it exists. */
export function noSuchJob(id: string, org: string): Problem {
  return new Problem("job_not_found", `no job \`${id}\` of tenant \`${org}\`; \`GET /api/v1/jobs\` lists them`);
}

async function loadJob({ engine }: Gateway, { org, params }: GatewayRequest): Promise<Job> {
  const id = params.id ?? "";
  const found = await engine.world.store.load(JOBS, id);
  if (found?.value.org === org) return found.value;
  throw noSuchJob(id, org);
}

async function listJobs({ engine }: Gateway, { org, query }: GatewayRequest): Promise<Answer> {
  const state = readState(queryText(query, "state"));
  return listPage(engine.world.store, JOBS, jobsOf(org, state), query, (item) => jobView(item.value));
}

async function getJob(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const { world, settings } = gateway.engine;
  const job = await loadJob(gateway, request);
  const [input, result] = await Promise.all([
    payloadValue(world.blobs, job.input),
    payloadValue(world.blobs, job.output),
  ]);
  const { paths } = settings.current.redaction;
  return ok(jobDetail(job, redact(input, { paths, at: "input" }), result));
}

async function explainJob({ engine }: Gateway, { org, params, principal }: GatewayRequest): Promise<Answer> {
  const jobId = params.id ?? "";
  const explained = await explain(engine, { org, jobId, isForAll: principal.org === EVERY_ORG });
  if (explained.kind === "not_found") throw noSuchJob(jobId, org);
  return ok(explanationView(explained.job, explained.explanation, explained.around));
}

async function cancelJob({ engine }: Gateway, { org, params, principal, body }: GatewayRequest): Promise<Answer> {
  const jobId = params.id ?? "";
  const { reason } = (body ?? {}) as { readonly reason?: string };
  const by = principal.id;
  const outcome = await cancelOwnJob(engine, { org, jobId, by, why: reason ?? `cancelled by ${by}` });
  switch (outcome.kind) {
    case "cancelled":
      return ok({ job_id: jobId, state: outcome.state });
    case "ended":
      throw new Problem("job_ended", `job \`${jobId}\` has ended as ${outcome.state} already`, {
        job_id: jobId,
        state: outcome.state,
      });
    case "not_found":
      throw noSuchJob(jobId, org);
    default:
      return outcome satisfies never;
  }
}

async function remediateJob(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const job = await loadJob(gateway, request);
  const options = (request.body ?? {}) as { readonly remediation_id?: string; readonly job_id?: string };
  if (job.state !== "DENIED") {
    throw new Problem("not_denied", `job \`${job.id}\` is ${job.state}; only a denied job can be remediated`);
  }
  const remedy = remedyIn(job, options.remediation_id);
  const input = await payloadValue(gateway.engine.world.blobs, job.input);
  if (input === null && job.input.kind === "pointer") {
    throw new Problem("input_gone", `the input of job \`${job.id}\` has expired; submit a new one`);
  }
  const raw: Fields = {
    ...applyRemediation(job, remedy, input),
    ...whoAsks(request),
    jobId: options.job_id,
    // Without a key of the client's own the same remediation twice is one job, too.
    idempotencyKey: keyOf(request, undefined) ?? `remediate:${job.id}:${remedy.id}`.slice(0, KEY_LENGTH_MAX),
  };
  return submit(gateway, checked(raw));
}

function remedyIn(job: Job, id: string | undefined): Remediation {
  const offered = job.safety?.remediations ?? [];
  const [only] = offered;
  if (id === undefined && only && offered.length === 1) return only;
  const found = offered.find((remedy) => remedy.id === id);
  if (found) return found;
  const known = offered.map((remedy) => remedy.id);
  const there = known.length === 0 ? "there is none" : `there are ${known.map((name) => `\`${name}\``).join(", ")}`;
  const which = id === undefined ? "say which `remediation_id`" : `no remediation \`${id}\``;
  throw new Problem("remediation_not_found", `${which}; ${suggestion(id ?? "", known).slice(2) || there}`, {
    remediations: known,
  });
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

const KEY_LENGTH_MAX = 256;
