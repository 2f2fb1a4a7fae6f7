import { WAITER_LEASE_MS } from "../../ports/locks.ts";
import { RedisBatch } from "./batch.ts";
import { encodeCall } from "./encode.ts";
import type { RedisPipe } from "./pipe.ts";
import { LOCKS } from "./scripts/locks.ts";

/** Calls to the `LOCKS` script. The calls of one tick are sent as one command. */
export class LockCalls {
  readonly #pipe: RedisPipe;
  readonly #batch: RedisBatch;
  readonly #processId: string;
  readonly #wake: Wake;

  /** `wake` is called when a release by this process grants the lock to another waiter of this process. */
  constructor(pipe: RedisPipe, processId: string, wake: Wake) {
    this.#pipe = pipe;
    this.#batch = new RedisBatch(pipe, LOCKS);
    this.#processId = processId;
    this.#wake = wake;
  }

  acquire(lock: string, token: string, request: AcquireRequest): Promise<AcquireReply> {
    const { ttlMs, owner, org, isQueueing, arrival: number } = request;
    const args = [String(ttlMs), owner, org, this.#processId, LEASE, isQueueing ? "1" : "0", number];
    return this.#batch.call(encodeCall(["acquire", lock, token, ...args])) as Promise<AcquireReply>;
  }

  leave(lock: string, token: string, ttlMs: number): Promise<LeaveReply> {
    return this.#batch.call(encodeCall(["leave", lock, token, String(ttlMs)])) as Promise<LeaveReply>;
  }

  /** Returns the fence if the token holds the lock, else 0. */
  renew(lock: string, token: string, ttlMs: number): Promise<number> {
    return this.#batch.call(encodeCall(["renew", lock, token, String(ttlMs)])) as Promise<number>;
  }

  /**
   * Flushes before the end of the tick, because waiters in other processes may be blocked. `successor` already holds the
   * lock by a local hand-over; the reply confirms or refuses it. Without a reply its next renewal decides.
   */
  async release(lock: string, token: string, successor: Successor | null): Promise<boolean> {
    const sentMs = monotonicMs();
    const args = ["release", lock, token, LEASE, this.#processId, successor?.owner ?? ""];
    const released = this.#batch.call(encodeCall(args));
    this.#pipe.flushSoon();
    const answer = (await released) as number | string;
    const grant = typeof answer === "string" ? parseGrant(answer) : null;
    if (grant !== null && grant.token === successor?.token) {
      successor.confirm(sentMs, grant.next);
    } else {
      successor?.refuse();
      if (grant !== null) this.#wake(grant);
    }
    return grant !== null || answer === 1;
  }
}

/** The new holder of a lock, and the waiter for which the next hand-over is reserved. */
export interface Grant extends Ticket {
  readonly next: Ticket | null;
}

export interface Ticket {
  readonly token: string;
  readonly fence: number;
}

/** A waiter that received a lock by a local hand-over which the server has not confirmed yet. */
export interface Successor {
  readonly token: string;
  readonly owner: string;
  /** The server made it the holder by a release sent at `sentMs` or later, and reserved the lock for `next`. */
  confirm(sentMs: number, next: Ticket | null): void;
  /** The previous holder had lost the lock before the hand-over. */
  refuse(): void;
}

export type Wake = (grant: Grant) => void;

/** Parses "token fence" or "token fence next fence". */
export function parseGrant(text: string): Grant {
  const [token = "", fence, next, nextFence] = text.split(" ");
  return {
    token,
    fence: Number(fence),
    next: next === undefined ? null : { token: next, fence: Number(nextFence) },
  };
}

/** For durations: the wall clock may jump while a lock is held. */
export const monotonicMs = (): number => performance.now();

const LEASE = String(WAITER_LEASE_MS);

export interface AcquireRequest {
  readonly ttlMs: number;
  readonly owner: string;
  readonly org: string;
  readonly isQueueing: boolean;
  /** Arrival number from an earlier reply; "" on the first attempt. */
  readonly arrival: string;
}

export type WaitReply = [arrival: number, leftMs: number, holder: string, wasFree: number, fence: number];
export type AcquireReply = [1, number, number] | [0, ...WaitReply];
export type LeaveReply = readonly [1, number] | readonly [0, string];
