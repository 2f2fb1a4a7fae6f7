import type { Cancel } from "../ports/clock.ts";
import {
  type Acquired,
  type Lease,
  type LockRequest,
  type Locks,
  type LockView,
  WAITER_LEASE_MS,
} from "../ports/locks.ts";
import type { LockServer } from "./lock-server.ts";
import { ask, type Network } from "./net.ts";
import type { Process } from "./process.ts";

/** Locks as one process sees them: it asks, waits for the hand-over, renews, and notices when a lease is lost. */
export class SimLocks implements Locks {
  readonly isShared = true;
  readonly #net: Network;
  readonly #server: LockServer;
  readonly #process: Process;

  constructor(net: Network, server: LockServer, process: Process) {
    this.#net = net;
    this.#server = server;
    this.#process = process;
  }

  async acquire(request: LockRequest): Promise<Acquired> {
    const { key, org, owner, ttlMs, waitMs } = request;
    const process = this.#process;
    const token = process.random.id();
    const askedMs = this.#net.timeline.nowMs;
    const wish = { key, org, owner, token, ttlMs, isWaiting: waitMs > 0, process };
    let onGrant: (fence: number) => void = () => undefined;
    const granted = new Promise<number>((resolve) => {
      onGrant = resolve;
    });
    const waitedMs = (): number => Math.max(0, Math.round(this.#net.timeline.nowMs - askedMs));
    const held = (fence: number, sentMs: number): Acquired => {
      const facts = { key, token, fence, waitedMs: waitedMs(), ttlMs, sentMs };
      return { kind: "held", lease: new SimLease(this.#net, this.#server, process, facts) };
    };
    try {
      const answer = await this.#ask(() => this.#server.acquire({ ...wish, onGrant }));
      if (answer.kind === "held") return held(answer.fence, askedMs);
      if (answer.kind === "busy") return { ...answer, waitedMs: 0, attempts: 1 };
      const fence = (await this.#waitForGrant(key, token, waitMs, granted)) ?? (await this.#withdraw(key, token));
      const sentMs = this.#net.timeline.nowMs;
      // A lock that was handed over is ours for a waiter's lease only, until it is renewed for the first time.
      if (fence !== null && (await this.#ask(() => this.#server.renew(key, token)))) return held(fence, sentMs);
      return { kind: "busy", holder: answer.holder, waitedMs: waitedMs(), attempts: 1 };
    } catch (error) {
      // It may be ours without our knowing: give it back, whether or not that gets through.
      this.#ask(() => this.#server.release(key, token)).catch(() => undefined);
      throw error;
    }
  }

  list(limit: number): Promise<readonly LockView[]> {
    return this.#ask(() => this.#server.list(limit));
  }

  /** The fence, or null when the wait is over. */
  #waitForGrant(key: string, token: string, waitMs: number, granted: Promise<number>): Promise<number | null> {
    return new Promise((resolve) => {
      let cancelTouch: Cancel = () => undefined;
      const touch = (): void => {
        cancelTouch = this.#process.after(WAITER_LEASE_MS / 3, touch);
        this.#ask(() => this.#server.touch(key, token)).catch(() => undefined);
      };
      cancelTouch = this.#process.after(WAITER_LEASE_MS / 3, touch);
      const cancelWait = this.#process.after(waitMs, () => {
        cancelTouch();
        resolve(null);
      });
      granted.then((fence) => {
        cancelTouch();
        cancelWait();
        resolve(fence);
      });
    });
  }

  async #withdraw(key: string, token: string): Promise<number | null> {
    const answer = await this.#ask(() => this.#server.withdraw(key, token));
    return answer.kind === "held" ? answer.fence : null;
  }

  #ask<T>(effect: () => T): Promise<T> {
    return ask(this.#net, this.#process, "store", effect);
  }
}

interface LeaseFacts {
  readonly key: string;
  readonly token: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly ttlMs: number;
  /** When the request was sent that the lock was ours for: the server counts from later, never from earlier. */
  readonly sentMs: number;
}

class SimLease implements Lease {
  readonly key: string;
  readonly token: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts = 1;
  readonly #net: Network;
  readonly #server: LockServer;
  readonly #process: Process;
  readonly #ttlMs: number;
  readonly #abort = new AbortController();
  #cancelRenewal: Cancel = () => undefined;
  #cancelEnd: Cancel = () => undefined;
  #released: Promise<boolean> | null = null;

  constructor(net: Network, server: LockServer, process: Process, facts: LeaseFacts) {
    this.#net = net;
    this.#server = server;
    this.#process = process;
    this.key = facts.key;
    this.token = facts.token;
    this.fence = facts.fence;
    this.waitedMs = facts.waitedMs;
    this.#ttlMs = facts.ttlMs;
    this.#renewLater(this.#ttlMs / 3);
    // The answer may have come to a process that was paused: then the time is over already.
    if (facts.sentMs + this.#ttlMs <= net.timeline.nowMs) this.#lose("it was over before its holder knew of it");
    else this.#endAt(facts.sentMs + this.#ttlMs);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  release(): Promise<boolean> {
    if (this.#released === null) {
      this.#stop();
      this.#released = ask(this.#net, this.#process, "store", () => this.#server.release(this.key, this.token));
    }
    return this.#released;
  }

  #renewLater(delayMs: number): void {
    this.#cancelRenewal = this.#process.after(delayMs, () => this.#renew());
  }

  #renew(): void {
    const sentMs = this.#net.timeline.nowMs;
    ask(this.#net, this.#process, "store", () => this.#server.renew(this.key, this.token)).then(
      (isOurs) => {
        if (this.#released !== null || this.signal.aborted) return;
        if (!isOurs) {
          this.#lose("the lock is not ours any more");
          return;
        }
        this.#endAt(sentMs + this.#ttlMs);
        this.#renewLater(this.#ttlMs / 3);
      },
      () => {
        if (this.#released === null && !this.signal.aborted) this.#renewLater(this.#ttlMs / 10);
      },
    );
  }

  #endAt(timeMs: number): void {
    this.#cancelEnd();
    const leftMs = timeMs - this.#net.timeline.nowMs;
    this.#cancelEnd = this.#process.after(leftMs, () => this.#lose("not renewed in time"));
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
