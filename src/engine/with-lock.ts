import type { Arms } from "../core/model/arms.ts";
import type { RetryUsage } from "../core/retry/budget.ts";
import { retryAfter } from "../core/retry/intent.ts";
import { nextDelay, type Policy } from "../core/retry/policies.ts";
import type { Acquired, LockLease, LockRequest } from "../ports/locks.ts";
import type { Needs } from "./engine.ts";
import { type Polled, pollLock } from "./poll-lock.ts";

/**
 * Runs work under a lock.
 *
 * 1. A lock that is busy after the wait throws `lock_busy` with the delay of its policy.
 * 2. The work receives the lease: it stops when the signal aborts, and its writes carry the fence. A write that only
 *    the fence protects (no version) raises the fence before it reads; otherwise an old holder could write between that
 *    read and the write.
 * 3. The lock is released in every case; the caller does not wait for the release.
 * 4. A backend error while locking is an error. There is no path without the lock.
 * 5. The measured wait includes earlier `lock_busy` retries where the store has counted them, in any process.
 */
export interface LockOptions extends Omit<LockRequest, "owner"> {
  /** Metric label: job, engine, gateway. */
  readonly path: string;
  /** Polls with this policy instead of waiting in the hand-over queue (baseline). */
  readonly poll?: Policy | null;
  /**
   * Earlier `lock_busy` failures of the events that this acquisition serves. Null: not counted in the store; this
   * process's own count is used.
   */
  readonly busyUsage?: (() => readonly RetryUsage[]) | null;
  /** Of the unit that the lock is acquired for. */
  readonly arms?: Arms | undefined;
}

/** Wait and attempts of one acquisition, including earlier retries. */
export interface LockWait {
  readonly waitedMs: number;
  readonly attempts: number;
}

export async function withLock<T>(
  engine: Needs<"world" | "settings" | "tasks" | "lockStats" | "contention">,
  request: LockOptions,
  work: (lease: LockLease, taken: LockWait) => Promise<T>,
): Promise<T> {
  const { locks, name, clock } = engine.world;
  const { key, org, ttlMs, waitMs, path, poll } = request;
  const askedMs = clock.now();
  const acquired = poll
    ? await pollLock(engine, { key, org, ttlMs, maxWaitMs: waitMs, policy: poll, path, arms: request.arms })
    : asPolled(await locks.acquire({ key, org, ttlMs, waitMs, owner: name }));
  if (acquired.kind === "busy") {
    engine.contention.busy(key);
    const { policy } = engine.settings.for(request.arms).retry.lock_busy;
    const attempt = engine.lockStats.recordBusy(request.key, clock.now());
    const delayMs = nextDelay(policy, attempt, () => engine.world.random.next());
    recordBusyRetry(engine, path, policy, delayMs, request.arms);
    const what = path === "job" ? "job lock busy" : "run lock busy";
    throw retryAfter(
      new Error(`${what}: \`${request.key}\` is held by ${acquired.holder ?? "another process"}`),
      delayMs,
      "lock_busy",
    );
  }
  const { lease } = acquired;
  const acquiredMs = clock.now();
  const taken = totalLockWait(acquired, request.busyUsage?.() ?? [], acquiredMs);
  if (!poll && !lease.wasQueued) engine.contention.granted(acquiredMs - askedMs, taken.attempts > 1);
  recordAcquired(engine, request, taken);
  try {
    return await work(lease, taken);
  } finally {
    const released = lease.release().catch((error: unknown) => {
      engine.world.log.write("warn", "lock_release_failed", { key: request.key, error: String(error) });
    });
    engine.tasks.track(released);
  }
}

/** One acquisition serves several events: the wait is that of the event that was refused first. */
export function totalLockWait(
  { waitedMs, attempts }: LockWait,
  usages: readonly RetryUsage[],
  nowMs: number,
): LockWait {
  let first: RetryUsage | null = null;
  for (const usage of usages) if (first === null || usage.sinceMs < first.sinceMs) first = usage;
  if (first === null) return { waitedMs, attempts };
  // The clock of the process that counted the failure may be ahead.
  return { waitedMs: Math.max(waitedMs, nowMs - first.sinceMs), attempts: attempts + first.count };
}

export function recordAcquired(
  engine: Needs<"world" | "settings" | "lockStats">,
  { key, path, busyUsage = null, arms }: Pick<LockOptions, "key" | "path" | "busyUsage" | "arms">,
  { waitedMs, attempts }: LockWait,
): void {
  const { metrics } = engine.world;
  const busyTimes = engine.lockStats.recordAcquired(key);
  if (busyUsage === null && busyTimes === 1) recordFirstRetry(engine, path, arms);
  const labels = engine.settings.labelled({ path }, arms);
  metrics.observe("cordum_run_lock_wait_seconds", waitedMs / 1_000, labels);
  metrics.observe("cordum_lock_attempts", attempts, labels);
}

/** An event succeeded on its first retry after `lock_busy`. */
export function recordFirstRetry(
  { world, settings }: Needs<"world" | "settings">,
  path: string,
  arms: Arms | undefined,
): void {
  world.metrics.add("cordum_lock_first_retry_success_total", settings.labelled({ path }, arms));
}

export function recordBusyRetry(
  { world, settings }: Needs<"world" | "settings">,
  path: string,
  policy: Policy,
  delayMs: number,
  arms: Arms | undefined,
): void {
  const { metrics } = world;
  const labels = settings.labelled({ path, policy: policy.kind }, arms);
  metrics.add("cordum_lock_busy_retries_total", labels);
  metrics.observe("cordum_lock_busy_retry_delay_seconds", delayMs / 1_000, labels);
}

function asPolled(acquired: Acquired): Polled {
  if (acquired.kind === "busy") return acquired;
  const { lease } = acquired;
  return { kind: "held", lease, waitedMs: lease.waitedMs, attempts: lease.attempts };
}
