/** Jobs. Jobs of other tenants are reported as not found; inputs are redacted. */
import { type JobFilter, jobLists } from "../../core/jobs/job-filter.ts";
import { applyRemediation } from "../../core/jobs/submission.ts";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { JOBS, type Job, jobsOfTrace } from "../../core/model/job.ts";
import { redact } from "../../core/model/redact.ts";
import { suggestion } from "../../core/model/suggestion.ts";
import type { Remediation } from "../../core/policy/decision.ts";
import { cancelOwnJob, loadTenantJob } from "../../engine/dispatch/index.ts";
import { indexEarlierJobs } from "../../engine/maintenance/index.ts";
import { explain } from "../../engine/observe/index.ts";
import type { Index, Versioned } from "../../ports/store.ts";
import { isAllowed, namedTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { JOB_QUERY, readJobQuery } from "../views/job-query.ts";
import {
  CANCEL_BODY,
  DECISIONS,
  EXPLANATION,
  JOB,
  JOB_DETAIL,
  JOB_STATE_CHANGE,
  REMEDIATE_BODY,
  SUBMIT_RESPONSE,
} from "../views/job-schemas.ts";
import { decisionsView, explanationView, jobDetail, jobView, revealedFields } from "../views/job-views.ts";
import { withActorNames, withKeyName } from "../views/key-names.ts";
import { countedPageOf, listFiltered, listPage, queryText } from "../views/page.ts";
import { readValue } from "../views/payloads.ts";
import { SUBMIT_BODY } from "../views/submission-schemas.ts";
import { type Fields, idempotencyKey, readSubmission, submit, submitterFields, toSubmission } from "./submit.ts";

export const JOB_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/jobs",
    summary: "Submit a job",
    access: "submit",
    body: SUBMIT_BODY,
    response: SUBMIT_RESPONSE,
    invalidCode: "invalid_submission",
    handle: async (gateway, request) => submit(gateway, readSubmission(gateway, request)),
  },
  {
    method: "GET",
    path: "/api/v1/jobs",
    summary: "List jobs, newest first",
    access: "read",
    query: JOB_QUERY,
    response: countedPageOf(JOB),
    handle: listJobs,
  },
  {
    method: "GET",
    path: "/api/v1/jobs/:id",
    summary: "Get a job with its input, result and history",
    access: "read",
    response: JOB_DETAIL,
    handle: getJob,
  },
  {
    method: "GET",
    path: "/api/v1/jobs/:id/explain",
    summary: "Explain what a job waits for, until when, and what unblocks it",
    access: "read",
    response: EXPLANATION,
    handle: explainJob,
  },
  {
    method: "GET",
    path: "/api/v1/jobs/:id/decisions",
    summary: "List the decisions about a job, by the policy and by approvers",
    access: "read",
    response: DECISIONS,
    handle: async (gateway, request) => {
      const decisions = decisionsView((await loadJob(gateway, request)).value);
      return ok(await withActorNames(gateway.engine.world.store, decisions, "items"));
    },
  },
  {
    method: "POST",
    path: "/api/v1/jobs/:id/cancel",
    summary: "Cancel a job",
    // Submitters can cancel what they submit.
    access: "submit",
    body: CANCEL_BODY,
    response: JOB_STATE_CHANGE,
    handle: cancelJob,
  },
  {
    method: "POST",
    path: "/api/v1/jobs/:id/remediate",
    summary: "Resubmit a denied job with a remediation of its denial applied",
    access: "submit",
    body: REMEDIATE_BODY,
    response: SUBMIT_RESPONSE,
    handle: remediateJob,
  },
];

/** Also for jobs of other tenants: a 403 would disclose that the job exists. */
export function jobNotFound(id: string, org: string): Problem {
  return new Problem("job_not_found", `no job \`${id}\` of tenant \`${org}\`; \`GET /api/v1/jobs\` lists them`);
}

async function loadJob({ engine }: Gateway, { org, params }: GatewayRequest): Promise<Versioned<Job>> {
  const id = params.id ?? "";
  const found = await loadTenantJob(engine, { org, jobId: id });
  if (found) return found;
  throw jobNotFound(id, org);
}

async function listJobs({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { query } = request;
  const { store, clock } = engine.world;
  const org = namedTenant(request, { tenant: queryText(query, "tenant") });
  const { filter, range, rest, traceId } = readJobQuery(query, clock.now());
  const list = (index: Index) =>
    rest === null
      ? listPage(store, JOBS, index, query, jobView, range)
      : listFiltered(store, JOBS, index, query, rest, jobView, range);
  if (traceId === undefined) {
    await requireLists(engine, org, filter);
    return list(jobLists(org, filter));
  }
  // A job without a submitted trace id has its own id as such, and is in no list of a trace.
  const own = queryText(query, "cursor") === undefined ? await loadTenantJob(engine, { org, jobId: traceId }) : null;
  const isListed =
    own?.value.traceId === traceId &&
    own.value.createdMs >= (range.scoreMin ?? 0) &&
    (rest === null || rest.matches(own.value));
  const page = await list(jobsOfTrace(org, traceId));
  return isListed ? ok({ ...(page.body as object), items: [jobView(own), ...itemsOf(page)] }) : page;
}

const itemsOf = ({ body }: GatewayResponse): readonly object[] => (body as { items: readonly object[] }).items;

/** Jobs of earlier versions are in the lists of states only, until they are indexed. */
export async function requireLists(engine: Gateway["engine"], org: string, filter: JobFilter): Promise<void> {
  const { state: _, ...others } = filter;
  if (Object.values(others).every((value) => value === undefined || value === false)) return;
  const { left } = await indexEarlierJobs(engine, org);
  if (left === 0) return;
  const detail = `${left} jobs of an earlier version are being added to the index of filters; only \`state\` and \`since\` work until then`;
  throw new Problem("index_building", detail, { left });
}

async function getJob(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine } = gateway;
  const found = await loadJob(gateway, request);
  const job = found.value;
  const [input, result] = await Promise.all([
    readValue(engine, `the input of job \`${job.id}\``, job.input),
    readValue(engine, `the result of job \`${job.id}\``, job.output),
  ]);
  const { paths } = engine.settings.current.redaction;
  const hidden: string[] = [];
  const view = jobDetail(found, redact(input.value, { paths, at: "input", hidden }), result.value, [input, result]);
  const { store } = engine.world;
  const bypass = view.bypass && (await withKeyName(store, view.bypass, "reviewed_by"));
  const detail = { ...(await withActorNames(store, view, "history")), bypass };
  if (job.state !== "APPROVAL_REQUIRED") return ok(detail);
  redact(revealedFields(job), { hidden });
  return ok({ ...detail, hidden });
}

async function explainJob({ engine }: Gateway, { org, params, principal }: GatewayRequest): Promise<GatewayResponse> {
  const jobId = params.id ?? "";
  const explained = await explain(engine, { org, jobId, isForAll: principal.org === EVERY_ORG });
  if (explained.kind === "not_found") throw jobNotFound(jobId, org);
  return ok(explanationView(explained.job, explained.explanation, explained.around, explained.budgets));
}

async function cancelJob(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine } = gateway;
  const { org, params, principal, body } = request;
  const jobId = params.id ?? "";
  if (!isAllowed(principal, { access: "operate" })) {
    const { value: job } = await loadJob(gateway, request);
    if (job.step?.isCompensation) {
      throw new Problem("forbidden", "cancelling the compensation of a step requires `operate` access");
    }
  }
  const { reason } = (body ?? {}) as { readonly reason?: string };
  const by = principal.id;
  const outcome = await cancelOwnJob(engine, {
    org,
    jobId,
    by,
    why: reason ?? `cancelled by ${principal.caller.name ?? by}`,
  });
  switch (outcome.kind) {
    case "cancelled":
      return ok({ job_id: jobId, id: jobId, state: outcome.state });
    case "ended":
      throw new Problem("job_ended", `job \`${jobId}\` is ${outcome.state}`, {
        job_id: jobId,
        state: outcome.state,
      });
    case "not_found":
      throw jobNotFound(jobId, org);
    default:
      return outcome satisfies never;
  }
}

async function remediateJob(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { value: job } = await loadJob(gateway, request);
  const options = (request.body ?? {}) as { readonly remediation_id?: string; readonly job_id?: string };
  if (job.state !== "DENIED") {
    throw new Problem("not_denied", `job \`${job.id}\` is ${job.state}; only denied jobs can be remediated`);
  }
  const remedy = findRemediation(job, options.remediation_id);
  const input = await readValue(gateway.engine, `the input of job \`${job.id}\``, job.input);
  if (input.problem !== undefined) throw new Problem("input_gone", `${input.problem}; submit a new job`);
  const { caller } = request.principal;
  const raw: Fields = {
    ...applyRemediation(job, remedy, input.value),
    ...submitterFields(request),
    actorId: caller.actorId ?? job.actorId,
    actorType: caller.actorType ?? job.actorType,
    jobId: options.job_id,
    // The default key makes repeated remediation idempotent.
    idempotencyKey: idempotencyKey(request, undefined) ?? `remediate:${job.id}:${remedy.id}`.slice(0, KEY_LENGTH_MAX),
  };
  return submit(gateway, toSubmission(raw));
}

function findRemediation(job: Job, id: string | undefined): Remediation {
  const offered = job.safety?.remediations ?? [];
  const [only] = offered;
  if (id === undefined && only && offered.length === 1) return only;
  const found = offered.find((remedy) => remedy.id === id);
  if (found) return found;
  const known = offered.map((remedy) => remedy.id);
  const offers =
    known.length === 0
      ? "the denial offers none; submit a changed job"
      : `the denial offers ${known.map((name) => `\`${name}\``).join(", ")}`;
  const missing = id === undefined ? "`remediation_id` is required" : `no remediation \`${id}\``;
  throw new Problem("remediation_not_found", `${missing}; ${suggestion(id ?? "", known).slice(2) || offers}`, {
    remediations: known,
  });
}

const KEY_LENGTH_MAX = 256;
