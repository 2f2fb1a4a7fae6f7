/** Workers over HTTP, in any language: they come for work, say that they are at it, and say what came of it. */
import { type Static, Type } from "typebox";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import type { Job } from "../../core/model/job.ts";
import {
  completeLeased,
  extendLease,
  failLeased,
  type JobLeaseOutcome,
  LEASE_WAIT_MS_MAX,
  leaseJobs,
  releaseJob,
} from "../../engine/dispatch/index.ts";
import { constraintsOnWire } from "../../protocol/constraints.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { payloadValue } from "../views/payload.ts";

const NAME = Type.String({ minLength: 1, maxLength: 128, pattern: "^[A-Za-z0-9_.:@-]+$" });
const NAMES = Type.Array(Type.String({ minLength: 1, maxLength: 128 }), { maxItems: 64 });

const LEASE_BODY = Type.Object({
  worker_id: NAME,
  topics: Type.Array(Type.String({ minLength: 1, maxLength: 140 }), { minItems: 1, maxItems: 64 }),
  max: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 1, description: "Jobs to take at most." })),
  wait_ms: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: LEASE_WAIT_MS_MAX,
      default: 0,
      description: "How long to wait for the first.",
    }),
  ),
  capabilities: Type.Optional(NAMES),
  pool: Type.Optional(NAME),
});

const LEASED = Type.Object({
  jobs: Type.Array(
    Type.Object({
      job_id: Type.String(),
      attempt: Type.Integer(),
      lease_id: Type.String({ description: "Goes with everything that is said about this attempt." }),
      topic: Type.String(),
      tenant_id: Type.String(),
      input: Type.Unknown(),
      labels: Type.Record(Type.String(), Type.String()),
      constraints: Type.Unknown({ description: "What the work must keep to; null for nothing in particular." }),
      deadline: Type.String({ description: "The lease ends then, unless it is extended." }),
      traceparent: Type.Union([Type.String(), Type.Null()]),
    }),
  ),
});

const LEASE_ID = Type.String({ minLength: 1, maxLength: 128 });
const EXTEND_BODY = Type.Object({
  lease_id: LEASE_ID,
  ms: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 3_600_000, description: "From now; as at first, if left out." }),
  ),
});
const PROGRESS_BODY = Type.Object({
  lease_id: LEASE_ID,
  percent: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  message: Type.Optional(Type.String({ maxLength: 1_000 })),
});
const COMPLETE_BODY = Type.Object({
  lease_id: LEASE_ID,
  result: Type.Optional(Type.Unknown({ description: "Any JSON value." })),
});
const FAIL_BODY = Type.Object({
  lease_id: LEASE_ID,
  error: Type.String({ minLength: 1, maxLength: 4_000 }),
  retryable: Type.Optional(Type.Boolean({ default: true, description: "false: no attempt follows." })),
  retry_after_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400_000 })),
});
const MOVED = Type.Object({ job_id: Type.String(), state: Type.String(), deadline: Type.Optional(Type.String()) });

export const WORKER_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/v1/worker/lease",
    summary: "Takes jobs to work on; 204 when none came in time",
    access: "work",
    long: true,
    body: LEASE_BODY,
    answer: LEASED,
    handle: leaseRoute,
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/extend",
    summary: "Asks for more time for an attempt",
    access: "work",
    body: EXTEND_BODY,
    answer: MOVED,
    handle: async ({ engine }, request) => {
      const { ms } = request.body as Static<typeof EXTEND_BODY>;
      return answerOf(request, await extendLease(engine, holderOf(request), { ...NO_NEWS, extendMs: ms ?? null }));
    },
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/progress",
    summary: "Says how far an attempt is, which also gives it more time",
    access: "work",
    body: PROGRESS_BODY,
    answer: MOVED,
    handle: async ({ engine }, request) => {
      const { percent, message } = request.body as Static<typeof PROGRESS_BODY>;
      const news = { extendMs: null, percent: percent ?? null, message: message ?? null };
      return answerOf(request, await extendLease(engine, holderOf(request), news));
    },
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/complete",
    summary: "Ends a job well, with its result",
    access: "work",
    body: COMPLETE_BODY,
    answer: MOVED,
    handle: async ({ engine }, request) => {
      const { result } = request.body as Static<typeof COMPLETE_BODY>;
      return answerOf(request, await completeLeased(engine, holderOf(request), result ?? null));
    },
  },
  {
    method: "POST",
    path: "/api/v1/worker/jobs/:id/fail",
    summary: "Says that an attempt failed, and whether another makes sense",
    access: "work",
    body: FAIL_BODY,
    answer: MOVED,
    handle: async ({ engine }, request) => {
      const { error, retryable, retry_after_ms } = request.body as Static<typeof FAIL_BODY>;
      const news = { message: error, isRetryable: retryable ?? true, retryAfterMs: retry_after_ms ?? null };
      return answerOf(request, await failLeased(engine, holderOf(request), news));
    },
  },
];

async function leaseRoute({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const body = request.body as Static<typeof LEASE_BODY>;
  const jobs = await leaseJobs(engine, {
    org: orgOf(request),
    workerId: body.worker_id,
    topics: body.topics,
    max: body.max ?? 1,
    waitMs: body.wait_ms ?? 0,
    signal: request.signal,
    ...(body.capabilities === undefined ? {} : { capabilities: body.capabilities }),
    ...(body.pool === undefined ? {} : { pool: body.pool }),
  });
  if (jobs.length === 0) return { status: 204, body: null };
  const views = await viewsOf(engine, jobs).catch(async (error: unknown) => {
    await Promise.all(jobs.map((job) => releaseJob(engine, job)));
    throw error;
  });
  // It has gone while the inputs were being read: nobody would work on them until their leases end.
  if (request.signal.aborted) await Promise.all(jobs.map((job) => releaseJob(engine, job)));
  return views.length === 0 || request.signal.aborted ? { status: 204, body: null } : ok({ jobs: views });
}

/** Without those whose input is gone: nobody can do them, and another try would find nothing else. */
async function viewsOf(engine: Gateway["engine"], jobs: readonly Job[]): Promise<readonly object[]> {
  const views = await Promise.all(
    jobs.map(async (job) => {
      const input = await payloadValue(engine.world.blobs, job.input);
      if (input !== null || job.input.kind === "inline") return leasedView(job, input);
      const { ptr } = job.input;
      if ((await engine.world.blobs.get(ptr)) !== null) return leasedView(job, null);
      const message = `the input is gone: nothing is stored under \`${ptr}\` any more; submit the job again`;
      const holder = { org: job.org, jobId: job.id, leaseId: job.leaseId ?? "" };
      await failLeased(engine, holder, { message, isRetryable: false, retryAfterMs: null });
      return null;
    }),
  );
  return views.filter((view) => view !== null);
}

function leasedView(job: Job, input: unknown): object {
  const { constraints } = job.safety ?? {};
  return {
    job_id: job.id,
    attempt: job.attempt,
    lease_id: job.leaseId,
    topic: job.topic,
    tenant_id: job.org,
    input,
    labels: job.labels,
    constraints: constraints === undefined ? null : constraintsOnWire(constraints),
    deadline: new Date(job.dueMs).toISOString(),
    traceparent: job.traceparent ?? null,
  };
}

/** A key of every tenant that names none works for all of them. */
function orgOf({ org, principal, headers }: GatewayRequest): string {
  const isNamed = headers["x-tenant-id"] !== undefined || headers["x-cordum-tenant"] !== undefined;
  return principal.org === EVERY_ORG && !isNamed ? EVERY_ORG : org;
}

function holderOf(request: GatewayRequest) {
  const { lease_id } = request.body as { readonly lease_id: string };
  return { org: orgOf(request), jobId: request.params.id ?? "", leaseId: lease_id };
}

function answerOf({ params }: GatewayRequest, held: JobLeaseOutcome): Answer {
  switch (held.kind) {
    case "held": {
      const { id, state, dueMs } = held.job;
      return ok({ job_id: id, state, ...(state === "RUNNING" ? { deadline: new Date(dueMs).toISOString() } : {}) });
    }
    case "lost":
      throw new Problem("lease_lost", `${held.why}; drop this work and lease another job`, { job_id: params.id });
    case "unknown":
      throw new Problem("job_not_found", `no job \`${params.id}\` that this key may work on`);
    default:
      return held satisfies never;
  }
}

const NO_NEWS = { percent: null, message: null } as const;
