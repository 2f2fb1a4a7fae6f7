import { DEFAULT_ORG, tenantClaimProblem } from "../../core/jobs/submission.ts";
import { JOBS } from "../../core/model/job.ts";
import { permanent } from "../../core/retry/intent.ts";
import type { Packet } from "../../protocol/packet.ts";
import { SUBMIT } from "../../protocol/subjects.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { admitJob } from "../intake/index.ts";
import { carriesJob, requestIn, submissionIn } from "../packets.ts";
import { checkSafety } from "../safety/index.ts";

/** Station 2: a submit message. It announces a job that waits in the store, or brings one from a client of the bus. */
export async function handleSubmission(
  engine: DispatchContext & Needs<"audit" | "lockStats">,
  packet: Packet,
): Promise<void> {
  const request = requestIn(packet);
  const found = await engine.world.store.load(JOBS, request.jobId);
  if (found && !(carriesJob(request) && found.value.org !== (request.tenantId || DEFAULT_ORG))) {
    if (found.value.state === "PENDING" && found.value.wait === null) await checkSafety(engine, found);
    return; // A duplicate otherwise: the first delivery did the work, or the sweeper will at the stated time.
  }
  if (!carriesJob(request)) throw new Error(`job \`${request.jobId}\` was announced, but is not in the store`);
  const refusal = tenantClaimProblem(packet, request.tenantId || DEFAULT_ORG, engine.settings.current);
  if (refusal !== null) throw permanent(new Error(refusal));
  const admitted = await admitJob(engine, submissionIn(packet, request), SUBMIT);
  if (admitted.kind === "unusable") throw permanent(new Error("this job id cannot be used; choose another one"));
  if (admitted.kind === "conflict") {
    throw permanent(
      new Error(`job \`${request.jobId}\` is known with another body; use an id of its own for each job`),
    );
  }
}
