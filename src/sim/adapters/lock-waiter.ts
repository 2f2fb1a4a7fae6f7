import type { Cancel } from "../../ports/clock.ts";
import { type Acquired, type LockRequest, WAITER_LEASE_MS } from "../../ports/locks.ts";
import { type Claim, SimLease } from "./lock-lease.ts";
import type { AcquireReply, AcquireRequest } from "./lock-server.ts";
import { call } from "./net.ts";

/**
 * One request for a lock of a simulated server, from asking to holding it or giving up.
 *
 * 1. It asks once. If the lock is held, that put it into the queue, and it is told when it is its turn.
 * 2. While it waits it asks again, three times in a waiter's lease: that shows that it lives, and finds out what a lost
 *    message should have told.
 * 3. What was handed over is ours for a waiter's lease, counted from the last request that was answered with "not yet".
 *    If enough of that is left nothing need be asked, else a renewal decides. An older fence is of a turn that was missed.
 * 4. Whatever ends it, what it may have on the server is given back, if that gets through.
 */
export class SimWaiter {
  readonly #claim: Claim;
  readonly #request: LockRequest;
  readonly #wish: AcquireRequest;
  readonly #startMs: number;
  #settle: Settle | null = null;
  #lease: SimLease | null = null;
  /** Not ours yet at this time or later. */
  #notYetMs: number;
  /** Whatever is handed to us after that has a larger fence. */
  #notYetFence = 0;
  #cancelAsk: Cancel = nothing;
  #cancelWait: Cancel = nothing;

  constructor(world: Omit<Claim, "key" | "token" | "ttlMs">, request: LockRequest) {
    const { key, org, owner, ttlMs, waitMs } = request;
    const { net, server, process } = world;
    const token = process.random.id();
    this.#request = request;
    // Written out, here and below: runs ask for millions of locks.
    this.#claim = { net, server, process, key, token, ttlMs };
    this.#startMs = net.timeline.nowMs;
    this.#notYetMs = this.#startMs;
    const onGrant = (fence: number): void => this.#wake(fence);
    this.#wish = { key, org, owner, token, ttlMs, isWaiting: waitMs > 0, process, onGrant };
  }

  acquire(): Promise<Acquired> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      const { waitMs } = this.#request;
      if (waitMs > 0) this.#cancelWait = this.#claim.process.after(waitMs, () => this.#leave());
      this.#ask();
    });
  }

  #ask(): void {
    const sentMs = this.#nowMs;
    this.#call(
      (server) => server.acquire(this.#wish),
      (answer) => {
        if (answer.kind === "held") this.#granted(answer.fence, sentMs + this.#claim.ttlMs, true);
        else if (answer.kind === "busy") this.#busy(answer.holder);
        else {
          this.#notYetMs = sentMs;
          this.#notYetFence = answer.fence;
          this.#askAfter(WAITER_LEASE_MS / 3);
        }
      },
    );
  }

  #askAfter(delayMs: number): void {
    this.#cancelAsk();
    this.#cancelAsk = this.#claim.process.after(delayMs, () => this.#ask());
  }

  /** The message that it is our turn. */
  #wake(fence: number): void {
    if (this.#settle === null || fence <= this.#notYetFence) return;
    this.#granted(fence, this.#notYetMs + Math.min(WAITER_LEASE_MS, this.#claim.ttlMs), false);
  }

  /** News that comes late may be old: the lock may have gone to the next one already. */
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
      (isOurs) => {
        if (isOurs) this.#granted(fence, sentMs + ttlMs, true);
        else this.#askAfter(0);
      },
    );
  }

  #leave(): void {
    const sentMs = this.#nowMs;
    const { key, token, ttlMs } = this.#claim;
    this.#cancelAsk();
    this.#call(
      (server): AcquireReply => server.withdraw(key, token),
      (answer) => {
        if (answer.kind === "held") this.#granted(answer.fence, sentMs + ttlMs, true);
        else this.#busy(answer.holder);
      },
    );
  }

  #call<T>(effect: (server: Claim["server"]) => T, then: (answer: T) => void): void {
    const { net, server, process } = this.#claim;
    call(net, process, "store", () => effect(server)).then(
      (answer) => {
        if (this.#settle !== null) then(answer);
        // All was over when the answer came: what it was about may have left something behind (4).
        else if (this.#lease === null || this.#lease.isOver) this.#giveBack();
      },
      (error: unknown) => {
        const settle = this.#end();
        if (settle === null) return;
        this.#giveBack();
        settle.reject(error);
      },
    );
  }

  #hold(fence: number, validUntilMs: number, isConfirmed: boolean): void {
    const settle = this.#end();
    this.#lease = new SimLease(this.#claim, { fence, waitedMs: this.#waitedMs, validUntilMs, isConfirmed });
    settle?.resolve({ kind: "held", lease: this.#lease });
  }

  #busy(holder: string | null): void {
    this.#end()?.resolve({ kind: "busy", holder, waitedMs: this.#waitedMs, attempts: 1 });
  }

  #end(): Settle | null {
    const settle = this.#settle;
    this.#settle = null;
    this.#cancelAsk();
    this.#cancelWait();
    return settle;
  }

  #giveBack(): void {
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

function nothing(): void {}

/** A lock is used without asking back if it is ours for this long at least. */
const MARGIN_MS = WAITER_LEASE_MS / 4;

interface Settle {
  resolve(acquired: Acquired): void;
  reject(error: unknown): void;
}
