import { wireJobId } from "../core/model/job-id.ts";
import { allPages, jobLines, type PlaneParts, untilEnded, type Within } from "./plane-parts.ts";
import type { RequestAs } from "./requests.ts";
import type {
  ApprovalView,
  DeadLetterView,
  ExplanationView,
  JobRequest,
  JobState,
  JobStateView,
  JobSummary,
  JobView,
  SubmittedView,
} from "./views.ts";

/** Jobs without a workflow, and the jobs of steps. */
export class TestJobs {
  readonly #parts: PlaneParts;

  constructor(parts: PlaneParts) {
    this.#parts = parts;
  }

  /** `POST /jobs`. A denial is a `PlaneError` with code `denied` and its rule in `facts.rule_id`. */
  submit(job: JobRequest, as?: RequestAs): Promise<SubmittedView> {
    const creates = job.idempotency_key === undefined && job.job_id === undefined;
    return this.#parts.requests.send("POST /jobs", { body: job, as, creates });
  }

  get(jobId: string, as?: RequestAs): Promise<JobView> {
    return this.#parts.requests.send("GET /jobs/:id", { params: { id: jobId }, as });
  }

  /** All jobs of the tenant, newest first. */
  list(filter: { readonly state?: JobState; readonly topic?: string } = {}, as?: RequestAs) {
    return allPages<JobSummary>(this.#parts, "GET /jobs", { query: { ...filter }, as });
  }

  explain(jobId: string, as?: RequestAs): Promise<ExplanationView> {
    return this.#parts.requests.send("GET /jobs/:id/explain", { params: { id: jobId }, as });
  }

  cancel(jobId: string, { reason, ...as }: RequestAs & { readonly reason?: string } = {}): Promise<JobStateView> {
    return this.#parts.requests.send("POST /jobs/:id/cancel", {
      params: { id: jobId },
      body: reason === undefined ? {} : { reason },
      as,
      afterRetry: ({ code, facts }) =>
        code === "job_ended" && facts.state === "CANCELLED" ? { job_id: jobId, id: jobId, state: "CANCELLED" } : null,
    });
  }

  /** Advances until the job has ended, and returns it. Rejects with what it waits for if it does not end by itself. */
  async finished(jobId: string, { within, ...as }: RequestAs & Within = {}): Promise<JobView> {
    const { work } = this.#parts;
    await this.get(jobId, as);
    const id = work.hasJob(jobId) ? jobId : wireJobId(as.tenant ?? "default", jobId);
    const query = {
      what: `job \`${jobId}\``,
      isOpen: () => work.hasJob(id),
      isBlocked: () => work.isJobBlocked(id),
      explain: async () => jobLines(await this.explain(jobId, as)),
    };
    await untilEnded(this.#parts, query, within === undefined ? {} : { within });
    return this.get(jobId, as);
  }
}

/** Jobs and steps that await a human decision. */
export class TestApprovals {
  readonly #parts: PlaneParts;

  constructor(parts: PlaneParts) {
    this.#parts = parts;
  }

  list(as?: RequestAs): Promise<readonly ApprovalView[]> {
    return allPages(this.#parts, "GET /approvals", { as });
  }

  /** Approves a job, as `approver` unless `by` names another person. */
  approve(
    jobId: string,
    { note, by = "approver", ...as }: RequestAs & { readonly note?: string } = {},
  ): Promise<JobStateView> {
    return this.#decide("approve", jobId, note === undefined ? {} : { note }, { ...as, by });
  }

  /** Rejects a job; it ends as DENIED. */
  reject(
    jobId: string,
    { reason = "rejected", by = "approver", ...as }: RequestAs & { readonly reason?: string } = {},
  ): Promise<JobStateView> {
    return this.#decide("reject", jobId, { reason }, { ...as, by });
  }

  #decide(verb: "approve" | "reject", jobId: string, body: object, as: RequestAs): Promise<JobStateView> {
    return this.#parts.requests.send(`POST /approvals/:id/${verb}`, {
      params: { id: jobId },
      body,
      as,
      afterRetry: ({ code, facts }) =>
        code === "not_waiting" ? { job_id: jobId, id: jobId, state: facts.state } : null,
    });
  }
}

/** Jobs that failed for good, and messages that could not be processed. */
export class TestDeadLetters {
  readonly #parts: PlaneParts;

  constructor(parts: PlaneParts) {
    this.#parts = parts;
  }

  list(as?: RequestAs): Promise<readonly DeadLetterView[]> {
    return allPages(this.#parts, "GET /dlq", { as });
  }

  /** Redrives the job of a dead letter. */
  retry(id: string, as?: RequestAs): Promise<{ readonly state: string; readonly job_id?: string }> {
    return this.#parts.requests.send("POST /dlq/:id/retry", {
      params: { id },
      as,
      afterRetry: ({ code }) => (code === "dead_letter_not_found" ? { job_id: id, state: "SCHEDULED" } : null),
    });
  }

  drop(id: string, as?: RequestAs): Promise<{ readonly id: string; readonly dropped: boolean }> {
    return this.#parts.requests.send("DELETE /dlq/:id", {
      params: { id },
      as,
      afterRetry: ({ code }) => (code === "dead_letter_not_found" ? { id, dropped: true } : null),
    });
  }
}
