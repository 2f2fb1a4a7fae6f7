import { cancelJob } from "../../core/jobs/lifecycle.ts";
import type { Job, JobState } from "../../core/model/job.ts";
import { CANCEL } from "../../protocol/subjects.ts";
import { audited } from "../audit/audit-log.ts";
import { untilFresh } from "../commit.ts";
import { type Flow, given } from "../engine.ts";
import { packet } from "../packets.ts";
import { loadOwn } from "../safety/approve-job.ts";
import { settle } from "./settle-job.ts";

/**
 * Somebody does not want a job any more.
 *
 * 1. It ends in one commit, in whatever state it is; what comes of it afterwards changes nothing.
 * 2. Then the worker that has it is told, as well as that can be done: a worker that does not hear of it works for nothing.
 * 3. One that has ended already stays as it ended.
 */
export interface CancelWish {
  readonly org: string;
  readonly jobId: string;
  readonly by: string;
  readonly why: string;
}

export type CancelOutcome =
  | { readonly kind: "cancelled"; readonly state: JobState }
  /** Before this: cancelled by somebody earlier, or ended otherwise. */
  | { readonly kind: "ended"; readonly state: JobState }
  | { readonly kind: "not_found" };

export function cancel(flow: Flow, wish: CancelWish): Promise<CancelOutcome> {
  return untilFresh(`job \`${wish.jobId}\``, async () => {
    const found = await loadOwn(flow, wish);
    if (!found) return { kind: "not_found" };
    const job = found.value;
    const next = cancelJob(job, wish.by, wish.why, given(flow));
    if (!next) return { kind: "ended", state: job.state };
    const facts = { job: job.id, topic: job.topic, state: job.state, why: wish.why };
    const line = audited(flow, { org: job.org, kind: "cancel", who: wish.by, what: "cancelled", facts });
    if (!(await settle(flow, found, next, [line], { path: "gateway" }))) return "stale";
    tellWorkers(flow, job, wish.by, wish.why);
    return { kind: "cancelled", state: next.state };
  });
}

/** The job as it was before it ended. Also of an attempt that was thought lost: somebody may still be at it. */
export function tellWorkers(flow: Flow, job: Job, by: string, why: string): void {
  if (job.attempt === 0) return;
  const { bus, clock, log, name } = flow.world;
  try {
    bus.tell(
      CANCEL,
      packet(name, job.traceId, clock.now(), { kind: "job_cancel", jobId: job.id, reason: why, requestedBy: by }),
    );
  } catch (error) {
    log.write("warn", "cancel_not_told", { job: job.id, error: String(error) });
  }
}
