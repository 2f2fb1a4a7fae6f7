import type { LockLease } from "../../ports/locks.ts";
import type { Needs } from "../engine.ts";
import { pollLock } from "../poll-lock.ts";

/**
 * The founding gate before a run's admission: one lock for each org, asked for again and again.
 *
 * Kept so that it can be compared with the atomic admission, and for those who want the founding behaviour exactly.
 *
 * 1. The lock saves work, it does not decide: what is written behind it is guarded by the limit all the same.
 * 2. It is polled (see `poll-lock.ts`); after `admission.polled.max_wait_ms` the answer is "unavailable".
 * 3. The lock is released whatever happens, and nobody waits for that but a stop of the process.
 * 4. A backend error while locking is an error; there is no way on without the lock.
 * 5. Starts and reruns come through here. Sub-runs and runs that live again do not: those who wait for a slot would only
 *    wait for the lock besides, and by 1 the limit holds without.
 */
export type Gated<T> =
  | { readonly kind: "passed"; readonly value: T }
  | { readonly kind: "unavailable"; readonly waitedMs: number };

export async function withAdmissionLock<T>(
  engine: Needs<"world" | "settings" | "tasks" | "lockStats">,
  org: string,
  work: (lease: LockLease) => Promise<T>,
): Promise<Gated<T>> {
  const { policy, maxWaitMs, ttlMs } = engine.settings.current.admission.polled;
  const key = admissionLockOf(org);
  const polled = await pollLock(engine, { key, org, ttlMs, maxWaitMs, policy, path: PATH });
  if (polled.kind === "busy") return { kind: "unavailable", waitedMs: polled.waitedMs };
  noteTaken(engine, key, polled.attempts, polled.waitedMs);
  return { kind: "passed", value: await underLease(engine, polled.lease, work) };
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
      engine.world.log.write("warn", "lock_left_to_its_ttl", { key: lease.key, error: String(error) });
    });
    engine.tasks.track(released);
  }
}

function noteTaken(engine: Needs<"world" | "lockStats">, key: string, attempt: number, waitedMs: number): void {
  const { metrics } = engine.world;
  engine.lockStats.recordAcquired(key);
  if (attempt === 2) metrics.add("cordum_lock_first_retry_success_total", { path: PATH });
  metrics.observe("cordum_run_lock_wait_seconds", waitedMs / 1_000, { path: PATH });
  metrics.observe("cordum_lock_attempts", attempt, { path: PATH });
}

const PATH = "admission";
