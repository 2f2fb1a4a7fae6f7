import { decideSafety, waitForSafety } from "../jobs/life.ts";
import { JOBS, type Job } from "../model/job.ts";
import type { PolicyRequest } from "../policy/decision.ts";
import type { Lease } from "../ports/locks.ts";
import { type Guard, put, type Versioned } from "../ports/store.ts";
import { apply } from "./apply.ts";
import { type Flow, given } from "./flow.ts";
import { place } from "./place.ts";
import { remind } from "./wake.ts";
import { withLock } from "./with-lock.ts";

/**
 * Station 3: nothing is dispatched before the safety kernel has said so.
 *
 * 1. A kernel that does not answer leaves the job PENDING, with the reason and the time of the next try on it.
 * 2. A verdict that was given stands: if it cannot be stored, the message is retried, never called "unavailable".
 * 3. A kernel elsewhere may take its time; the job's lock keeps two processes from asking it the same question.
 */
export async function checkSafety(flow: Flow, found: Versioned<Job>): Promise<void> {
  const { safety } = flow.world;
  if (safety.local) {
    await place(flow, found, decideSafety(found.value, safety.local(policyRequestOf(found.value)), given(flow)));
    return;
  }
  const lock = {
    key: `cordum:scheduler:job:${found.id}`,
    org: found.value.org,
    ttlMs: flow.settings.current.job.lockTtlMs,
    waitMs: 0,
    path: "job",
  };
  await withLock(flow, lock, (lease) => askKernel(flow, found, lease));
}

async function askKernel(flow: Flow, found: Versioned<Job>, lease: Lease): Promise<void> {
  const checked = await flow.world.safety.check(policyRequestOf(found.value));
  const fence: Guard = { kind: "fence", table: JOBS.name, id: found.id, fence: lease.fence };
  switch (checked.kind) {
    case "decided":
      await place(flow, found, decideSafety(found.value, checked.decision, given(flow)), [], [fence]);
      return;
    case "unavailable": {
      flow.world.metrics.add("cordum_scheduler_safety_unavailable_total");
      const waiting = waitForSafety(found.value, `safety unavailable: ${checked.reason}`, given(flow));
      const puts = [put(JOBS, found.id, found, waiting)];
      const committed = await apply(flow, { org: waiting.org, puts, guards: [fence] });
      // Stale or refused: somebody else moved the job on, which is all that was wanted.
      if (committed.kind === "committed") remind(flow, { id: found.id, version: found.version + 1, value: waiting });
      return;
    }
    default:
      checked satisfies never;
  }
}

export function policyRequestOf(job: Job): PolicyRequest {
  const { id: jobId, org, topic, capability, riskTags, labels, actorId } = job;
  return { jobId, org, topic, capability, riskTags, labels, actorId };
}
