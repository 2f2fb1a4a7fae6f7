/** The HTTP worker API: lease jobs, extend leases, report progress and results. */
import { type Static, Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import type { Job } from "../../core/model/job.ts";
import { POINTER_LENGTH_MAX, type ResultDetails } from "../../core/model/job-details.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { payloadValue } from "../../core/model/payload.ts";
import { quotaOf } from "../../core/model/quota.ts";
import {
  completeLeased,
  extendLease,
  failLeased,
  type JobLeaseOutcome,
  LEASE_WAIT_MS_MAX,
  leaseJobs,
  releaseJob,
  releaseLease,
} from "../../engine/dispatch/index.ts";
import { readInput } from "../../engine/payloads.ts";
import { constraintsOnWire } from "../../protocol/constraints.ts";
import type { ErrorCode } from "../../protocol/packet.ts";
import { detailsToJson } from "../../protocol/request-json.ts";
import { errorCodeNamed, errorCodeOf } from "../../protocol/schema.ts";
import { usageIn } from "../../protocol/usage.ts";
import { visibleTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { USAGE } from "../views/budget-views.ts";
import { IDEMPOTENCY_KEY, REQUEST_DETAILS } from "../views/job-schemas.ts";
import { CONSTRAINTS, json, orNull } from "../views/schemas.ts";

const NAME = Type.String({ minLength: 1, maxLength: 128, pattern: "^[A-Za-z0-9_.:@-]+$" });
const NAMES = Type.Array(Type.String({ minLength: 1, maxLength: 128 }), { maxItems: 64 });

const LEASE_BODY = Type.Object(
  {
    worker_id: NAME,
    topics: Type.Array(Type.String({ minLength: 1, maxLength: 140 }), { minItems: 1, maxItems: 64 }),
    max: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 1, description: "Maximum number of jobs." })),
    wait_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: LEASE_WAIT_MS_MAX,
        default: 0,
        description: "Long-poll timeout for the first job.",
      }),
    ),
    capabilities: Type.Optional(NAMES),
    pool: Type.Optional(NAME),
  },
  { title: "LeaseRequest" },
);

const LEASED = Type.Object(
  {
    jobs: Type.Array(
      Type.Object({
        job_id: Type.String(),
        id: Type.String({ description: "The same as `job_id`." }),
        attempt: Type.Integer(),
        lease_id: Type.String({ description: "Required by all other worker requests for this attempt." }),
        topic: Type.String(),
        tenant_id: Type.String(),
        input: json("Input of the job."),
        labels: Type.Record(Type.String(), Type.String()),
        constraints: orNull(CONSTRAINTS),
        deadline: Type.String({ description: "When the lease expires unless it is extended." }),
        traceparent: Type.Union([Type.String(), Type.Null()]),
        ...IDEMPOTENCY_KEY,
        ...REQUEST_DETAILS,
      }),
    ),
  },
  { title: "LeaseResponse" },
);

const LEASE_ID = Type.String({ minLength: 1, maxLength: 128 });
const EXTEND_BODY = Type.Object({
  lease_id: LEASE_ID,
  ms: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 3_600_000,
      description: "New lease duration from now. Defaults to the initial one.",
    }),
  ),
});
const RELEASE_BODY = Type.Object({ lease_id: LEASE_ID });
const PROGRESS_BODY = Type.Object({
  lease_id: LEASE_ID,
  percent: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  message: Type.Optional(Type.String({ maxLength: 1_000 })),
});
/** Optional fields of a CAP result; shown on the job. */
const RESULT_FIELDS = {
  execution_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  artifact_ptrs: Type.Optional(Type.Array(Type.String({ maxLength: POINTER_LENGTH_MAX }), { maxItems: 64 })),
  usage: Type.Optional(USAGE),
};
const COMPLETE_BODY = Type.Object({
  ...RESULT_FIELDS,
  lease_id: LEASE_ID,
  result: Type.Optional(json("Result of the job.")),
});
const FAIL_BODY = Type.Object({
  ...RESULT_FIELDS,
  error_code: Type.Optional(Type.String({ maxLength: 256 })),
  error_code_enum: Type.Optional(
    Type.Union([Type.String({ maxLength: 64 }), Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 })], {
      description: "CAP error code, such as `TIMEOUT`, or a number.",
    }),
  ),
  lease_id: LEASE_ID,
  error: Type.String({ minLength: 1, maxLength: 4_000 }),
  retryable: Type.Optional(Type.Boolean({ default: true, description: "If false, the job is not attempted again." })),
  retry_after_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400_000 })),
});
const STATE_CHANGE = Type.Object(
  {
    job_id: Type.String(),
    state: Type.String(),
    deadline: Type.Optional(Type.String()),
  },
  { title: "AttemptState" },
);

export const WORKER_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/worker/lease",
    summary: "Lease jobs; 204 if none became available in time",
    access: "work",
    longLived: true,
    body: LEASE_BODY,
    response: LEASED,
    emptyWhen: "No job within `wait_ms`",
    handle: lease,
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/extend",
    summary: "Extend the lease of an attempt",
    access: "work",
    body: EXTEND_BODY,
    response: STATE_CHANGE,
    handle: async ({ engine }, request) => {
      const { ms } = request.body as Static<typeof EXTEND_BODY>;
      return leaseResponse(
        request,
        await extendLease(engine, holderOf(request), { ...NO_PROGRESS, extendMs: ms ?? null }),
      );
    },
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/progress",
    summary: "Report progress of an attempt; also extends its lease",
    access: "work",
    body: PROGRESS_BODY,
    response: STATE_CHANGE,
    handle: async ({ engine }, request) => {
      const { percent, message } = request.body as Static<typeof PROGRESS_BODY>;
      const progress = { extendMs: null, percent: percent ?? null, message: message ?? null };
      return leaseResponse(request, await extendLease(engine, holderOf(request), progress));
    },
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/release",
    summary: "Return a leased job that was not worked on; it uses no attempt",
    access: "work",
    body: RELEASE_BODY,
    response: STATE_CHANGE,
    handle: async ({ engine }, request) => leaseResponse(request, await releaseLease(engine, holderOf(request))),
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/complete",
    summary: "Complete a job with its result",
    access: "work",
    body: COMPLETE_BODY,
    response: STATE_CHANGE,
    handle: async ({ engine }, request) => {
      const body = request.body as Static<typeof COMPLETE_BODY>;
      const { result = null } = body;
      return leaseResponse(request, await completeLeased(engine, holderOf(request), result, detailsIn(body)));
    },
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/fail",
    summary: "Report a failed attempt, and whether it can be retried",
    access: "work",
    body: FAIL_BODY,
    response: STATE_CHANGE,
    handle: async ({ engine }, request) => {
      const body = request.body as Static<typeof FAIL_BODY>;
      const failure = {
        message: body.error,
        isRetryable: body.retryable ?? true,
        retryAfterMs: body.retry_after_ms ?? null,
        details: detailsIn(body),
      };
      return leaseResponse(request, await failLeased(engine, holderOf(request), failure));
    },
  },
];

/** Each polled topic costs the store a look-up per second, so that a tenant could slow down the others. */
function limitPolledTopics({ waiters, settings }: Gateway["engine"], org: string, count: number): void {
  const limit = quotaOf(settings.current, org, "polledTopicsMax");
  const current = waiters.polledTopicsOf(org);
  // Keys of `*` belong to operators, who have no tenant limit.
  if (org === EVERY_ORG || current + count <= limit) return;
  const detail = `open long polls of tenant \`${org}\` cover ${current} topics; poll fewer topics per worker, or lease more jobs with each poll`;
  throw new Problem("quota_exceeded", detail, { quota: "polled_topics", current, limit });
}

async function lease({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const body = request.body as Static<typeof LEASE_BODY>;
  const org = visibleTenant(request);
  limitPolledTopics(engine, org, body.topics.length);
  const jobs = await leaseJobs(engine, {
    org,
    workerId: body.worker_id,
    topics: body.topics,
    max: body.max ?? 1,
    waitMs: body.wait_ms ?? 0,
    signal: request.signal,
    ...(body.capabilities === undefined ? {} : { capabilities: body.capabilities }),
    ...(body.pool === undefined ? {} : { pool: body.pool }),
  });
  if (jobs.length === 0) return { status: 204, body: null };
  const views = await viewsOf(engine, jobs, visibleTenant(request)).catch(async (error: unknown) => {
    await Promise.all(jobs.map((job) => releaseJob(engine, job)));
    throw error;
  });
  // The worker disconnected while the inputs were loaded: the jobs are released instead of waiting for their leases to end.
  if (request.signal.aborted) await Promise.all(jobs.map((job) => releaseJob(engine, job)));
  if (views.length === 0 || request.signal.aborted) return { status: 204, body: null };
  // The deadlines are times of the cluster; workers compare them with this header.
  return { ...ok({ jobs: views }), headers: { date: new Date(engine.world.clock.now()).toUTCString() } };
}

/** Jobs whose input is not the one that was decided on fail permanently and are left out: a retry cannot succeed. */
async function viewsOf(engine: Gateway["engine"], jobs: readonly Job[], tenant: string): Promise<readonly object[]> {
  const views = await Promise.all(
    jobs.map(async (job) => {
      const read = await readInput(engine, job);
      if (!("problem" in read)) {
        const inline = job.input.kind === "inline" ? job.input.value : null;
        return leasedView(job, clientJobId(tenant, job.id), read.bytes === null ? inline : payloadValue(read.bytes));
      }
      const holder = { org: job.org, jobId: job.id, leaseId: job.leaseId ?? "" };
      await failLeased(engine, holder, { message: read.problem, isRetryable: false, retryAfterMs: null });
      return null;
    }),
  );
  return views.filter((view) => view !== null);
}

/** A key of all tenants receives wire ids, which are unique. */
function leasedView(job: Job, id: string, input: unknown): object {
  const { constraints } = job.safety ?? {};
  return {
    job_id: id,
    id,
    attempt: job.attempt,
    lease_id: job.leaseId,
    topic: job.topic,
    tenant_id: job.org,
    input,
    labels: job.labels,
    constraints: constraints === undefined ? null : constraintsOnWire(constraints),
    deadline: new Date(job.dueMs).toISOString(),
    traceparent: job.traceparent ?? null,
    ...(job.idempotencyKey === undefined ? {} : { idempotency_key: job.idempotencyKey }),
    ...(job.details === undefined ? {} : detailsToJson(job.details)),
  };
}

function detailsIn(body: Partial<Static<typeof FAIL_BODY>>): ResultDetails {
  const { execution_ms, artifact_ptrs, error_code, error_code_enum } = body;
  const usage = usageIn(body.usage);
  return {
    ...(usage === undefined ? {} : { usage }),
    ...(execution_ms === undefined ? {} : { executionMs: execution_ms }),
    ...(artifact_ptrs === undefined ? {} : { artifactPtrs: artifact_ptrs }),
    ...(error_code === undefined ? {} : { errorCode: error_code }),
    ...(error_code_enum === undefined ? {} : { errorCodeEnum: readErrorCode(error_code_enum) }),
  };
}

function readErrorCode(code: string | number): ErrorCode {
  const known = typeof code === "number" ? errorCodeOf(code) : errorCodeNamed(code);
  if (known !== undefined) return known;
  throw new Problem(
    "invalid_request",
    `unknown \`error_code_enum\` \`${code}\`; send a name of CAP such as \`TIMEOUT\`, or a number`,
  );
}

function holderOf(request: GatewayRequest) {
  const { lease_id } = request.body as { readonly lease_id: string };
  return { org: visibleTenant(request), jobId: request.params.id ?? "", leaseId: lease_id };
}

function leaseResponse({ params }: GatewayRequest, held: JobLeaseOutcome): GatewayResponse {
  switch (held.kind) {
    case "held": {
      const { id, state, dueMs } = held.job;
      return ok({
        job_id: params.id ?? id,
        state,
        ...(state === "RUNNING" ? { deadline: new Date(dueMs).toISOString() } : {}),
      });
    }
    case "lost":
      throw new Problem("lease_lost", `${held.why}; discard this attempt and lease another job`, { job_id: params.id });
    case "unknown":
      throw new Problem("job_not_found", `no job \`${params.id}\` that this key can work on; lease another job`);
    default:
      return held satisfies never;
  }
}

const NO_PROGRESS = { percent: null, message: null } as const;
