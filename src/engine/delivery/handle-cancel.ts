import { tenantClaimProblem } from "../../core/jobs/submission.ts";
import { isFinal, JOBS } from "../../core/model/job.ts";
import type { Stop } from "../../ports/bus.ts";
import type { JobCancel, Packet } from "../../protocol/packet.ts";
import { CANCEL } from "../../protocol/subjects.ts";
import { cancelOwnJob, isOwnCancel } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { busClientOf } from "../packets.ts";

/**
 * Cancellations that bus clients request on `sys.job.cancel`.
 *
 * 1. A client may cancel jobs of the tenants that it may submit for, except compensations.
 * 2. Every process receives the request. The first commit ends the job, and the others find it ended.
 * 3. The subject is not durable: a request that cannot be carried out is logged and dropped.
 */
export function watchCancels(engine: CancelContext): Promise<Stop> {
  let pending = 0;
  return engine.world.bus.subscribe(CANCEL, (packet) => {
    const { body } = packet;
    if (body.kind !== "job_cancel" || isOwnCancel(body)) return;
    if (pending >= PENDING_MAX) {
      engine.world.log.write("warn", "cancel_dropped", { job: body.jobId, error: "too many pending cancellations" });
      return;
    }
    pending++;
    engine.tasks.track(cancel(engine, packet, body).finally(() => pending--));
  });
}

type CancelContext = DispatchContext & Needs<"audit">;

async function cancel(engine: CancelContext, packet: Packet, { jobId, reason }: JobCancel): Promise<void> {
  const { log, store } = engine.world;
  const sender = busClientOf(packet);
  try {
    const found = await store.load(JOBS, jobId);
    if (!found || isFinal(found.value.state)) return;
    const { org, step } = found.value;
    const refusal = step?.isCompensation
      ? "the compensation of a step is cancelled by operators"
      : tenantClaimProblem(packet, org, engine.settings.current);
    if (refusal !== null) {
      log.write("warn", "cancel_refused", { job: jobId, sender, error: refusal });
      return;
    }
    const why = reason?.slice(0, REASON_LENGTH_MAX) || "cancelled by a bus client";
    await cancelOwnJob(engine, { org, jobId, by: sender, why });
  } catch (error) {
    log.write("warn", "cancel_failed", { job: jobId, sender, error: String(error) });
  }
}

const PENDING_MAX = 1_000;
const REASON_LENGTH_MAX = 500;
