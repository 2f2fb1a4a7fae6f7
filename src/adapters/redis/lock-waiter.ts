import type { Cancel, Clock } from "../../ports/clock.ts";
import { type Acquired, type LockRequest, WAITER_LEASE_MS } from "../../ports/locks.ts";
import { type Grant, type Heir, type LockCalls, monotonicMs, type NotYet, type Turn } from "./lock-calls.ts";
import { type Claim, type HandOver, leaveNothing, RedisLease } from "./lock-lease.ts";

/**
 * One request for a lock on Redis, from asking to holding it or giving up.
 *
 * 1. It asks once. If the lock is held, that put it into the queue, and it is told when it is its turn.
 * 2. While it waits it asks again, three times in a waiter's lease and when the holder's time is over: that shows that
 *    it lives, finds out what a lost message should have told, and takes a lock that a dead holder left behind.
 *    Only asking for a lock that was free counts as an attempt.
 * 3. What was handed over is ours for a waiter's lease from then on. "Then" was after the last request that was
 *    answered with "not yet" had been sent, if its fence is larger than the last one of that answer: if that is recent
 *    enough nothing need be asked, else a renewal decides. An older fence is of a turn that was missed.
 * 4. A holder of its own process may hand on to it what the server has promised to it. It is ours for as long as the
 *    server keeps it whether or not it hears of that: for the holder, or for a waiter's lease from now on for us.
 * 5. Whatever ends it, no place in the queue and no lock is left behind that nobody knows of.
 */
export class RedisWaiter implements Heir {
  readonly token: string;
  readonly #context: WaiterContext;
  readonly #request: LockRequest;
  readonly #claim: Claim;
  readonly #startMs = monotonicMs();
  #settle: Settle | null = null;
  #lease: RedisLease | null = null;
  #isLeaving = false;
  #number = "";
  #attempts = 1;
  /** Not ours yet at this time or later. */
  #notYetMs = this.#startMs;
  /** Whatever is handed to us after that has a larger fence. */
  #notYetFence = 0;
  #cancelAsk: Cancel = () => undefined;
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
      void this.#ask();
    });
  }

  /** The news that it is our turn: from a release of this process, or a message. */
  wake({ fence, next }: Turn): void {
    if (this.#settle === null || fence <= this.#notYetFence) return;
    this.#granted(fence, this.#notYetMs + this.#handedMs, false, next);
  }

  /**
   * From a holder of this process, which has it until then and is about to release it. Who has begun to leave gives up
   * the promise with that.
   */
  inherit(fence: number, untilMs: number): boolean {
    const validUntilMs = Math.min(untilMs, monotonicMs() + this.#handedMs);
    if (this.#settle === null || this.#isLeaving || !this.#isUsable(validUntilMs)) return false;
    this.#hold(fence, validUntilMs, false, null);
    return true;
  }

  confirm(sentMs: number, next: Grant | null): void {
    this.#lease?.extend(sentMs + this.#handedMs, next);
  }

  refuse(): void {
    this.#lease?.lose("the server had taken it from who handed it on");
  }

  get owner(): string {
    return this.#request.owner;
  }

  fail(error: unknown): void {
    const settle = this.#end();
    if (settle === null) return;
    settle.reject(error);
    leaveNothing(this.#claim);
  }

  async #ask(): Promise<void> {
    const { org, owner, waitMs } = this.#request;
    const { lock, token, ttlMs } = this.#claim;
    const { calls } = this.#context;
    const isFirst = this.#number === "";
    const request = { ttlMs, owner, org, isQueueing: waitMs > 0, number: this.#number };
    const sentMs = monotonicMs();
    try {
      const [isHeld, ...rest] = await calls.ask(lock, token, request);
      if (this.#settle === null) {
        this.#leaveNothing();
      } else if (isHeld === 1) {
        const [fence, isTaken] = rest as [number, number];
        if (!isFirst) this.#attempts += isTaken;
        this.#granted(fence, sentMs + ttlMs, true, null);
      } else {
        this.#waitOn(isFirst, sentMs, rest as NotYet);
      }
    } catch (error) {
      this.fail(error);
    }
  }

  #waitOn(isFirst: boolean, sentMs: number, [number, leftMs, holder, wasFree, fence]: NotYet): void {
    const { waitMs } = this.#request;
    if (waitMs <= 0) {
      this.#busy(holder);
      return;
    }
    // Most never have to wait, and need no timer for that.
    if (isFirst) {
      const restMs = Math.max(0, waitMs - (monotonicMs() - this.#startMs));
      this.#cancelWait = this.#context.clock.after(restMs, () => void this.#leave());
    }
    this.#number = String(number);
    this.#notYetMs = sentMs;
    this.#notYetFence = fence;
    if (!isFirst) this.#attempts += wasFree;
    const untilFreeMs = leftMs >= 0 ? leftMs + 1 : WAITER_LEASE_MS;
    this.#askAfter(Math.min(WAITER_LEASE_MS / 3, untilFreeMs));
  }

  #askAfter(delayMs: number): void {
    this.#cancelAsk();
    this.#cancelAsk = this.#context.clock.after(delayMs, () => void this.#ask());
  }

  /** News that comes late may be old: the lock may have gone to the next one already. */
  #granted(fence: number, validUntilMs: number, isConfirmed: boolean, next: Grant | null): void {
    if (this.#isUsable(validUntilMs)) this.#hold(fence, validUntilMs, isConfirmed, next);
    else void this.#confirm();
  }

  async #confirm(): Promise<void> {
    const sentMs = monotonicMs();
    const { lock, ttlMs } = this.#claim;
    try {
      const fence = await this.#context.calls.renew(lock, this.token, ttlMs);
      if (this.#settle === null) this.#leaveNothing();
      else if (fence > 0) this.#granted(fence, sentMs + ttlMs, true, null);
      else this.#askAfter(0);
    } catch (error) {
      this.fail(error);
    }
  }

  async #leave(): Promise<void> {
    const sentMs = monotonicMs();
    const { lock, ttlMs } = this.#claim;
    this.#isLeaving = true;
    this.#cancelAsk();
    try {
      const reply = await this.#context.calls.leave(lock, this.token, ttlMs);
      if (this.#settle === null) return;
      if (reply[0] === 1) this.#granted(reply[1], sentMs + ttlMs, true, null);
      else this.#busy(reply[1]);
    } catch (error) {
      this.fail(error);
    }
  }

  #hold(fence: number, validUntilMs: number, isConfirmed: boolean, next: Grant | null): void {
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
      validUntilMs,
      isConfirmed,
      next,
      handOn: this.#context.handOn,
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
    this.#cancelAsk();
    this.#cancelWait();
    this.#context.forget(this);
    return settle;
  }

  /** For an answer that came when all was over: what it was about may have left something behind. */
  #leaveNothing(): void {
    if (this.#lease === null || this.#lease.isOver) leaveNothing(this.#claim);
  }

  /** Without asking back. A renewal, which comes sooner than that, then watches for the end. */
  #isUsable(validUntilMs: number): boolean {
    return validUntilMs - monotonicMs() > this.#handedMs / 4;
  }

  /** How long a lock is ours that was handed over. */
  get #handedMs(): number {
    return Math.min(WAITER_LEASE_MS, this.#claim.ttlMs);
  }

  get #waitedMs(): number {
    return Math.round(monotonicMs() - this.#startMs);
  }
}

export interface WaiterContext {
  readonly calls: LockCalls;
  readonly clock: Clock;
  readonly handOn: HandOver;
  forget(waiter: RedisWaiter): void;
}

interface Settle {
  resolve(acquired: Acquired): void;
  reject(error: unknown): void;
}
