/**
 * Approvals over HTTP: the jobs of a tenant that wait for a human, with everything that the human decides about, and the
 * two answers. Whether somebody may give one is decided in `jobs/approval.ts`.
 */

import { JOBS, type Job, jobsOf } from "../../core/model/job.ts";
import { redact } from "../../core/model/redact.ts";
import type { Settings } from "../../core/settings.ts";
import { approve, reject } from "../../engine/safety/index.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { APPROVE_BODY, MOVED, REJECT_BODY, WAITING } from "../views/job-schemas.ts";
import { waitingView } from "../views/job-views.ts";
import { listPage, PAGE_QUERY, pageOf } from "../views/page.ts";
import { noSuchJob } from "./jobs.ts";

export const APPROVAL_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/approvals",
    summary: "Jobs that wait for a human to decide, newest first",
    access: "read",
    query: PAGE_QUERY,
    answer: pageOf(WAITING),
    handle: listApprovals,
  },
  {
    method: "POST",
    path: "/api/v1/approvals/:id/approve",
    summary: "Lets a job run that waits for a human to decide",
    access: "operate",
    body: APPROVE_BODY,
    answer: MOVED,
    handle: approveJob,
  },
  {
    method: "POST",
    path: "/api/v1/approvals/:id/reject",
    summary: "Ends a job that waits for a human to decide",
    access: "operate",
    body: REJECT_BODY,
    answer: MOVED,
    handle: rejectJob,
  },
];

async function listApprovals({ engine }: Gateway, { org, query }: GatewayRequest): Promise<Answer> {
  const { store } = engine.world;
  const index = jobsOf(org, "APPROVAL_REQUIRED");
  return listPage(store, JOBS, index, query, ({ value }) =>
    waitingView(value, inputShown(value, engine.settings.current)),
  );
}

/** A large input is not read for a list: `GET /api/v1/jobs/{id}` has it. */
function inputShown({ input }: Job, { redaction }: Settings): unknown {
  if (input.kind === "inline") return redact(input.value, { paths: redaction.paths, at: "input" });
  return { pointer: input.ptr, size_bytes: input.bytes, sha256: input.sha256 ?? null };
}

async function approveJob({ engine }: Gateway, { org, params, principal, body }: GatewayRequest): Promise<Answer> {
  const jobId = params.id ?? "";
  const { note, job_hash, snapshot } = (body ?? {}) as {
    readonly note?: string;
    readonly job_hash?: string;
    readonly snapshot?: string;
  };
  const seen = {
    ...(job_hash === undefined ? {} : { jobHash: job_hash }),
    ...(snapshot === undefined ? {} : { snapshot }),
  };
  const by = principal.id;
  const outcome = await approve(engine, { org, jobId, by, seen, ...(note === undefined ? {} : { note }) });
  const facts = { job_id: jobId };
  switch (outcome.kind) {
    case "approved":
      return ok({ job_id: jobId, state: outcome.state });
    case "void":
      throw new Problem("approval_void", `${outcome.why}; it was decided on anew and is ${outcome.state} now`, {
        ...facts,
        state: outcome.state,
      });
    case "mistaken":
      throw new Problem("approval_void", `${outcome.why}; look at it again: \`GET /api/v1/approvals\``, facts);
    case "unavailable":
      throw new Problem("safety_unavailable", `nothing has changed: ${outcome.reason}`, facts);
    case "input_gone":
      throw new Problem("input_gone", `nothing stands at \`${outcome.ptr}\`; reject the job, or wait for it`, facts);
    case "expired":
      throw new Problem("approval_expired", `job \`${jobId}\` has ended; \`POST /api/v1/dlq/${jobId}/retry\``, facts);
    case "own_job":
      throw new Problem("own_job", `\`${by}\` submitted job \`${jobId}\`; somebody else must approve it`, facts);
    case "not_waiting":
      throw notWaiting(jobId, outcome.state);
    case "not_found":
      throw noSuchJob(jobId, org);
    default:
      return outcome satisfies never;
  }
}

async function rejectJob({ engine }: Gateway, { org, params, principal, body }: GatewayRequest): Promise<Answer> {
  const jobId = params.id ?? "";
  const { reason } = body as { readonly reason: string };
  const outcome = await reject(engine, { org, jobId, by: principal.id, why: reason });
  switch (outcome.kind) {
    case "rejected":
      return ok({ job_id: jobId, state: outcome.state });
    case "not_waiting":
      throw notWaiting(jobId, outcome.state);
    case "not_found":
      throw noSuchJob(jobId, org);
    default:
      return outcome satisfies never;
  }
}

function notWaiting(jobId: string, state: string): Problem {
  return new Problem("not_waiting", `job \`${jobId}\` is ${state} by now`, { job_id: jobId, state });
}
