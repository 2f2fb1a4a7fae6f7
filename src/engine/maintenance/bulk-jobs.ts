import { type JobFilter, jobLists, matchesJob } from "../../core/jobs/job-filter.ts";
import { JOBS, type Job, type JobState, OPEN_STATES, REDRIVABLE } from "../../core/model/job.ts";
import type { ScoreRange, Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { type CancelOutcome, cancelOwnJob } from "../dispatch/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { type BulkPage, changePage, type Verdict } from "./bulk.ts";
import { verdictOf as verdictOfRetry } from "./bulk-dead-letters.ts";
import { type RetryOutcome, redriveDeadLetter } from "./redrive.ts";

/**
 * Cancels the open jobs of a query, or retries its failed ones from their dead letters. The filter is evaluated again with each
 * change: a job that left it meanwhile stays as it is.
 */
export interface JobBulkOperation {
  readonly action: JobBulkAction;
  readonly org: string;
  readonly filter: JobFilter;
  readonly range: ScoreRange;
  /** The number of jobs at the start. */
  readonly matched: number;
  readonly by: string;
  readonly why: string;
}

export interface JobBulkRequest extends JobBulkOperation {
  readonly limit: number;
  readonly cursor: string | undefined;
}

export type JobBulkAction = "cancel" | "retry";

export type JobBulkOutcome =
  | CancelOutcome
  | RetryOutcome
  /** The dead letter was dropped. */
  | { readonly kind: "no_dead_letter" };

/** The states whose jobs an action can change. */
export const BULK_STATES: Readonly<Record<JobBulkAction, readonly JobState[]>> = {
  cancel: OPEN_STATES,
  retry: REDRIVABLE,
};

export const bulkJobLists = ({ action, org, filter }: Pick<JobBulkOperation, "action" | "org" | "filter">) =>
  jobLists(org, filter, BULK_STATES[action]);

/** Audits the start of an operation, before its first page. Each job has an entry of its own in addition. */
export async function recordJobBulk(engine: Needs<"commit" | "audit">, operation: JobBulkOperation): Promise<void> {
  const { action, org, filter, range, matched, by: who, why } = operation;
  const { state = null, topic = null, label, isRetrying = false, retryClass = null } = filter;
  const facts = {
    state,
    topic,
    label: label === undefined ? null : `${label.key}=${label.value}`,
    retrying: isRetrying,
    retry_class: retryClass,
    why,
    matched,
    from: range.scoreMin ?? 0,
    until: range.scoreMax ?? null,
  };
  const kind = action === "cancel" ? "cancel" : "dead_letter";
  await engine.commit({ org, puts: [auditPut(engine, { org, kind, who, what: `bulk ${action} of jobs`, facts })] });
}

export function bulkJobs(engine: RunContext, request: JobBulkRequest): Promise<BulkPage<Job, JobBulkOutcome>> {
  const change = (job: Versioned<Job>) =>
    request.action === "cancel" ? cancel(engine, job.id, request) : retry(engine, job.id, request);
  return changePage<Job, JobBulkOutcome>(
    engine,
    { ...request, table: JOBS, index: bulkJobLists(request) },
    change,
    verdictOf,
  );
}

function cancel(engine: RunContext, jobId: string, { org, by, why, filter }: JobBulkRequest): Promise<CancelOutcome> {
  return cancelOwnJob(engine, { org, jobId, by, why, isWanted: (job) => matchesJob(filter, job) });
}

async function retry(engine: RunContext, jobId: string, { org, by }: JobBulkRequest): Promise<JobBulkOutcome> {
  const outcome = await redriveDeadLetter(engine, { org, id: jobId, by });
  if (outcome.kind !== "not_found") return outcome;
  const job = await engine.world.store.load(JOBS, jobId);
  return job !== null && REDRIVABLE.includes(job.value.state) ? { kind: "no_dead_letter" } : outcome;
}

function verdictOf(outcome: JobBulkOutcome): Verdict {
  switch (outcome.kind) {
    case "cancelled":
      return "done";
    case "ended":
      return "gone";
    case "no_dead_letter":
      return "rejected";
    default:
      return verdictOfRetry(outcome);
  }
}
