import type { Arms } from "../../core/model/arms.ts";
import type { LockLease } from "../../ports/locks.ts";
import type { Needs } from "../engine.ts";
import { pollLock } from "../poll-lock.ts";

/**
 * The baseline admission: one polled lock per org, kept for comparison with atomic admission.
 *
 * 1. The lock saves work; the limit is a guard of the commit in any case.
 * 2. After `admission.polled.max_wait_ms` of polling the result is "unavailable".
 * 3. The lock is released in every case; only a process stop waits for the release.
 * 4. A backend error while locking is an error. There is no path without the lock.
 * 5. Starts and reruns use it. Sub-runs and reopened runs do not: the guard limits them.
 */
export type AdmissionLockOutcome<T> =
  | { readonly kind: "passed"; readonly value: T }
  | { readonly kind: "unavailable"; readonly waitedMs: number };

/** How a start got the lock. The run that it admits stores the arms of its tenant. */
export interface Admission {
  readonly waitedMs: number;
  readonly arms: Arms | undefined;
}

export async function withAdmissionLock<T>(
  engine: Needs<"world" | "settings" | "rollouts" | "tasks" | "lockStats" | "contention">,
  org: string,
  work: (lease: LockLease, admission: Admission) => Promise<T>,
): Promise<AdmissionLockOutcome<T>> {
  const arms = engine.rollouts.enrolOrg(org);
  const { policy, maxWaitMs, ttlMs } = engine.settings.for(arms).admission.polled;
  const key = admissionLockOf(org);
  const polled = await pollLock(engine, { key, org, ttlMs, maxWaitMs, policy, path: PATH, arms });
  const { clock } = engine.world;
  const grantedMs = clock.now();
  const { attempts, waitedMs } = polled;
  const event = { arrivedMs: grantedMs - waitedMs, attempts, hasJoined: false };
  if (polled.kind === "busy") {
    engine.contention.refused(key, PATH, event, grantedMs);
    return { kind: "unavailable", waitedMs };
  }
  noteTaken(engine, key, attempts, waitedMs, arms);
  const value = await underLease(engine, polled.lease, (lease) => work(lease, { waitedMs, arms }));
  engine.contention.applied(key, PATH, [event], { grantedMs, doneMs: clock.now(), wasQueued: false });
  return { kind: "passed", value };
}

export const admissionLockOf = (org: string): string => `cordum:wf:run:admission:${org}`;

async function underLease<T>(
  engine: Needs<"world" | "tasks">,
  lease: LockLease,
  work: (lease: LockLease) => Promise<T>,
): Promise<T> {
  try {
    return await work(lease);
  } finally {
    const released = lease.release().catch((error: unknown) => {
      engine.world.log.write("warn", "lock_release_failed", { key: lease.key, error: String(error) });
    });
    engine.tasks.track(released);
  }
}

function noteTaken(
  engine: Needs<"world" | "settings" | "lockStats">,
  key: string,
  attempt: number,
  waitedMs: number,
  arms: Arms | undefined,
): void {
  const { metrics } = engine.world;
  const labels = engine.settings.labelled({ path: PATH }, arms);
  engine.lockStats.recordAcquired(key);
  if (attempt === 2) metrics.add("cordum_lock_first_retry_success_total", labels);
  metrics.observe("cordum_run_lock_wait_seconds", waitedMs / 1_000, labels);
  metrics.observe("cordum_lock_attempts", attempt, labels);
}

const PATH = "admission";
