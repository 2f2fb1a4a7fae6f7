import type { RetryUsage } from "../core/retry/budget.ts";
import { retryAfter } from "../core/retry/intent.ts";
import { nextDelay, type Policy } from "../core/retry/policies.ts";
import type { Acquired, LockLease, LockRequest } from "../ports/locks.ts";
import type { World } from "../ports/world.ts";
import type { Needs } from "./engine.ts";
import { type Polled, pollLock } from "./poll-lock.ts";

/**
 * Work under a lock.
 *
 * 1. Still busy after the wait: `lock_busy`, with the delay of its policy. Jitter decides when contenders come back,
 *    never who may hold the lock.
 * 2. The work gets the lease: it stops when the signal aborts, and what it writes carries the fence.
 *    A write that only the fence protects (no version) first raises the fence, then reads: else a holder that was thought
 *    dead could still write between the reading and the writing of the next one.
 * 3. The lock is released whatever happens, and the caller does not wait for more than that.
 * 4. A backend error while locking is an error; there is no way on without the lock.
 * 5. Who was turned away and came back has waited since then, whichever process it came to: where the store has an account
 *    of it, that is what is measured, not the last try alone.
 */
export interface LockOptions extends Omit<LockRequest, "owner"> {
  /** Which path asks, for the metrics: job, engine, gateway. */
  readonly path: string;
  /** In place of the hand-over queue: asked again at this pace, as at the founding. */
  readonly poll?: Policy | null;
  /**
   * What the accounts say of those for whom it was taken. Null or left out: nobody has one, and what this process remembers
   * has to do.
   */
  readonly accounts?: (() => readonly RetryUsage[]) | null;
}

/** What it took to get a lock, all tries together. */
export interface LockWait {
  readonly waitedMs: number;
  readonly attempts: number;
}

export async function withLock<T>(
  engine: Needs<"world" | "settings" | "tasks" | "lockStats">,
  request: LockOptions,
  work: (lease: LockLease, taken: LockWait) => Promise<T>,
): Promise<T> {
  const { locks, name } = engine.world;
  const { key, org, ttlMs, waitMs, path, poll } = request;
  const acquired = poll
    ? await pollLock(engine, { key, org, ttlMs, maxWaitMs: waitMs, policy: poll, path })
    : asPolled(await locks.acquire({ key, org, ttlMs, waitMs, owner: name }));
  if (acquired.kind === "busy") {
    const { policy } = engine.settings.current.retry.lock_busy;
    const attempt = engine.lockStats.recordBusy(request.key, engine.world.clock.now());
    const delayMs = nextDelay(policy, attempt, () => engine.world.random.next());
    recordBusyRetry(engine.world, path, policy, delayMs);
    const what = path === "job" ? "job lock busy" : "run lock busy";
    throw retryAfter(
      new Error(`${what}: \`${request.key}\` is held by ${acquired.holder ?? "somebody"}`),
      delayMs,
      "lock_busy",
    );
  }
  const { lease } = acquired;
  const taken = totalLockWait(acquired, request.accounts?.() ?? [], engine.world.clock.now());
  recordAcquired(engine, request, taken);
  try {
    return await work(lease, taken);
  } finally {
    const released = lease.release().catch((error: unknown) => {
      engine.world.log.write("warn", "lock_left_to_its_ttl", { key: request.key, error: String(error) });
    });
    engine.tasks.track(released);
  }
}

/** One acquisition serves all of them: it took as long as the one that was turned away first has waited. */
export function totalLockWait(
  { waitedMs, attempts }: LockWait,
  accounts: readonly RetryUsage[],
  nowMs: number,
): LockWait {
  let first: RetryUsage | null = null;
  for (const spent of accounts) if (first === null || spent.sinceMs < first.sinceMs) first = spent;
  if (first === null) return { waitedMs, attempts };
  // Another process may have written the account, by a clock that is ahead.
  return { waitedMs: Math.max(waitedMs, nowMs - first.sinceMs), attempts: attempts + first.count };
}

/** Somebody has a lock now. */
export function recordAcquired(
  engine: Needs<"world" | "lockStats">,
  { key, path, accounts = null }: Pick<LockOptions, "key" | "path" | "accounts">,
  { waitedMs, attempts }: LockWait,
): void {
  const { metrics } = engine.world;
  const busyTimes = engine.lockStats.recordAcquired(key);
  if (accounts === null && busyTimes === 1) recordFirstRetry(engine.world, path);
  metrics.observe("cordum_run_lock_wait_seconds", waitedMs / 1_000, { path });
  metrics.observe("cordum_lock_attempts", attempts, { path });
}

/** Somebody who was turned away once has come through. */
export function recordFirstRetry({ metrics }: World, path: string): void {
  metrics.add("cordum_lock_first_retry_success_total", { path });
}

/** Somebody comes back later because of a lock. */
export function recordBusyRetry({ metrics }: World, path: string, policy: Policy, delayMs: number): void {
  const labels = { path, policy: policy.kind };
  metrics.add("cordum_lock_busy_retries_total", labels);
  metrics.observe("cordum_lock_busy_retry_delay_seconds", delayMs / 1_000, labels);
}

function asPolled(acquired: Acquired): Polled {
  if (acquired.kind === "busy") return acquired;
  const { lease } = acquired;
  return { kind: "held", lease, waitedMs: lease.waitedMs, attempts: lease.attempts };
}
