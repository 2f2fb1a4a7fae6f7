import { withoutBypassLabels } from "../../core/jobs/bypass.ts";
import { bypassSafety, decideSafety, waitForSafety } from "../../core/jobs/lifecycle.ts";
import type { FailOpenGrant } from "../../core/model/fail-open.ts";
import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import type { Decision, PolicyRequest } from "../../core/policy/decision.ts";
import { isSpreading } from "../../core/retry/policies.ts";
import type { LockLease } from "../../ports/locks.ts";
import { type Guard, put, type Versioned } from "../../ports/store.ts";
import { auditPut, recordDecision } from "../audit/index.ts";
import { decisionContext } from "../context.ts";
import { failOpenGuard, placeJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { decideLimited } from "../limits/index.ts";
import { withLock } from "../with-lock.ts";
import { askKernel, breakerRefusal } from "./circuit-breaker.ts";

/**
 * The safety check of a job before dispatch.
 *
 * 1. An unavailable kernel leaves the job PENDING, with the reason and the time of the next check. Each job returns at
 *    its own time. Checks that a stalled process delayed are paced (`check-pacer.ts`).
 * 2. While the breaker is open a check costs one write: no lock, no call, no read of the breaker.
 * 3. Under a fail-open grant the job is dispatched, marked permanently, counted and audited in one commit.
 * 4. A decision is final: if it cannot be stored it is kept and stored later, never replaced by "unavailable".
 * 5. The job lock keeps two processes from asking a remote kernel about one job, and a bypass from overtaking a
 *    decision.
 */
export async function checkSafety(
  engine: DispatchContext & Needs<"audit" | "lockStats" | "contention">,
  found: Versioned<Job>,
): Promise<void> {
  const { safety } = engine.world;
  // Steps that wait for time or for a sub-run are not dispatched.
  if (found.value.step && found.value.step.kind !== "worker") return;
  if (safety.local) {
    const request = policyRequestOf(found.value, engine.world.clock.now());
    await settleVerdict(engine, found, safety.local(request), []);
    return;
  }
  const { org } = found.value;
  const refused = breakerRefusal(engine);
  if (refused !== null && keptVerdict(engine, found.value) === null && (await leaseOf(engine, found.value)) === null) {
    await wait(engine, found, refused, []);
    return;
  }
  const { lockTtlMs: ttlMs } = engine.settings.current.job;
  const lock = { key: `cordum:scheduler:job:${found.id}`, org, ttlMs, waitMs: 0, path: "job", arms: found.value.arms };
  await withLock(engine, lock, (lease) => check(engine, found, lease));
}

async function check(engine: DispatchContext & Needs<"audit">, found: Versioned<Job>, lock: LockLease): Promise<void> {
  const fence: Guard = { kind: "fence", table: JOBS.name, id: found.id, fence: lock.fence };
  const kept = keptVerdict(engine, found.value);
  // Paced under the lock, because a slow lock also delays checks together.
  if (!kept && isSpread(engine, found.value)) await engine.safety.checkPacer.pass(engine.world.clock);
  const checked = kept
    ? ({ kind: "decided", decision: kept } as const)
    : await askKernel(engine, policyRequestOf(found.value, engine.world.clock.now()));
  switch (checked.kind) {
    case "decided":
      await settleVerdict(engine, found, checked.decision, [fence]);
      return;
    case "unavailable": {
      const lease = await leaseOf(engine, found.value);
      if (lease) await bypass(engine, found, lease, checked.reason, fence);
      else await wait(engine, found, checked.reason, [fence]);
      return;
    }
    default:
      checked satisfies never;
  }
}

/** The job may have changed meanwhile; while it waits for a decision, this one is applied. */
async function settleVerdict(
  engine: DispatchContext & Needs<"audit">,
  found: Versioned<Job>,
  decision: Decision,
  guards: readonly Guard[],
): Promise<void> {
  const { id, value } = found;
  engine.safety.keepVerdict(id, value.deadlineMs, decision);
  let now: Versioned<Job> | null = found;
  for (let tries = 0; tries < TRIES_MAX && now?.value.state === "PENDING"; tries++) {
    const placed = await placeDecided(engine, now, decision, guards, tries === 0);
    if (placed !== "stale") break;
    now = await engine.world.store.load(JOBS, id);
    if (tries === TRIES_MAX - 1 && now?.value.state === "PENDING") return; // Kept for the next check.
  }
  engine.safety.dropVerdict(id);
}

function placeDecided(
  engine: DispatchContext & Needs<"audit">,
  found: Versioned<Job>,
  decision: Decision,
  guards: readonly Guard[],
  isFirst: boolean,
): Promise<JobState | "stale"> {
  if (decision.limits !== undefined) {
    return decideLimited(engine, found.value, decision, (job, puts, ofWindows) =>
      placeJob(engine, found, job, puts, [...guards, ...ofWindows]),
    );
  }
  const decided = decideSafety(found.value, decision, decisionContext(engine, found.value));
  // Recorded in the tick of the commit, so that a crash leaves no decision without its audit entry.
  if (isFirst) recordDecision(engine, decided);
  return placeJob(engine, found, decided, [], guards);
}

async function bypass(
  engine: DispatchContext & Needs<"audit">,
  found: Versioned<Job>,
  lease: FailOpenGrant,
  reason: string,
  fence: Guard,
): Promise<void> {
  const { metrics, log } = engine.world;
  metrics.add("cordum_scheduler_safety_unavailable_total");
  const job = bypassSafety(found.value, lease, reason, decisionContext(engine, found.value));
  const facts = { job: job.id, topic: job.topic, lease: lease.id, approved_by: lease.by, reason };
  const line = auditPut(engine, { org: job.org, kind: "fail_open", who: "cordum", what: "bypassed", facts });
  const guards = [fence, failOpenGuard(lease.id)];
  const placed = await placeJob(engine, found, job, [line], guards, [{ name: FAIL_OPEN_TOTAL, delta: 1 }]);
  if (placed === "stale") return; // The job changed or the grant was closed; its due time repeats the check.
  metrics.add("cordum_scheduler_input_fail_open_total");
  log.write("warn", "safety_bypassed", { job: job.id, org: job.org, lease: lease.id, reason });
}

async function wait(
  engine: Needs<"world" | "settings" | "commit" | "timers">,
  found: Versioned<Job>,
  reason: string,
  guards: readonly Guard[],
): Promise<void> {
  engine.world.metrics.add("cordum_scheduler_safety_unavailable_total");
  const waiting = waitForSafety(found.value, `safety unavailable: ${reason}`, decisionContext(engine, found.value));
  const committed = await engine.commit({ org: waiting.org, puts: [put(JOBS, found.id, found, waiting)], guards });
  // Stale or refused: another process moved the job.
  if (committed.kind === "committed") engine.timers.arm({ id: found.id, version: found.version + 1, value: waiting });
}

/** A throttled job has a decision and waits for the next one. */
async function leaseOf(engine: Needs<"safety">, job: Job): Promise<FailOpenGrant | null> {
  return job.safety === null ? engine.safety.grants.find(job.org) : null;
}

/** Policies without jitter are not paced: the baseline keeps its waves. */
function isSpread(engine: Needs<"settings">, { wait, arms }: Job): boolean {
  return wait !== null && isSpreading(engine.settings.for(arms).retry[wait.retryClass].policy);
}

function keptVerdict(engine: Needs<"safety">, job: Job): Decision | null {
  return engine.safety.verdictFor(job.id, job.deadlineMs);
}

/** `nowMs`: the time of the evaluation; that of the decision if a recorded one is evaluated again. */
export function policyRequestOf(job: Job, nowMs: number | undefined): PolicyRequest {
  const { id: jobId, org, topic, priority, capability, riskTags, requires, actorId, input } = job;
  const request = {
    jobId,
    org,
    topic,
    priority,
    capability,
    riskTags,
    requires,
    labels: job.bypass ? withoutBypassLabels(job.labels) : job.labels,
    actorId,
    actorType: job.actorType ?? null,
    packId: job.packId ?? null,
    callerKey: job.submittedBy,
    caller: job.caller,
    nowMs,
    input: input.kind === "inline" ? input.value : null,
  };
  return input.kind === "inline" ? request : { ...request, inputOmitted: { bytes: input.bytes } };
}

/** Stored as `cordum:scheduler:input_fail_open_total`. */
export const FAIL_OPEN_TOTAL = "scheduler:input_fail_open_total";
const TRIES_MAX = 3;
