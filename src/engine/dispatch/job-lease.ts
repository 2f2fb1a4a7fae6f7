import { applyResult, recordProgress, requeueJob } from "../../core/jobs/attempt.ts";
import { JOBS, type Job, type Payload } from "../../core/model/job.ts";
import type { ResultDetails } from "../../core/model/job-details.ts";
import { put, type Versioned } from "../../ports/store.ts";
import type { JobResult } from "../../protocol/packet.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { acceptValue } from "./accept-output.ts";
import { loadTenantJob } from "./cancel-job.ts";
import { settleJob } from "./settle-job.ts";

/**
 * Requests of a worker about a job that it holds under a lease.
 *
 * 1. Only the lease of the current attempt is valid; a lost lease is reported and its result is ignored.
 * 2. Repeating the same end with one lease succeeds, because the first response may have been lost.
 */
export interface JobLease {
  /** `*` for any tenant; `jobId` is a wire id then. */
  readonly org: string;
  readonly jobId: string;
  readonly leaseId: string;
}

export type JobLeaseOutcome =
  | { readonly kind: "held"; readonly job: Job }
  | { readonly kind: "lost"; readonly why: string }
  | { readonly kind: "unknown" };

/** Extends the deadline of the attempt, with or without progress. */
export function extendLease(
  engine: Needs<"world" | "settings" | "commit" | "registry">,
  holder: JobLease,
  report: { readonly extendMs: number | null; readonly percent: number | null; readonly message: string | null },
): Promise<JobLeaseOutcome> {
  return retryOnConflict(`job \`${holder.jobId}\``, async () => {
    const found = await findLeased(engine, holder);
    if (found.kind === "over") return lost(found.job);
    if (found.kind !== "found") return found;
    const { job } = found;
    engine.registry.record(
      { id: job.value.workerId ?? "", transport: "http", org: holder.org },
      engine.world.clock.now(),
    );
    const next = recordProgress(
      job.value,
      { ...report, workerId: job.value.workerId ?? "" },
      decisionContext(engine, job.value),
    );
    if (!next) return lost(job.value);
    const committed = await engine.commit({ org: next.org, puts: [put(JOBS, next.id, job, next)] });
    return committed.kind === "committed" ? { kind: "held", job: next } : "stale";
  });
}

export function completeLeased(
  engine: DispatchContext,
  holder: JobLease,
  output: unknown,
  details: ResultDetails = {},
): Promise<JobLeaseOutcome> {
  return retryOnConflict(`job \`${holder.jobId}\``, async () => {
    const found = await findLeased(engine, holder);
    if (found.kind === "over" && found.job.state === "SUCCEEDED") return { kind: "held", job: found.job };
    if (found.kind === "over") return lost(found.job);
    if (found.kind !== "found") return found;
    const accepted = await acceptValue(engine, found.job.value, output ?? null, details.artifactPtrs);
    if (accepted.kind === "accepted") {
      return end(engine, found.job, { ...details, status: "succeeded" }, accepted.output);
    }
    const error = { name: "ResultRefused", message: accepted.why };
    return end(engine, found.job, { ...details, status: "failed_fatal", error }, null);
  });
}

export function failLeased(
  engine: DispatchContext,
  holder: JobLease,
  report: {
    readonly message: string;
    readonly isRetryable: boolean;
    readonly retryAfterMs: number | null;
    readonly details?: ResultDetails;
  },
): Promise<JobLeaseOutcome> {
  return retryOnConflict(`job \`${holder.jobId}\``, async () => {
    const found = await findLeased(engine, holder);
    if (found.kind === "over" && found.job.history.at(-1)?.event === "failed") return { kind: "held", job: found.job };
    if (found.kind === "over") return lost(found.job);
    if (found.kind !== "found") return found;
    const error = { name: "WorkerError", message: report.message };
    const status = report.isRetryable ? "failed_retryable" : "failed_fatal";
    const retry = report.retryAfterMs === null ? {} : { retryAfterMs: report.retryAfterMs };
    return end(engine, found.job, { ...report.details, status, error, ...retry }, null);
  });
}

/** Returns a job that the worker has not worked on to the backlog; it uses no attempt. */
export function releaseLease(
  engine: Needs<"world" | "settings" | "commit">,
  holder: JobLease,
): Promise<JobLeaseOutcome> {
  return retryOnConflict(`job \`${holder.jobId}\``, async () => {
    const found = await findLeased(engine, holder);
    if (found.kind === "over") return lost(found.job);
    if (found.kind !== "found") return found;
    const next = requeueJob(found.job.value, decisionContext(engine, found.job.value));
    const committed = await engine.commit({ org: next.org, puts: [put(JOBS, next.id, found.job, next)] });
    return committed.kind === "committed" ? { kind: "held", job: next } : "stale";
  });
}

async function end(
  engine: DispatchContext,
  found: Versioned<Job>,
  outcome: Omit<JobResult, "jobId" | "workerId">,
  output: Payload | null,
): Promise<JobLeaseOutcome | "stale"> {
  const { id: jobId, attempt, workerId, dispatchedMs } = found.value;
  const result: JobResult = { jobId, attempt, workerId: workerId ?? "", ...outcome };
  const next = applyResult(found.value, result, output, decisionContext(engine, found.value));
  if (!next) return lost(found.value);
  if (!(await settleJob(engine, found, next, [], { path: "gateway" }))) return "stale";
  if (next.state === "SUCCEEDED" && dispatchedMs !== null) {
    const seconds = Math.max(0, next.updatedMs - dispatchedMs) / 1_000;
    engine.world.metrics.observe(
      "cordum_job_result_latency_seconds",
      seconds,
      engine.settings.labelled(NO_LABELS, found.value.arms),
    );
  }
  return { kind: "held", job: next };
}

type Leased =
  | { readonly kind: "found"; readonly job: Versioned<Job> }
  /** The lease is the last one of the job, and its attempt has ended. */
  | { readonly kind: "over"; readonly job: Job }
  | Extract<JobLeaseOutcome, { kind: "lost" | "unknown" }>;

async function findLeased(engine: Needs<"world">, { org, jobId, leaseId }: JobLease): Promise<Leased> {
  // A job of another tenant is reported as unknown, so that its existence is not disclosed.
  const found = org === "*" ? await engine.world.store.load(JOBS, jobId) : await loadTenantJob(engine, { org, jobId });
  if (!found) return { kind: "unknown" };
  if (found.value.leaseId !== leaseId) return lost(found.value);
  return found.value.state === "RUNNING" ? { kind: "found", job: found } : { kind: "over", job: found.value };
}

const lost = (job: Job): Extract<JobLeaseOutcome, { kind: "lost" }> => ({
  kind: "lost",
  why: `lease expired: the job is ${job.state}, attempt ${job.attempt}`,
});

const NO_LABELS = {} as const;
