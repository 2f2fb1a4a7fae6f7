import { nextDelay, type Policy } from "../core/retry/policies.ts";
import type { LockLease } from "../ports/locks.ts";
import type { Needs } from "./engine.ts";

/**
 * A lock asked for again and again, as at the founding; kept so that it can be compared with the hand-over queue. Between
 * two tries the policy's delay passes, by the world's clock; when the next try would come after `maxWaitMs`, it is busy.
 */
export interface Poll {
  readonly key: string;
  readonly org: string;
  readonly ttlMs: number;
  readonly maxWaitMs: number;
  readonly policy: Policy;
  /** For the metrics. */
  readonly path: string;
}

export type Polled =
  | { readonly kind: "held"; readonly lease: LockLease; readonly waitedMs: number; readonly attempts: number }
  | { readonly kind: "busy"; readonly holder: string | null; readonly waitedMs: number; readonly attempts: number };

export async function pollLock(
  engine: Needs<"world" | "lockStats">,
  { key, org, ttlMs, maxWaitMs, policy, path }: Poll,
): Promise<Polled> {
  const { clock, locks, metrics, random, name } = engine.world;
  const fromMs = clock.now();
  let delayedMs = 0;
  let delayMs: number | undefined;
  for (let attempts = 1; ; attempts += 1) {
    const acquired = await locks.acquire({ key, org, ttlMs, waitMs: 0, owner: name });
    // A clock that is set back does not make anybody wait for longer.
    const waitedMs = Math.max(clock.now() - fromMs, delayedMs);
    if (acquired.kind === "held") return { kind: "held", lease: acquired.lease, waitedMs, attempts };
    engine.lockStats.recordBusy(key, clock.now());
    delayMs = nextDelay(policy, attempts, () => random.next(), delayMs);
    // Not cut short to fit: those who came together would meet again at their last try.
    if (waitedMs + delayMs > maxWaitMs) return { kind: "busy", holder: acquired.holder, waitedMs, attempts };
    metrics.add("cordum_lock_busy_retries_total", { path, policy: policy.kind });
    metrics.observe("cordum_lock_busy_retry_delay_seconds", delayMs / 1_000, { path, policy: policy.kind });
    await new Promise<void>((resolve) => clock.after(delayMs ?? 0, resolve));
    delayedMs += delayMs;
  }
}
