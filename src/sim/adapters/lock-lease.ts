import type { Cancel } from "../../ports/clock.ts";
import { firstRenewalMs, type LockLease } from "../../ports/locks.ts";
import type { Process } from "../process.ts";
import type { LockServer } from "./lock-server.ts";
import { call, type Network } from "./net.ts";

/**
 * A lock that a process holds on a simulated server.
 *
 * 1. It is believed to be ours only as long as the server certainly keeps it: a time limit counts from before the request
 *    was sent.
 * 2. It is renewed at a third of its time, and very soon when it was handed over: until then it is ours for a waiter's
 *    lease only. "Not owned" ends it at once; a renewal without an answer is tried again until time is up.
 * 3. After `release` nothing aborts any more.
 */
export class SimLease implements LockLease {
  readonly key: string;
  readonly token: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts = 1;
  readonly #claim: Claim;
  readonly #abort = new AbortController();
  #cancelRenewal: Cancel = () => undefined;
  #cancelEnd: Cancel = () => undefined;
  #released: Promise<boolean> | null = null;

  constructor(claim: Claim, facts: LeaseFacts) {
    this.#claim = claim;
    this.key = claim.key;
    this.token = claim.token;
    this.fence = facts.fence;
    this.waitedMs = facts.waitedMs;
    this.#renewAfter(firstRenewalMs(claim.ttlMs, facts.isConfirmed));
    this.#endAt(facts.validUntilMs);
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
      (isOurs) => {
        if (this.isOver) return;
        if (!isOurs) {
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

/** What a token may have on the server: a lock, or a place in its queue. */
export interface Claim {
  readonly net: Network;
  readonly server: LockServer;
  readonly process: Process;
  readonly key: string;
  readonly token: string;
  readonly ttlMs: number;
}

export interface LeaseFacts {
  readonly fence: number;
  readonly waitedMs: number;
  readonly validUntilMs: number;
  /** False for a lock that was handed over and is not renewed yet. */
  readonly isConfirmed: boolean;
}
