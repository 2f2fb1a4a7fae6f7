export interface RetryTime {
  /** Monotonic. */
  nowMs(): number;
  /** Rejects with the reason of the signal if it is aborted first. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
}

export interface RetryRule {
  /** First attempt included. */
  readonly attemptsMax: number;
  /** Time of `nowMs`; a delay that would end later is not started. */
  readonly untilMs: number;
  readonly signal?: AbortSignal | undefined;
  /** The delay before the next attempt; null: the error is final. */
  delayMs(error: unknown, attempt: number): number | null;
}

/** Sends until an attempt succeeds, an error is final, or attempts or time are used up. Throws the last error. */
export async function retry<T>(time: RetryTime, rule: RetryRule, send: (attempt: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    rule.signal?.throwIfAborted();
    try {
      return await send(attempt);
    } catch (error) {
      const delayMs = rule.signal?.aborted || attempt >= rule.attemptsMax ? null : rule.delayMs(error, attempt);
      if (delayMs === null || time.nowMs() + delayMs > rule.untilMs) throw error;
      await time.sleep(delayMs, rule.signal);
    }
  }
}

/**
 * Exponential with full jitter over the upper half. A delay of the server is a lower bound, and is spread by a tenth:
 * a proxy sends the same value to all clients (L11).
 */
export function backoffMs(attempt: number, serverMs: number | null, random: number): number {
  const ceilingMs = Math.min(BACKOFF_MS_MAX, BACKOFF_MS * 2 ** (attempt - 1));
  const ownMs = (ceilingMs * (1 + random)) / 2;
  return Math.round(serverMs === null ? ownMs : serverMs * (1 + random / 10));
}

const BACKOFF_MS = 200;
const BACKOFF_MS_MAX = 10_000;
