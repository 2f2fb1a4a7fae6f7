import type { Job } from "../model/job.ts";
import type { Remediation } from "../policy/decision.ts";
import { withoutBypassLabels } from "./bypass.ts";

/** What a denied job would be with a remediation that its denial offers: a submission of its own, not yet checked. */
export function remedied(job: Job, remedy: Remediation, input: unknown): Readonly<Record<string, unknown>> {
  const { addLabels = {}, removeLabels = [], replacementTopic, replacementCapability } = remedy;
  const kept = Object.entries(withoutBypassLabels(job.labels)).filter(([name]) => !removeLabels.includes(name));
  return {
    org: job.org,
    topic: replacementTopic ?? job.topic,
    input,
    priority: job.priority,
    labels: { ...Object.fromEntries(kept), ...addLabels },
    riskTags: job.riskTags,
    requires: job.requires,
    capability: replacementCapability ?? job.capability,
    actorId: job.actorId,
    actorType: job.actorType,
    packId: job.packId,
    traceId: job.traceId,
    traceparent: job.traceparent,
  };
}
