/**
 * What a retry is waiting for.
 *
 * Each class has its own policy (how long to wait) and its own budget (how often, or until when), so that waiting for
 * one thing never uses up the patience for another.
 */
export const RETRY_CLASSES = [
  /** The bytes could not be read. */
  "poison",
  /** It failed, and nobody said why: the class of every error that states nothing. */
  "unclassified",
  /** Somebody else holds the lock. */
  "lock_busy",
  /** The store did not answer. */
  "store_unavailable",
  /** The safety kernel did not answer. */
  "safety_unavailable",
  /** Nobody serves the topic. */
  "no_worker",
  /** The policy says: later. */
  "throttled",
] as const;

export type RetryClass = (typeof RETRY_CLASSES)[number];

export function isRetryClass(value: unknown): value is RetryClass {
  return (RETRY_CLASSES as readonly unknown[]).includes(value);
}
