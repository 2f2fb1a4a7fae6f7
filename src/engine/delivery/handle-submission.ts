import { tenantClaimProblem } from "../../core/jobs/submission.ts";
import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import type { Packet } from "../../protocol/packet.ts";
import { SUBMIT } from "../../protocol/subjects.ts";
import { loadTenantJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { admitJob } from "../intake/index.ts";
import { refused, requestIn, submissionIn } from "../packets.ts";
import { checkSafety } from "../safety/index.ts";

/** Handler of `sys.job.submit`: checks an announced job of the store, or admits a job submitted on the bus. */
export async function handleSubmission(
  engine: DispatchContext & Needs<"audit" | "lockStats" | "contention">,
  packet: Packet,
): Promise<void> {
  const request = requestIn(packet);
  const org = request.tenantId || DEFAULT_ORG;
  // Before the look-up: the answer must not depend on the jobs of another tenant.
  const refusal = request.announces ? null : tenantClaimProblem(packet, org, engine.settings.current);
  if (refusal !== null) throw refused("PERMISSION_DENIED", refusal);
  const found = await loadTenantJob(engine, { org, jobId: request.jobId });
  if (found) {
    if (found.value.state === "PENDING" && found.value.wait === null) await checkSafety(engine, found);
    return; // Otherwise a duplicate: the job was processed, or its due time will process it.
  }
  if (request.announces) throw new Error(`job \`${request.jobId}\` was announced but is not in the store`);
  const admitted = await admitJob(engine, submissionIn(packet, request, engine.settings.current), SUBMIT);
  if (admitted.kind === "unusable") throw refused("DUPLICATE", "job id not available; choose another one");
  if (admitted.kind === "conflict") {
    throw refused("DUPLICATE", `job \`${request.jobId}\` exists with a different body; use a new id for each job`);
  }
}
