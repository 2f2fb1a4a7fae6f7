import type { Cancel } from "../../ports/clock.ts";
import { FenceAllocator } from "../../ports/fence-allocator.ts";
import {
  type Acquired,
  firstRenewalMs,
  type LockLease,
  type LockRequest,
  type Locks,
  type LockView,
  WAITER_LEASE_MS,
} from "../../ports/locks.ts";
import type { Process } from "../process.ts";
import type { AcquireReply, AcquireRequest, LockServer } from "./lock-server.ts";
import { call, type Network } from "./net.ts";

/**
 * The lock client of one process. It makes the same round trips as the Redis adapter between processes, so simulated
 * hand-over times apply to the product. The local hand-over of the Redis adapter is not simulated.
 */
export class SimLocks implements Locks {
  readonly isShared = true;
  readonly #net: Network;
  readonly #server: LockServer;
  readonly #process: Process;
  readonly #fences: FenceAllocator;

  constructor(net: Network, server: LockServer, process: Process) {
    this.#net = net;
    this.#server = server;
    this.#process = process;
    this.#fences = new FenceAllocator((org, count) =>
      call(net, process, "store", () => server.reserveFences(org, count)),
    );
  }

  acquire(request: LockRequest): Promise<Acquired> {
    return new LockWaiter({ net: this.#net, server: this.#server, process: this.#process }, request).acquire();
  }

  reserveFence(_key: string, org: string, above: number): number | null {
    return this.#fences.take(org, above);
  }

  list(limit: number): Promise<readonly LockView[]> {
    return call(this.#net, this.#process, "store", () => this.#server.list(limit));
  }
}

/** A token's claim on the server: the lock, or a place in its queue. */
interface Claim {
  readonly net: Network;
  readonly server: LockServer;
  readonly process: Process;
  readonly key: string;
  readonly token: string;
  readonly ttlMs: number;
}

/**
 * One acquisition, from the request to the lease or "busy".
 *
 * 1. It sends one request. If the lock is held, the server queues it and notifies it of the hand-over.
 * 2. While queued it repeats the request three times per waiter lease. That keeps its place, and recovers lost
 *    notifications.
 * 3. A hand-over is valid for a waiter lease from the last request that was answered with "queued". If enough of it is
 *    left, the lock is used without another round trip, else a renewal decides. A hand-over with an old fence is stale.
 * 4. However it ends, its claim on the server is released if the server is reachable.
 */
class LockWaiter {
  readonly #claim: Claim;
  readonly #request: LockRequest;
  readonly #acquireRequest: AcquireRequest;
  readonly #startMs: number;
  #settle: Settle | null = null;
  #lease: SimLease | null = null;
  /** When the last request answered with "queued" was sent. */
  #queuedMs: number;
  /** The org's fence at that time; a later hand-over has a larger one. */
  #queuedFence = 0;
  #cancelRequest: Cancel = noop;
  #cancelTimeout: Cancel = noop;

  constructor(context: Omit<Claim, "key" | "token" | "ttlMs">, request: LockRequest) {
    const { key, org, owner, ttlMs, waitMs } = request;
    const { net, server, process } = context;
    const token = process.random.id();
    this.#request = request;
    // Object literals instead of spreads: simulations acquire millions of locks.
    this.#claim = { net, server, process, key, token, ttlMs };
    this.#startMs = net.timeline.nowMs;
    this.#queuedMs = this.#startMs;
    const onGrant = (fence: number): void => this.#handOver(fence);
    this.#acquireRequest = { key, org, owner, token, ttlMs, isWaiting: waitMs > 0, process, onGrant };
  }

  acquire(): Promise<Acquired> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      const { waitMs } = this.#request;
      if (waitMs > 0) this.#cancelTimeout = this.#claim.process.after(waitMs, () => this.#withdraw());
      this.#send();
    });
  }

  #send(): void {
    const sentMs = this.#nowMs;
    this.#call(
      (server) => server.acquire(this.#acquireRequest),
      (reply) => {
        if (reply.kind === "held") this.#granted(reply.fence, sentMs + this.#claim.ttlMs, true);
        else if (reply.kind === "busy") this.#busy(reply.holder);
        else {
          this.#queuedMs = sentMs;
          this.#queuedFence = reply.fence;
          this.#sendAfter(WAITER_LEASE_MS / 3);
        }
      },
    );
  }

  #sendAfter(delayMs: number): void {
    this.#cancelRequest();
    this.#cancelRequest = this.#claim.process.after(delayMs, () => this.#send());
  }

  #handOver(fence: number): void {
    if (this.#settle === null || fence <= this.#queuedFence) return;
    this.#granted(fence, this.#queuedMs + Math.min(WAITER_LEASE_MS, this.#claim.ttlMs), false);
  }

  /** A late reply may be stale: the lock may belong to the next waiter by now. */
  #granted(fence: number, validUntilMs: number, isConfirmed: boolean): void {
    const { ttlMs } = this.#claim;
    if (validUntilMs - this.#nowMs > Math.min(MARGIN_MS, ttlMs / 4)) this.#hold(fence, validUntilMs, isConfirmed);
    else this.#confirm(fence);
  }

  #confirm(fence: number): void {
    const sentMs = this.#nowMs;
    const { key, token, ttlMs } = this.#claim;
    this.#call(
      (server) => server.renew(key, token),
      (isHeld) => {
        if (isHeld) this.#granted(fence, sentMs + ttlMs, true);
        else this.#sendAfter(0);
      },
    );
  }

  #withdraw(): void {
    const sentMs = this.#nowMs;
    const { key, token, ttlMs } = this.#claim;
    this.#cancelRequest();
    this.#call(
      (server): AcquireReply => server.withdraw(key, token),
      (reply) => {
        if (reply.kind === "held") this.#granted(reply.fence, sentMs + ttlMs, true);
        else this.#busy(reply.holder);
      },
    );
  }

  #call<T>(effect: (server: LockServer) => T, then: (reply: T) => void): void {
    const { net, server, process } = this.#claim;
    call(net, process, "store", () => effect(server)).then(
      (reply) => {
        if (this.#settle !== null) then(reply);
        // The reply arrived after the end; the request may have left a claim on the server (4).
        else if (this.#lease === null || this.#lease.isOver) this.#releaseClaim();
      },
      (error: unknown) => {
        const settle = this.#end();
        if (settle === null) return;
        this.#releaseClaim();
        settle.reject(error);
      },
    );
  }

  #hold(fence: number, validUntilMs: number, isConfirmed: boolean): void {
    const settle = this.#end();
    this.#lease = new SimLease(this.#claim, {
      fence,
      waitedMs: this.#waitedMs,
      wasQueued: this.#queuedFence > 0,
      validUntilMs,
      isConfirmed,
    });
    settle?.resolve({ kind: "held", lease: this.#lease });
  }

  #busy(holder: string | null): void {
    this.#end()?.resolve({ kind: "busy", holder, waitedMs: this.#waitedMs, attempts: 1 });
  }

  #end(): Settle | null {
    const settle = this.#settle;
    this.#settle = null;
    this.#cancelRequest();
    this.#cancelTimeout();
    return settle;
  }

  #releaseClaim(): void {
    const { net, server, process, key, token } = this.#claim;
    call(net, process, "store", () => server.release(key, token)).catch(() => undefined);
  }

  get #nowMs(): number {
    return this.#claim.net.timeline.nowMs;
  }

  get #waitedMs(): number {
    return Math.max(0, Math.round(this.#nowMs - this.#startMs));
  }
}

function noop(): void {}

/** The remaining validity from which a lock is used without a confirmation. */
const MARGIN_MS = WAITER_LEASE_MS / 4;

interface Settle {
  resolve(acquired: Acquired): void;
  reject(error: unknown): void;
}

/**
 * A held lock.
 *
 * 1. The holder's validity counts from the time the request was sent, so it ends before the server's.
 * 2. It is renewed at a third of its TTL, and soon after a hand-over, which is valid for a waiter lease only. "Not owned"
 *    ends it at once; a renewal without a reply is retried until the validity ends.
 * 3. After `release` the signal is not aborted any more.
 */
class SimLease implements LockLease {
  readonly key: string;
  readonly token: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts = 1;
  readonly wasQueued: boolean;
  readonly #claim: Claim;
  readonly #abort = new AbortController();
  #cancelRenewal: Cancel = noop;
  #cancelEnd: Cancel = noop;
  #released: Promise<boolean> | null = null;

  constructor(claim: Claim, grant: Grant) {
    this.#claim = claim;
    this.key = claim.key;
    this.token = claim.token;
    this.fence = grant.fence;
    this.waitedMs = grant.waitedMs;
    this.wasQueued = grant.wasQueued;
    this.#renewAfter(firstRenewalMs(claim.ttlMs, grant.isConfirmed));
    this.#endAt(grant.validUntilMs);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get isLost(): boolean {
    return this.signal.aborted;
  }

  get isOver(): boolean {
    return this.#released !== null || this.signal.aborted;
  }

  release(): Promise<boolean> {
    if (this.#released === null) {
      this.#stop();
      const { net, server, process, key, token } = this.#claim;
      this.#released = call(net, process, "store", () => server.release(key, token));
    }
    return this.#released;
  }

  #renewAfter(delayMs: number): void {
    this.#cancelRenewal = this.#claim.process.after(delayMs, () => this.#renew());
  }

  #renew(): void {
    const { net, server, process, key, token, ttlMs } = this.#claim;
    const sentMs = net.timeline.nowMs;
    call(net, process, "store", () => server.renew(key, token)).then(
      (isHeld) => {
        if (this.isOver) return;
        if (!isHeld) {
          this.#lose("the lock is not ours any more");
          return;
        }
        this.#endAt(sentMs + ttlMs);
        this.#renewAfter(ttlMs / 3);
      },
      () => {
        if (!this.isOver) this.#renewAfter(ttlMs / 10);
      },
    );
  }

  #endAt(timeMs: number): void {
    this.#cancelEnd();
    const { net, process } = this.#claim;
    this.#cancelEnd = process.after(timeMs - net.timeline.nowMs, () => this.#lose("not renewed in time"));
  }

  #lose(why: string): void {
    this.#stop();
    this.#abort.abort(new Error(`lock \`${this.key}\` was lost: ${why}`));
  }

  #stop(): void {
    this.#cancelRenewal();
    this.#cancelEnd();
  }
}

interface Grant {
  readonly fence: number;
  readonly waitedMs: number;
  readonly wasQueued: boolean;
  readonly validUntilMs: number;
  /** False for a hand-over that is not renewed yet. */
  readonly isConfirmed: boolean;
}
