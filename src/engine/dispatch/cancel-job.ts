import { cancelJob } from "../../core/jobs/lifecycle.ts";
import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import { wireJobId } from "../../core/model/job-id.ts";
import type { Versioned } from "../../ports/store.ts";
import type { JobCancel } from "../../protocol/packet.ts";
import { CANCEL } from "../../protocol/subjects.ts";
import { auditPut } from "../audit/index.ts";
import { retryOnConflict } from "../commit.ts";
import { decisionContext } from "../context.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { packet } from "../packets.ts";
import { settleJob } from "./settle-job.ts";

/**
 * Cancels a job.
 *
 * 1. The job ends in one commit, in any state; later results change nothing.
 * 2. The cancel is then broadcast to workers, best effort.
 * 3. A job that has ended keeps its end.
 */
export interface CancelRequest {
  readonly org: string;
  readonly jobId: string;
  readonly by: string;
  readonly why: string;
  /** Evaluated on the record that the cancel replaces: a job that it rejects is not found. */
  readonly isWanted?: (job: Job) => boolean;
}

export type CancelOutcome =
  | { readonly kind: "cancelled"; readonly state: JobState }
  /** Ended before this request, cancelled or otherwise. */
  | { readonly kind: "ended"; readonly state: JobState }
  | { readonly kind: "not_found" };

export function cancelOwnJob(engine: DispatchContext & Needs<"audit">, request: CancelRequest): Promise<CancelOutcome> {
  return retryOnConflict(`job \`${request.jobId}\``, async () => {
    const found = await loadTenantJob(engine, request);
    if (!found) return { kind: "not_found" };
    const job = found.value;
    if (request.isWanted?.(job) === false) return { kind: "not_found" };
    const next = cancelJob(job, request.by, request.why, decisionContext(engine, job));
    if (!next) return { kind: "ended", state: job.state };
    const facts = { job: job.id, topic: job.topic, state: job.state, why: request.why };
    const line = auditPut(engine, { org: job.org, kind: "cancel", who: request.by, what: "cancelled", facts });
    if (!(await settleJob(engine, found, next, [line], { path: "gateway" }))) return "stale";
    notifyWorkers(engine, job, request.by, request.why);
    return { kind: "cancelled", state: next.state };
  });
}

/**
 * `job` is the record before its end. Attempts that were counted as lost are notified too: a worker may still run one.
 */
export function notifyWorkers(engine: Needs<"world">, job: Job, by: string, why: string): void {
  // A bus client waits for the end of its job.
  if (job.attempt === 0 && !job.submittedBy?.startsWith("bus:")) return;
  const { bus, clock, log, name } = engine.world;
  const requestedBy = by === OWN_NAME ? by : `${OWN_NAME}/${by}`;
  try {
    bus.broadcast(
      CANCEL,
      packet(name, job.traceId, clock.now(), { kind: "job_cancel", jobId: job.id, reason: why, requestedBy }),
    );
  } catch (error) {
    log.write("warn", "cancel_broadcast_failed", { job: job.id, error: String(error) });
  }
}

/** Whether a cancel is the notice of a control plane process rather than the request of a client. */
export const isOwnCancel = ({ requestedBy = "" }: JobCancel): boolean =>
  requestedBy === OWN_NAME || requestedBy.startsWith(`${OWN_NAME}/`);

const OWN_NAME = "cordum";

/** A job by its id within the tenant, or by its wire id. Null also for a job of another tenant. */
export async function loadTenantJob(
  engine: Needs<"world">,
  { org, jobId }: { readonly org: string; readonly jobId: string },
): Promise<Versioned<Job> | null> {
  const id = wireJobId(org, jobId);
  const found = await engine.world.store.load(JOBS, id);
  if (found?.value.org === org) return found;
  // Earlier versions stored the jobs of every tenant under the client's id.
  const earlier = id === jobId ? null : await engine.world.store.load(JOBS, jobId);
  return earlier?.value.org === org ? earlier : null;
}
