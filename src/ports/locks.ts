/**
 * Leased, fenced, first-in-first-out locks.
 *
 * 1. At most one lease per key is valid at any time; a lease is valid until it is released, or `ttlMs` after its last
 *    renewal.
 * 2. Every acquisition gets a fence that is larger than any given before for the same key, and that nobody else in the org
 *    gets. What is written under a lock carries the fence; a store refuses a stale one. The lock saves work, the fence
 *    makes it correct. Fences of different keys say nothing about each other: one may be drawn before its holder has the
 *    lock.
 * 3. Waiters are served in the order in which they came. A release wakes the next one: a waiter needs one attempt.
 *    Each waiter has a short lease of its own (`WAITER_LEASE_MS`), kept up while it waits, so that a dead waiter at the
 *    head delays the rest by no more than that.
 * 4. Holders renew at a third of the TTL by themselves. "Not owned" at renewal is a loss at once, and so is a TTL that
 *    has passed without a successful renewal: `signal` aborts.
 * 5. Release compares the token in one atomic step: it never frees another holder's lock. It does not depend on the
 *    caller's own request being still open.
 * 6. A failure of the backend is thrown. It never means "go on without the lock", nor "busy".
 */
export interface Locks {
  /** Whether other processes may hold them: what this one wrote under a lock may be old by the next time it has it. */
  readonly isShared: boolean;
  acquire(request: LockRequest): Promise<Acquired>;
  /**
   * A fence for having the lock during one commit, and no longer: the commit carries it, and the guard `free`, which
   * refuses it if anybody else has the lock or waits for it by then. So nothing is asked for, and nothing can be left
   * behind. Larger than any fence that this process drew before, and than `above`. Null: it has to be acquired.
   */
  reserveFence(key: string, org: string, above: number): number | null;
  /** The keys that are held or waited for, most waiters first. */
  list(limit: number): Promise<readonly LockView[]>;
}

export interface LockRequest {
  readonly key: string;
  /** Whose fence counter is used. */
  readonly org: string;
  readonly ttlMs: number;
  /** How long to queue for it; 0 asks once. */
  readonly waitMs: number;
  /** Shown to operators: which process, for what. */
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
  /** How often the backend was asked for the lock: 1 when it was free or handed over. */
  readonly attempts: number;
  /** Aborts when the lease is lost. Never aborts after a release. */
  readonly signal: AbortSignal;
  /** Whether it has: for those who only look, and need no signal to be made. */
  readonly isLost: boolean;
  /** True if the lock was still ours. Safe to call twice. */
  release(): Promise<boolean>;
}

export interface LockView {
  readonly key: string;
  readonly holder: string | null;
  readonly fence: number;
  readonly expiresAtMs: number;
  readonly waiters: number;
}

/** How long a waiter is believed to be alive without a sign of life. */
export const WAITER_LEASE_MS = 1_000;

/**
 * When a holder renews for the first time. One that a lock was handed over to has it for a waiter's lease only until then:
 * much shorter than what is left of that.
 */
export const firstRenewalMs = (ttlMs: number, isConfirmed: boolean): number =>
  isConfirmed ? ttlMs / 3 : Math.min(WAITER_LEASE_MS / 20, ttlMs / 12);
