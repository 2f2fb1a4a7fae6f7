import type { Approver } from "../../core/jobs/approval.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { jobsOf } from "../../core/model/lists/job-lists.ts";
import { redact } from "../../core/model/redact.ts";
import type { Settings } from "../../core/settings.ts";
import { auditPut } from "../../engine/audit/index.ts";
import { loadTenantJob } from "../../engine/dispatch/index.ts";
import { approve, reject } from "../../engine/safety/index.ts";
import { inputKey } from "../../protocol/pointer.ts";
import { approvalWays, describeWays } from "../auth/approvers.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Principal, type Route } from "../route.ts";
import {
  APPROVE_BODY,
  JOB_STATE_CHANGE,
  PENDING_APPROVAL,
  REJECT_BODY,
  REVEAL_BODY,
  REVEALED,
} from "../views/job-schemas.ts";
import { pendingApprovalView, revealedFields } from "../views/job-views.ts";
import { listPage, PAGE_QUERY, pageOf } from "../views/page.ts";
import { readValue } from "../views/payloads.ts";
import { jobNotFound } from "./jobs.ts";

export const APPROVAL_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/approvals",
    summary: "List jobs awaiting approval, newest first",
    access: "read",
    query: PAGE_QUERY,
    response: pageOf(PENDING_APPROVAL),
    handle: listApprovals,
  },
  {
    method: "POST",
    path: "/api/v1/approvals/:id/approve",
    summary: "Approve a job",
    access: "operate",
    body: APPROVE_BODY,
    response: JOB_STATE_CHANGE,
    handle: approveJob,
  },
  {
    method: "POST",
    path: "/api/v1/approvals/:id/reveal",
    summary: "Return the hidden values of a job that awaits approval; recorded in the audit log",
    access: "operate",
    body: REVEAL_BODY,
    response: REVEALED,
    handle: revealJob,
  },
  {
    method: "POST",
    path: "/api/v1/approvals/:id/reject",
    summary: "Reject a job; the job ends",
    access: "operate",
    body: REJECT_BODY,
    response: JOB_STATE_CHANGE,
    handle: rejectJob,
  },
];

async function listApprovals({ engine }: Gateway, { org, query }: GatewayRequest): Promise<GatewayResponse> {
  const { store } = engine.world;
  const index = jobsOf(org, "APPROVAL_REQUIRED");
  return listPage(store, JOBS, index, query, ({ value }) => approvalView(value, engine.settings.current));
}

/** Large inputs are not loaded for the list; `GET /api/v1/jobs/{id}` returns them, with their hidden paths. */
function approvalView(job: Job, { redaction }: Settings): object {
  const { id, input } = job;
  const hidden: string[] = [];
  const shown =
    input.kind === "inline"
      ? redact(input.value, { paths: redaction.paths, at: "input", hidden })
      : { pointer: inputKey(clientJobId(job.org, id)), size_bytes: input.bytes, sha256: input.sha256 ?? null };
  return pendingApprovalView(job, shown, hidden);
}

/** The audit entry is committed before the values are returned. */
async function revealJob({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { org, params, principal, body } = request;
  const jobId = params.id ?? "";
  const job = (await loadTenantJob(engine, { org, jobId }))?.value;
  if (job === undefined) throw jobNotFound(jobId, org);
  if (job.state !== "APPROVAL_REQUIRED") throw notWaiting(jobId, job.state);
  const { reason } = body as { readonly reason: string };
  const { value, problem } = await readValue(engine, `the input of job \`${jobId}\``, job.input);
  if (problem !== undefined) throw new Problem("input_gone", problem, { job_id: jobId });
  const facts = { job: jobId, reason };
  const entry = auditPut(engine, { org, kind: "approval", who: principal.id, what: "hidden values revealed", facts });
  await engine.commit({ org, puts: [entry] });
  return ok({ job_id: jobId, input: value, ...revealedFields(job) });
}

async function approveJob(
  { engine }: Gateway,
  { org, params, principal, body }: GatewayRequest,
): Promise<GatewayResponse> {
  const jobId = params.id ?? "";
  const {
    reason,
    note = reason,
    job_hash,
    snapshot,
  } = (body ?? {}) as {
    readonly reason?: string;
    readonly note?: string;
    readonly job_hash?: string;
    readonly snapshot?: string;
  };
  const seen = {
    ...(job_hash === undefined ? {} : { jobHash: job_hash }),
    ...(snapshot === undefined ? {} : { snapshot }),
  };
  const approver = approverOf(principal);
  const outcome = await approve(engine, { org, jobId, ...approver, seen, ...(note === undefined ? {} : { note }) });
  const facts = { job_id: jobId };
  switch (outcome.kind) {
    case "approved":
      return ok({ job_id: jobId, id: jobId, state: outcome.state });
    case "void":
      throw new Problem("approval_void", `${outcome.why}; the job was checked again and is ${outcome.state} now`, {
        ...facts,
        state: outcome.state,
      });
    case "mistaken":
      throw new Problem("approval_void", `${outcome.why}; review it again with \`GET /api/v1/approvals\``, facts);
    case "unavailable":
      throw new Problem("safety_unavailable", `nothing was changed: ${outcome.reason}`, facts);
    case "input_gone":
      throw new Problem("input_gone", `${outcome.why}; reject this one`, facts);
    case "expired":
      throw new Problem(
        "approval_expired",
        `job \`${jobId}\` was dead-lettered; retry it with \`POST /api/v1/dlq/${jobId}/retry\``,
        facts,
      );
    case "own_job":
      throw new Problem("own_job", await ownJobDetail(engine, approver, org, jobId), facts);
    case "no_person": {
      const detail = `a person submitted job \`${jobId}\`, and this key names none; approve it with a key that has a \`person\``;
      throw new Problem("person_required", detail, facts);
    }
    case "not_waiting":
      throw notWaiting(jobId, outcome.state);
    case "not_found":
      throw jobNotFound(jobId, org);
    default:
      return outcome satisfies never;
  }
}

async function rejectJob(
  { engine }: Gateway,
  { org, params, principal, body }: GatewayRequest,
): Promise<GatewayResponse> {
  const jobId = params.id ?? "";
  const { reason } = body as { readonly reason: string };
  const outcome = await reject(engine, { org, jobId, ...approverOf(principal), why: reason });
  switch (outcome.kind) {
    case "rejected":
      return ok({ job_id: jobId, id: jobId, state: outcome.state });
    case "not_waiting":
      throw notWaiting(jobId, outcome.state);
    case "not_found":
      throw jobNotFound(jobId, org);
    default:
      return outcome satisfies never;
  }
}

const approverOf = ({ id, caller: { name, person } }: Principal): Approver => ({ by: id, name, person });

async function ownJobDetail(
  engine: Gateway["engine"],
  { by, person }: Approver,
  org: string,
  jobId: string,
): Promise<string> {
  const job = (await loadTenantJob(engine, { org, jobId }))?.value;
  const ways = job === undefined ? "" : `; ${describeWays(approvalWays(job))}`;
  if (person === undefined) return `\`${by}\` submitted job \`${jobId}\`; approve it with another API key${ways}`;
  return `\`${person}\` submitted job \`${jobId}\`; another person must approve it, with an API key of their own${ways}`;
}

function notWaiting(jobId: string, state: string): Problem {
  return new Problem("not_waiting", `job \`${jobId}\` is ${state}; \`GET /api/v1/approvals\` lists the jobs that are`, {
    job_id: jobId,
    state,
  });
}
