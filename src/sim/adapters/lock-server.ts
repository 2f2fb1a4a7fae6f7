import { type LockView, WAITER_LEASE_MS } from "../../ports/locks.ts";
import type { LockHold } from "../flows.ts";
import type { Process } from "../process.ts";
import { latency, type Network } from "./net.ts";

/**
 * The lock table, on virtual time.
 *
 * 1. A lock is free once it is released or expired. Only the holder's token releases or renews it.
 * 2. A release or an expiry hands the lock to the first waiter whose waiter lease is valid. Until the waiter confirms, it
 *    holds the lock for a waiter lease only, so a dead waiter delays the queue by no more than that.
 * 3. Each acquisition takes the next fence of its org.
 */
export class LockServer {
  readonly #net: Network;
  readonly #locks = new Map<string, Lock>();
  readonly #fences = new Map<string, number>();

  constructor(net: Network) {
    this.#net = net;
  }

  /** Acquires or queues. A repeated request renews the waiter lease and keeps the place in the queue. */
  acquire(request: AcquireRequest): AcquireReply {
    const lock = this.#lock(request.key);
    this.#expire(lock);
    if (lock.holder?.request.token === request.token) return this.#confirmed(lock.holder);
    if (lock.holder === null && lock.waiters.size === 0) {
      const holder = this.#hold(lock, request, request.ttlMs);
      return { kind: "held", fence: holder.fence };
    }
    const holder = lock.holder?.request.owner ?? null;
    if (!request.isWaiting) return { kind: "busy", holder };
    lock.waiters.set(request.token, { request, seenMs: this.#nowMs });
    this.#expireLater(lock);
    return { kind: "queued", holder, fence: this.fenceOf(request.org) };
  }

  /** Removes the waiter, unless the lock was just handed to it. */
  withdraw(key: string, token: string): AcquireReply {
    const lock = this.#lock(key);
    this.#expire(lock);
    if (lock.holder?.request.token === token) return this.#confirmed(lock.holder);
    lock.waiters.delete(token);
    return { kind: "busy", holder: lock.holder?.request.owner ?? null };
  }

  renew(key: string, token: string): boolean {
    const holder = this.#holderOf(key, token);
    if (holder === null) return false;
    this.#confirmed(holder);
    return true;
  }

  release(key: string, token: string): boolean {
    const lock = this.#lock(key);
    lock.waiters.delete(token);
    const holder = this.#holderOf(key, token);
    if (holder === null) return false;
    if (holder.hold !== null) holder.hold.toMs = this.#nowMs;
    lock.holder = null;
    this.#expire(lock);
    return true;
  }

  /** Reserves a block of fences for lock-free commits, and returns the last one. */
  reserveFences(org: string, count: number): number {
    const last = this.fenceOf(org) + count;
    this.#fences.set(org, last);
    return last;
  }

  isFree(key: string): boolean {
    const lock = this.#locks.get(key);
    if (lock === undefined) return true;
    this.#expire(lock);
    return lock.holder === null && lock.waiters.size === 0;
  }

  /** Releases without a token check; used by a mutant only. */
  forceRelease(key: string): void {
    const { holder } = this.#lock(key);
    if (holder !== null) this.release(key, holder.request.token);
  }

  fenceOf(org: string): number {
    return this.#fences.get(org) ?? 0;
  }

  /** Continues the fences of copied records. */
  setFence(org: string, fence: number): void {
    this.#fences.set(org, fence);
  }

  list(limit: number): readonly LockView[] {
    const views: LockView[] = [];
    for (const [key, lock] of this.#locks) {
      this.#expire(lock);
      if (lock.holder === null && lock.waiters.size === 0) continue;
      views.push({
        key,
        holder: lock.holder?.request.owner ?? null,
        fence: lock.holder?.fence ?? 0,
        expiresAtMs: lock.holder?.expiresAtMs ?? 0,
        waiters: lock.waiters.size,
      });
    }
    return views.sort((a, b) => b.waiters - a.waiters || (a.key < b.key ? -1 : 1)).slice(0, limit);
  }

  /** Frees an expired lock and hands a free lock to the next waiter. */
  #expire(lock: Lock): void {
    if (lock.holder !== null && lock.holder.expiresAtMs <= this.#nowMs) {
      const { hold, expiresAtMs } = lock.holder;
      if (hold !== null) Object.assign(hold, { toMs: expiresAtMs, isExpired: true });
      lock.holder = null;
    }
    if (lock.holder !== null) return;
    for (const [token, waiter] of lock.waiters) {
      lock.waiters.delete(token);
      if (waiter.seenMs + WAITER_LEASE_MS <= this.#nowMs) continue;
      const { fence } = this.#hold(lock, waiter.request, Math.min(WAITER_LEASE_MS, waiter.request.ttlMs));
      this.#notify(waiter.request, fence);
      this.#expireLater(lock);
      return;
    }
  }

  #hold(lock: Lock, request: AcquireRequest, validMs: number): Holder {
    const fence = this.fenceOf(request.org) + 1;
    this.#fences.set(request.org, fence);
    const { process, key } = request;
    const hold = this.#net.flows?.hold(key, process.name, fence) ?? null;
    lock.holder = { request, fence, expiresAtMs: this.#nowMs + validMs, hold };
    this.#net.trace.note(this.#nowMs, process.name, "lock", key);
    return lock.holder;
  }

  #confirmed(holder: Holder): AcquireReply {
    holder.expiresAtMs = this.#nowMs + holder.request.ttlMs;
    return { kind: "held", fence: holder.fence };
  }

  #notify({ process, onGrant }: AcquireRequest, fence: number): void {
    const { timeline, random, faults } = this.#net;
    timeline.post(latency(random, faults.store), () => {
      if (process.reaches("store")) process.enter(() => onGrant(fence));
    });
  }

  /** Calls `#expire` when the holder's time is over, while the lock has waiters. */
  #expireLater(lock: Lock): void {
    if (lock.hasTimer || lock.waiters.size === 0 || lock.holder === null) return;
    lock.hasTimer = true;
    // A minimum delay: a remainder from rounding would fire at the same instant for ever.
    this.#net.timeline.postQuiet(Math.max(STEP_MS, lock.holder.expiresAtMs - this.#nowMs), () => {
      lock.hasTimer = false;
      this.#expire(lock);
      this.#expireLater(lock);
    });
  }

  #holderOf(key: string, token: string): Holder | null {
    const holder = this.#lock(key).holder;
    return holder !== null && holder.request.token === token && holder.expiresAtMs > this.#nowMs ? holder : null;
  }

  #lock(key: string): Lock {
    let lock = this.#locks.get(key);
    if (lock === undefined) {
      lock = { holder: null, waiters: new Map(), hasTimer: false };
      this.#locks.set(key, lock);
    }
    return lock;
  }

  get #nowMs(): number {
    return this.#net.timeline.nowMs;
  }
}

const STEP_MS = 0.01;

export interface AcquireRequest {
  readonly key: string;
  readonly org: string;
  readonly token: string;
  readonly owner: string;
  readonly ttlMs: number;
  readonly isWaiting: boolean;
  readonly process: Process;
  onGrant(fence: number): void;
}

export type AcquireReply =
  | { readonly kind: "held"; readonly fence: number }
  /** `fence` is the org's last fence; a later hand-over has a larger one. */
  | { readonly kind: "queued"; readonly holder: string | null; readonly fence: number }
  | { readonly kind: "busy"; readonly holder: string | null };

interface Lock {
  holder: Holder | null;
  /** By token, in arrival order. */
  readonly waiters: Map<string, { readonly request: AcquireRequest; seenMs: number }>;
  /** Whether an expiry event is scheduled. */
  hasTimer: boolean;
}

interface Holder {
  readonly request: AcquireRequest;
  readonly fence: number;
  expiresAtMs: number;
  readonly hold: LockHold | null;
}
