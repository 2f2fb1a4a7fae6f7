/** What a retry waits for. Each class has its own policy and budget. */
export const RETRY_CLASSES = [
  /** The message could not be decoded. */
  "poison",
  /** Any error without a stated class. */
  "unclassified",
  /** Another holder has the lock. */
  "lock_busy",
  /** The store did not respond. */
  "store_unavailable",
  /** The safety kernel did not respond. */
  "safety_unavailable",
  /** No worker serves the topic. */
  "no_worker",
  /** The policy decided `throttle`, or a limit is reached. */
  "throttled",
] as const;

export type RetryClass = (typeof RETRY_CLASSES)[number];

export function isRetryClass(value: unknown): value is RetryClass {
  return (RETRY_CLASSES as readonly unknown[]).includes(value);
}
