import type { Cancel, Clock } from "../../ports/clock.ts";
import type { Acquired, LockLease, LockRequest, Locks, LockView } from "../../ports/locks.ts";
import type { Random } from "../../ports/random.ts";

/**
 * Locks within one process. The data directory has one process, so a restart voids all locks.
 *
 * 1. A release hands the lock to the first waiter synchronously: no other request can take it in between.
 * 2. A timer per holder renews at a third of the TTL. After a pause of the process longer than the TTL, the lease is lost when
 *    the timer fires or another request arrives, whichever is first.
 * 3. Waiters need no lease of their own: they die with the process.
 */
export class EmbeddedLocks implements Locks {
  readonly isShared = false;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #nextFence: () => number;
  readonly #locks = new Map<string, Lock>();
  #isClosed = false;

  constructor(clock: Clock, random: Random, nextFence: () => number) {
    this.#clock = clock;
    this.#random = random;
    this.#nextFence = nextFence;
  }

  async acquire(request: LockRequest): Promise<Acquired> {
    if (this.#isClosed) throw new Error(CLOSED);
    const lock = this.#lockOf(request.key);
    if (lock.holder !== null && this.#clock.now() >= lock.holder.expiresMs) this.#lose(lock, lock.holder);
    if (lock.holder !== null) return request.waitMs <= 0 ? busy(lock, 0) : this.#wait(lock, request);
    try {
      return { kind: "held", lease: this.#grant(lock, request, 0, false) };
    } catch (error) {
      this.#locks.delete(request.key);
      throw error;
    }
  }

  /** Not supported: `acquire` needs no round trip here, so a lock-free commit saves nothing. */
  reserveFence(): null {
    return null;
  }

  async list(limit: number): Promise<readonly LockView[]> {
    const views = [...this.#locks.values()].map(({ key, holder, waiters }) => ({
      key,
      holder: holder?.owner ?? null,
      fence: holder?.fence ?? 0,
      expiresAtMs: holder?.expiresMs ?? 0,
      waiters: waiters.size,
    }));
    return views.sort((a, b) => b.waiters - a.waiters || (a.key < b.key ? -1 : 1)).slice(0, limit);
  }

  /** Rejects all waiters and ends all leases. */
  close(): void {
    this.#isClosed = true;
    for (const lock of this.#locks.values()) {
      lock.holder?.stopRenewing();
      for (const waiter of lock.waiters) waiter.reject(new Error(CLOSED));
      lock.holder?.abort();
    }
    this.#locks.clear();
  }

  #lockOf(key: string): Lock {
    let lock = this.#locks.get(key);
    if (!lock) {
      lock = { key, holder: null, waiters: new Set() };
      this.#locks.set(key, lock);
    }
    return lock;
  }

  #wait(lock: Lock, request: LockRequest): Promise<Acquired> {
    const sinceMs = this.#clock.now();
    return new Promise((resolve, reject) => {
      const cancelTimeout = this.#clock.after(request.waitMs, () => {
        lock.waiters.delete(waiter);
        resolve(busy(lock, this.#clock.now() - sinceMs));
      });
      const waiter: Waiter = {
        grant: () => {
          cancelTimeout();
          try {
            resolve({ kind: "held", lease: this.#grant(lock, request, this.#clock.now() - sinceMs, true) });
          } catch (error) {
            reject(error);
          }
        },
        reject: (error) => {
          cancelTimeout();
          reject(error);
        },
      };
      lock.waiters.add(waiter);
    });
  }

  #grant(lock: Lock, request: LockRequest, waitedMs: number, wasQueued: boolean): LockLease {
    const fence = this.#nextFence();
    const holder = new Holder(request.owner, fence, this.#clock.now() + request.ttlMs);
    lock.holder = holder;
    this.#scheduleRenewal(lock, holder, request.ttlMs);
    const lease = { key: request.key, token: this.#random.id(), fence, waitedMs, wasQueued };
    return new Lease(lease, holder, async () => this.#release(lock, holder));
  }

  #scheduleRenewal(lock: Lock, holder: Holder, ttlMs: number): void {
    holder.stopRenewing = this.#clock.after(ttlMs / 3, () => {
      const nowMs = this.#clock.now();
      if (nowMs >= holder.expiresMs) {
        this.#lose(lock, holder);
        return;
      }
      holder.expiresMs = nowMs + ttlMs;
      this.#scheduleRenewal(lock, holder, ttlMs);
    });
  }

  /** Does nothing when another holder has the lock already. */
  #release(lock: Lock, holder: Holder): boolean {
    if (lock.holder !== holder) return false;
    const isValid = this.#clock.now() < holder.expiresMs;
    holder.stopRenewing();
    this.#handOver(lock);
    return isValid;
  }

  #lose(lock: Lock, holder: Holder): void {
    holder.stopRenewing();
    if (lock.holder === holder) this.#handOver(lock);
    holder.abort();
  }

  #handOver(lock: Lock): void {
    lock.holder = null;
    for (const waiter of lock.waiters) {
      lock.waiters.delete(waiter);
      waiter.grant();
      // Still null when there was no fence for this waiter.
      if (lock.holder !== null) return;
    }
    this.#locks.delete(lock.key);
  }
}

/** A class, because an object literal with getters takes thirty times as long to create. */
class Lease implements LockLease {
  readonly key: string;
  readonly token: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts = 1;
  readonly wasQueued: boolean;
  readonly release: () => Promise<boolean>;
  readonly #holder: Holder;

  constructor(
    { key, token, fence, waitedMs, wasQueued }: Pick<LockLease, "key" | "token" | "fence" | "waitedMs" | "wasQueued">,
    holder: Holder,
    release: () => Promise<boolean>,
  ) {
    this.key = key;
    this.token = token;
    this.fence = fence;
    this.waitedMs = waitedMs;
    this.wasQueued = wasQueued;
    this.release = release;
    this.#holder = holder;
  }

  get signal(): AbortSignal {
    return this.#holder.signal;
  }

  get isLost(): boolean {
    return this.#holder.isLost;
  }
}

interface Lock {
  readonly key: string;
  holder: Holder | null;
  /** In order of arrival. */
  readonly waiters: Set<Waiter>;
}

interface Waiter {
  grant(): void;
  reject(error: Error): void;
}

class Holder {
  readonly owner: string;
  readonly fence: number;
  expiresMs: number;
  stopRenewing: Cancel = () => {};
  #controller: AbortController | null = null;
  isLost = false;

  constructor(owner: string, fence: number, expiresMs: number) {
    this.owner = owner;
    this.fence = fence;
    this.expiresMs = expiresMs;
  }

  /** Created on first use: most holders never need it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.isLost) this.#controller.abort();
    return this.#controller.signal;
  }

  abort(): void {
    this.isLost = true;
    this.#controller?.abort();
  }
}

function busy(lock: Lock, waitedMs: number): Acquired {
  return { kind: "busy", holder: lock.holder?.owner ?? null, waitedMs, attempts: 1 };
}

const CLOSED = "the locks are closed";
