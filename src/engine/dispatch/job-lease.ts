import { applyResult, recordProgress } from "../../core/jobs/attempt.ts";
import { JOBS, type Job, type Payload } from "../../core/model/job.ts";
import { put, type Versioned } from "../../ports/store.ts";
import type { JobResult } from "../../protocol/packet.ts";
import { outputKey } from "../../protocol/pointer.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { keptUntilMs, storeSent } from "../payloads.ts";
import { settleJob } from "./settle-job.ts";

/**
 * What a worker says of a job that it has under a lease.
 *
 * 1. Only the lease of the present attempt counts; who has lost it is told so, and its work changes nothing.
 * 2. Saying the same end twice with one lease is fine: the answer to the first may have been lost.
 */
export interface JobLease {
  /** `*` for any tenant. */
  readonly org: string;
  readonly jobId: string;
  readonly leaseId: string;
}

export type JobLeaseOutcome =
  | { readonly kind: "held"; readonly job: Job }
  | { readonly kind: "lost"; readonly why: string }
  | { readonly kind: "unknown" };

/** Moves the deadline of the attempt on, with or without a word about how far it is. */
export function extendLease(
  engine: Needs<"world" | "settings" | "commit" | "registry">,
  holder: JobLease,
  news: { readonly extendMs: number | null; readonly percent: number | null; readonly message: string | null },
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
    const next = recordProgress(job.value, { ...news, workerId: job.value.workerId ?? "" }, decisionContext(engine));
    if (!next) return lost(job.value);
    const committed = await engine.commit({ org: next.org, puts: [put(JOBS, next.id, job, next)] });
    return committed.kind === "committed" ? { kind: "held", job: next } : "stale";
  });
}

export function completeLeased(engine: DispatchContext, holder: JobLease, output: unknown): Promise<JobLeaseOutcome> {
  return retryOnConflict(`job \`${holder.jobId}\``, async () => {
    const found = await findLeased(engine, holder);
    if (found.kind === "over" && found.job.state === "SUCCEEDED") return { kind: "held", job: found.job };
    if (found.kind === "over") return lost(found.job);
    if (found.kind !== "found") return found;
    const payload = await storeOutput(engine, holder, found.job.value, output ?? null);
    return end(engine, found.job, { status: "succeeded" }, payload);
  });
}

export function failLeased(
  engine: DispatchContext,
  holder: JobLease,
  news: { readonly message: string; readonly isRetryable: boolean; readonly retryAfterMs: number | null },
): Promise<JobLeaseOutcome> {
  return retryOnConflict(`job \`${holder.jobId}\``, async () => {
    const found = await findLeased(engine, holder);
    if (found.kind === "over" && found.job.history.at(-1)?.event === "failed") return { kind: "held", job: found.job };
    if (found.kind === "over") return lost(found.job);
    if (found.kind !== "found") return found;
    const error = { name: "WorkerError", message: news.message };
    const status = news.isRetryable ? "failed_retryable" : "failed_fatal";
    const retry = news.retryAfterMs === null ? {} : { retryAfterMs: news.retryAfterMs };
    return end(engine, found.job, { status, error, ...retry }, null);
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
  const next = applyResult(found.value, result, output, decisionContext(engine));
  if (!next) return lost(found.value);
  if (!(await settleJob(engine, found, next, [], { path: "gateway" }))) return "stale";
  if (next.state === "SUCCEEDED" && dispatchedMs !== null) {
    const seconds = Math.max(0, next.updatedMs - dispatchedMs) / 1_000;
    engine.world.metrics.observe("cordum_job_result_latency_seconds", seconds);
  }
  return { kind: "held", job: next };
}

type Leased =
  | { readonly kind: "found"; readonly job: Versioned<Job> }
  /** The lease is the last one of the job, and its attempt has ended. */
  | { readonly kind: "over"; readonly job: Job }
  | Extract<JobLeaseOutcome, { kind: "lost" | "unknown" }>;

async function findLeased(engine: Needs<"world">, { org, jobId, leaseId }: JobLease): Promise<Leased> {
  const found = await engine.world.store.load(JOBS, jobId);
  // Somebody else's job is not there: saying more would tell that it exists.
  if (!found || (org !== "*" && found.value.org !== org)) return { kind: "unknown" };
  if (found.value.leaseId !== leaseId) return lost(found.value);
  return found.value.state === "RUNNING" ? { kind: "found", job: found } : { kind: "over", job: found.value };
}

const lost = (job: Job): Extract<JobLeaseOutcome, { kind: "lost" }> => ({
  kind: "lost",
  why: `the lease is over: the job is ${job.state}, attempt ${job.attempt}`,
});

/** Under a name of this lease: who has lost it must not write over what another has done. */
function storeOutput(engine: Needs<"world" | "settings">, { jobId, leaseId }: JobLease, { step }: Job, value: unknown) {
  return storeSent(engine, "result", value, async () => {
    const { job, retention } = engine.settings.current;
    // The run that it is a step of may be read, or run again, when the job is long over.
    const untilMs = step
      ? await keptUntilMs(engine, step.runId)
      : engine.world.clock.now() + job.deadlineMs + retention.jobsMs;
    return { ptr: `${outputKey(jobId)}.${leaseId}`, untilMs };
  });
}
