/**
 * Leased, fenced, first-in-first-out locks.
 *
 * 1. At most one lease per key is valid at a time. A lease is valid until its release, or until `ttlMs` after its last
 *    renewal.
 * 2. Every acquisition gets a fence that is larger than all earlier fences of the key and unique in the org. Writes under
 *    a lock carry the fence, and the store rejects a stale one. The lock avoids wasted work, the fence ensures
 *    correctness. Fences of different keys are not ordered: a fence may be drawn before the lock is acquired.
 * 3. Waiters acquire the lock in order of arrival. A release hands the lock to the next waiter, so a waiter needs one
 *    attempt. A waiter renews its place in the queue; a dead waiter delays the others by at most `WAITER_LEASE_MS`.
 * 4. A holder renews its lease automatically at a third of the TTL. `signal` aborts when a renewal finds another owner,
 *    or when the TTL passes without a successful renewal.
 * 5. `release` compares the token and frees the lock in one atomic step. It does not depend on the caller's request.
 * 6. A backend failure is thrown. It is never reported as `held` or `busy`.
 */
export interface Locks {
  /** True if other processes can hold these locks: data cached under an earlier lease may be stale. */
  readonly isShared: boolean;
  acquire(request: LockRequest): Promise<Acquired>;
  /**
   * Reserves a fence for a lock-free commit, without a round trip. The commit carries the fence and the guard `free`, which
   * rejects the commit if the lock is held or has waiters. The fence is larger than `above` and than every fence this
   * process has drawn before. Null: no fence is at hand, and the caller has to acquire the lock.
   */
  reserveFence(key: string, org: string, above: number): number | null;
  /** The keys that are held or have waiters, most waiters first. */
  list(limit: number): Promise<readonly LockView[]>;
}

export interface LockRequest {
  readonly key: string;
  /** The org whose fence counter is used. */
  readonly org: string;
  readonly ttlMs: number;
  /** How long to wait in the queue; 0 tries once. */
  readonly waitMs: number;
  /** Shown to operators: process and purpose. */
  readonly owner: string;
}

export type Acquired =
  | { readonly kind: "held"; readonly lease: LockLease }
  | { readonly kind: "busy"; readonly holder: string | null; readonly waitedMs: number; readonly attempts: number };

export interface LockLease {
  readonly key: string;
  readonly token: string;
  readonly fence: number;
  readonly waitedMs: number;
  /** Attempts to take the lock: 1 if it was free or handed over. */
  readonly attempts: number;
  /** The lock was in use at first, and another holder handed it over. */
  readonly wasQueued: boolean;
  /** Aborts when the lease is lost, never after a release. */
  readonly signal: AbortSignal;
  /** Same as `signal.aborted`, without creating the signal. */
  readonly isLost: boolean;
  /** True if the lease still owned the lock. Idempotent. */
  release(): Promise<boolean>;
}

export interface LockView {
  readonly key: string;
  readonly holder: string | null;
  readonly fence: number;
  readonly expiresAtMs: number;
  readonly waiters: number;
}

/** A waiter that has not renewed its place in the queue for this long is considered dead. */
export const WAITER_LEASE_MS = 1_000;

/**
 * Delay before a holder's first renewal. A lock that was handed over expires after `WAITER_LEASE_MS` unless the holder
 * confirms it by a renewal, so that renewal comes early.
 */
export const firstRenewalMs = (ttlMs: number, isConfirmed: boolean): number =>
  isConfirmed ? ttlMs / 3 : Math.min(WAITER_LEASE_MS / 20, ttlMs / 12);
