import type { Cancel, Clock } from "../../ports/clock.ts";
import { firstRenewalMs, type LockLease, WAITER_LEASE_MS } from "../../ports/locks.ts";
import { type LockCalls, monotonicMs, type Successor, type Ticket } from "./lock-calls.ts";

/**
 * A held lock.
 *
 * 1. The lease expires locally no later than on the server: its validity counts from before the request was sent, on a
 *    monotonic clock.
 * 2. The lease renews at a third of its TTL. A lock that was handed over is valid for `WAITER_LEASE_MS` only, so its first
 *    renewal comes early. A renewal that finds another owner ends the lease at once; a failed renewal is retried until
 *    the lease expires. Expiry is watched from the first renewal on.
 * 3. `release` hands the lock to the reserved successor before the server confirms it. The server keeps the lock for the
 *    old holder or for the successor, so the successor's validity is the shorter of both.
 * 4. `signal` never aborts after `release`.
 */
export class RedisLease implements LockLease {
  readonly key: string;
  readonly token: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts: number;
  readonly wasQueued: boolean;
  readonly #options: LeaseOptions;
  /** Created on first use: most leases end without one. */
  #abort: AbortController | null = null;
  #isLost = false;
  #validUntilMs: number;
  #next: Ticket | null;
  #cancelRenewal: Cancel = () => undefined;
  #cancelExpiry: Cancel = () => undefined;
  #isExpiryWatched = false;
  #isReleased = false;
  #release: Promise<boolean> | null = null;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.key = options.key;
    this.token = options.token;
    this.fence = options.fence;
    this.waitedMs = options.waitedMs;
    this.attempts = options.attempts;
    this.wasQueued = options.wasQueued;
    this.#validUntilMs = options.validUntilMs;
    this.#next = options.next;
    this.#renewAfter(firstRenewalMs(options.ttlMs, options.isConfirmed));
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    return this.#abort.signal;
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  get isOver(): boolean {
    return this.#isReleased || this.#isLost;
  }

  /** Idempotent. A failed release is retried in the background and can be called again. */
  release(): Promise<boolean> {
    this.#isReleased = true;
    this.#stop();
    if (this.#release === null) {
      const release = releaseLock(this.#options, this.#handOver());
      this.#release = release;
      release.catch(() => {
        this.#release = null;
        releaseEventually(this.#options, WAITER_LEASE_MS);
      });
    }
    return this.#release;
  }

  /** The server has confirmed the local hand-over. */
  extend(validUntilMs: number, next: Ticket | null): void {
    if (this.isOver) return;
    this.#validUntilMs = Math.max(this.#validUntilMs, validUntilMs);
    this.#next = next;
  }

  lose(reason: string): void {
    if (this.isOver) return;
    this.#stop();
    this.#isLost = true;
    this.#abort ??= new AbortController();
    this.#abort.abort(new Error(`lock \`${this.key}\` was lost: ${reason}`));
  }

  #handOver(): Successor | null {
    const next = this.#next;
    this.#next = null;
    return next === null || this.#isLost ? null : this.#options.handOver(next, this.#validUntilMs);
  }

  async #renew(): Promise<void> {
    const { calls, lock, token, ttlMs } = this.#options;
    const sentMs = monotonicMs();
    if (!this.#isExpiryWatched) this.#watchExpiry();
    try {
      const isOurs = (await calls.renew(lock, token, ttlMs)) === this.fence;
      if (this.isOver) return;
      if (!isOurs) {
        this.lose("the server reports another holder or none");
        return;
      }
      this.#validUntilMs = sentMs + ttlMs;
      this.#renewAfter(ttlMs / 3);
    } catch {
      if (!this.isOver) this.#renewAfter(ttlMs / 10);
    }
  }

  #renewAfter(delayMs: number): void {
    this.#cancelRenewal = this.#options.clock.after(delayMs, () => void this.#renew());
  }

  #watchExpiry(): void {
    this.#isExpiryWatched = true;
    this.#cancelExpiry = this.#options.clock.after(Math.max(0, this.#validUntilMs - monotonicMs()), () => {
      if (this.isOver) return;
      if (monotonicMs() >= this.#validUntilMs) this.lose("it could not be renewed in time");
      else this.#watchExpiry();
    });
  }

  #stop(): void {
    this.#cancelRenewal();
    this.#cancelExpiry();
  }
}

/** What a token may own on the server: a lock, or a place in its queue. */
export interface Claim {
  readonly calls: LockCalls;
  readonly clock: Clock;
  /** The Redis key of the lock. */
  readonly lock: string;
  readonly token: string;
  readonly ttlMs: number;
}

export interface LeaseOptions extends Claim {
  readonly key: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts: number;
  readonly wasQueued: boolean;
  /** On the clock of `monotonicMs`. */
  readonly validUntilMs: number;
  /** False for a lock that was handed over and not renewed yet. */
  readonly isConfirmed: boolean;
  /** The waiter for which the server has reserved the lock after this lease. */
  readonly next: Ticket | null;
  readonly handOver: HandOver;
}

/** Local hand-over: null if the waiter is gone or `untilMs` is too close. */
export type HandOver = (next: Ticket, untilMs: number) => Successor | null;

/** Frees the lock if the token holds it, else the token's place in the queue. */
export function releaseLock({ calls, lock, token }: Claim, successor: Successor | null = null): Promise<boolean> {
  return calls.release(lock, token, successor);
}

/** Frees whatever the token owns. Retries until the claim has expired on the server anyway. */
export function releaseEventually(claim: Claim, delayMs = 0): void {
  const untilMs = monotonicMs() + claim.ttlMs;
  const attempt = (): void => {
    releaseLock(claim).catch(() => {
      if (monotonicMs() < untilMs) claim.clock.after(WAITER_LEASE_MS, attempt);
    });
  };
  if (delayMs === 0) attempt();
  else claim.clock.after(delayMs, attempt);
}
