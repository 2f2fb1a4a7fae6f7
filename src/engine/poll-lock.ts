import type { Arms } from "../core/model/arms.ts";
import { nextDelay, type Policy } from "../core/retry/policies.ts";
import type { LockLease } from "../ports/locks.ts";
import type { Needs } from "./engine.ts";

/**
 * Polls a lock with a retry policy: the baseline behaviour, kept for comparison with the hand-over queue. The attempt
 * is `busy` once the next poll would be later than `maxWaitMs`.
 */
export interface Poll {
  readonly key: string;
  readonly org: string;
  readonly ttlMs: number;
  readonly maxWaitMs: number;
  readonly policy: Policy;
  /** Metric label. */
  readonly path: string;
  /** Of the unit that the lock is polled for. */
  readonly arms?: Arms | undefined;
}

export type Polled =
  | { readonly kind: "held"; readonly lease: LockLease; readonly waitedMs: number; readonly attempts: number }
  | { readonly kind: "busy"; readonly holder: string | null; readonly waitedMs: number; readonly attempts: number };

export async function pollLock(
  engine: Needs<"world" | "settings" | "lockStats" | "contention">,
  { key, org, ttlMs, maxWaitMs, policy, path, arms }: Poll,
): Promise<Polled> {
  const { clock, locks, metrics, random, name } = engine.world;
  const fromMs = clock.now();
  let delayedMs = 0;
  let delayMs: number | undefined;
  for (let attempts = 1; ; attempts += 1) {
    const acquired = await locks.acquire({ key, org, ttlMs, waitMs: 0, owner: name });
    // A clock that is set back must not extend the wait.
    const waitedMs = Math.max(clock.now() - fromMs, delayedMs);
    if (acquired.kind === "held") return { kind: "held", lease: acquired.lease, waitedMs, attempts };
    engine.lockStats.recordBusy(key, clock.now());
    engine.contention.busy(key);
    delayMs = nextDelay(policy, attempts, () => random.next(), delayMs);
    // The last delay is not shortened to fit: shortened delays would align the contenders again.
    if (waitedMs + delayMs > maxWaitMs) return { kind: "busy", holder: acquired.holder, waitedMs, attempts };
    const labels = engine.settings.labelled({ path, policy: policy.kind }, arms);
    metrics.add("cordum_lock_busy_retries_total", labels);
    metrics.observe("cordum_lock_busy_retry_delay_seconds", delayMs / 1_000, labels);
    await new Promise<void>((resolve) => clock.after(delayMs ?? 0, resolve));
    delayedMs += delayMs;
  }
}
