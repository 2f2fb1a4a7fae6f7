import type { Cancel, Clock } from "../../ports/clock.ts";
import { type Acquired, type LockRequest, WAITER_LEASE_MS } from "../../ports/locks.ts";
import { type Grant, type LockCalls, monotonicMs, type Successor, type Ticket, type WaitReply } from "./lock-calls.ts";
import { type Claim, type HandOver, RedisLease, releaseEventually } from "./lock-lease.ts";

/**
 * One pending acquisition of a lock.
 *
 * 1. The first attempt takes a free lock or enters the queue. The server then announces the hand-over.
 * 2. While waiting it repeats the attempt three times per `WAITER_LEASE_MS` and when the holder's lease ends. This keeps
 *    its place in the queue, recovers from a lost announcement, and takes a lock whose holder has died. Only an attempt
 *    on a free lock counts towards `attempts`.
 * 3. A lock that was handed over is valid for `WAITER_LEASE_MS`. The hand-over happened after the last attempt that was
 *    answered with "wait", if its fence is larger than the fence in that answer; an announcement with a smaller fence is
 *    outdated. If too little of that time is left, a renewal decides.
 * 4. A holder of the same process may hand the lock over locally. It is then valid until the holder's lease or
 *    `WAITER_LEASE_MS` ends, whichever is first.
 * 5. However it ends, it leaves neither a place in the queue nor a lock behind.
 */
export class RedisWaiter implements Successor {
  readonly token: string;
  readonly #context: WaiterContext;
  readonly #request: LockRequest;
  readonly #claim: Claim;
  readonly #startMs = monotonicMs();
  #settle: Settle | null = null;
  #lease: RedisLease | null = null;
  #isLeaving = false;
  #arrival = "";
  #attempts = 1;
  /** Send time of the last attempt that was answered with "wait": the lock was not granted before. */
  #notGrantedMs = this.#startMs;
  /** A later hand-over has a larger fence. */
  #lastFence = 0;
  #cancelAttempt: Cancel = () => undefined;
  #cancelWait: Cancel = () => undefined;

  constructor(context: WaiterContext, request: LockRequest, lock: string, token: string) {
    this.#context = context;
    this.#request = request;
    this.token = token;
    const { calls, clock } = context;
    this.#claim = { calls, clock, lock, token, ttlMs: Math.ceil(request.ttlMs) };
  }

  acquire(): Promise<Acquired> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      void this.#attempt();
    });
  }

  /** Announces a hand-over: in the reply to a release of this process, or on the channel. */
  wake({ fence, next }: Grant): void {
    if (this.#settle === null || fence <= this.#lastFence) return;
    this.#accept(fence, this.#notGrantedMs + this.#handOverTtlMs, false, next);
  }

  /** Local hand-over by a holder of this process whose lease ends at `untilMs`. */
  receive(fence: number, untilMs: number): boolean {
    const validUntilMs = Math.min(untilMs, monotonicMs() + this.#handOverTtlMs);
    if (this.#settle === null || this.#isLeaving || !this.#isUsable(validUntilMs)) return false;
    this.#hold(fence, validUntilMs, false, null);
    return true;
  }

  confirm(sentMs: number, next: Ticket | null): void {
    this.#lease?.extend(sentMs + this.#handOverTtlMs, next);
  }

  refuse(): void {
    this.#lease?.lose("the previous holder had lost it before the hand-over");
  }

  get owner(): string {
    return this.#request.owner;
  }

  fail(error: unknown): void {
    const settle = this.#end();
    if (settle === null) return;
    settle.reject(error);
    releaseEventually(this.#claim);
  }

  async #attempt(): Promise<void> {
    const { org, owner, waitMs } = this.#request;
    const { lock, token, ttlMs } = this.#claim;
    const { calls } = this.#context;
    const isFirst = this.#arrival === "";
    const request = { ttlMs, owner, org, isQueueing: waitMs > 0, arrival: this.#arrival };
    const sentMs = monotonicMs();
    try {
      const [isHeld, ...rest] = await calls.acquire(lock, token, request);
      if (this.#settle === null) {
        this.#releaseLeftover();
      } else if (isHeld === 1) {
        const [fence, isTaken] = rest as [number, number];
        if (!isFirst) this.#attempts += isTaken;
        this.#accept(fence, sentMs + ttlMs, true, null);
      } else {
        this.#keepWaiting(isFirst, sentMs, rest as WaitReply);
      }
    } catch (error) {
      this.fail(error);
    }
  }

  #keepWaiting(isFirst: boolean, sentMs: number, [arrival, leftMs, holder, wasFree, fence]: WaitReply): void {
    const { waitMs } = this.#request;
    if (waitMs <= 0) {
      this.#busy(holder);
      return;
    }
    // The timer is set only if the first attempt has to wait.
    if (isFirst) {
      const restMs = Math.max(0, waitMs - (monotonicMs() - this.#startMs));
      this.#cancelWait = this.#context.clock.after(restMs, () => void this.#leave());
    }
    this.#arrival = String(arrival);
    this.#notGrantedMs = sentMs;
    this.#lastFence = fence;
    if (!isFirst) this.#attempts += wasFree;
    const untilFreeMs = leftMs >= 0 ? leftMs + 1 : WAITER_LEASE_MS;
    this.#attemptAfter(Math.min(WAITER_LEASE_MS / 3, untilFreeMs));
  }

  #attemptAfter(delayMs: number): void {
    this.#cancelAttempt();
    this.#cancelAttempt = this.#context.clock.after(delayMs, () => void this.#attempt());
  }

  /** A late announcement may be outdated: the lock may have passed to the next waiter. */
  #accept(fence: number, validUntilMs: number, isConfirmed: boolean, next: Ticket | null): void {
    if (this.#isUsable(validUntilMs)) this.#hold(fence, validUntilMs, isConfirmed, next);
    else void this.#confirm();
  }

  async #confirm(): Promise<void> {
    const sentMs = monotonicMs();
    const { lock, ttlMs } = this.#claim;
    try {
      const fence = await this.#context.calls.renew(lock, this.token, ttlMs);
      if (this.#settle === null) this.#releaseLeftover();
      else if (fence > 0) this.#accept(fence, sentMs + ttlMs, true, null);
      else this.#attemptAfter(0);
    } catch (error) {
      this.fail(error);
    }
  }

  async #leave(): Promise<void> {
    const sentMs = monotonicMs();
    const { lock, ttlMs } = this.#claim;
    this.#isLeaving = true;
    this.#cancelAttempt();
    try {
      const reply = await this.#context.calls.leave(lock, this.token, ttlMs);
      if (this.#settle === null) return;
      if (reply[0] === 1) this.#accept(reply[1], sentMs + ttlMs, true, null);
      else this.#busy(reply[1]);
    } catch (error) {
      this.fail(error);
    }
  }

  #hold(fence: number, validUntilMs: number, isConfirmed: boolean, next: Ticket | null): void {
    const settle = this.#end();
    const { calls, clock, lock, token, ttlMs } = this.#claim;
    this.#lease = new RedisLease({
      calls,
      clock,
      lock,
      token,
      ttlMs,
      key: this.#request.key,
      fence,
      waitedMs: this.#waitedMs,
      attempts: this.#attempts,
      wasQueued: this.#arrival !== "",
      validUntilMs,
      isConfirmed: isConfirmed,
      next,
      handOver: this.#context.handOver,
    });
    settle?.resolve({ kind: "held", lease: this.#lease });
  }

  #busy(holder: string): void {
    const settle = this.#end();
    settle?.resolve({
      kind: "busy",
      holder: holder === "" ? null : holder,
      waitedMs: this.#waitedMs,
      attempts: this.#attempts,
    });
  }

  #end(): Settle | null {
    const settle = this.#settle;
    this.#settle = null;
    this.#cancelAttempt();
    this.#cancelWait();
    this.#context.remove(this);
    return settle;
  }

  /** A reply that arrives after the end may have claimed something on the server. */
  #releaseLeftover(): void {
    if (this.#lease === null || this.#lease.isOver) releaseEventually(this.#claim);
  }

  /** Enough time is left for the first renewal. */
  #isUsable(validUntilMs: number): boolean {
    return validUntilMs - monotonicMs() > this.#handOverTtlMs / 4;
  }

  get #handOverTtlMs(): number {
    return Math.min(WAITER_LEASE_MS, this.#claim.ttlMs);
  }

  get #waitedMs(): number {
    return Math.round(monotonicMs() - this.#startMs);
  }
}

export interface WaiterContext {
  readonly calls: LockCalls;
  readonly clock: Clock;
  readonly handOver: HandOver;
  remove(waiter: RedisWaiter): void;
}

interface Settle {
  resolve(acquired: Acquired): void;
  reject(error: unknown): void;
}
