import { WAITER_LEASE_MS } from "../ports/locks.ts";
import { RedisBatch } from "./redis-batch.ts";
import { encodeCall } from "./redis-encode.ts";
import type { RedisPipe } from "./redis-pipe.ts";
import { LOCKS } from "./redis-scripts/locks.ts";

/** What is asked of the server about locks: the calls of one tick are one command. Each is told of in `LOCKS`. */
export class LockCalls {
  readonly #pipe: RedisPipe;
  readonly #batch: RedisBatch;
  readonly #processId: string;
  readonly #wake: Wake;

  /** `wake` is told which waiter of this process was given a lock that this process has released. */
  constructor(pipe: RedisPipe, processId: string, wake: Wake) {
    this.#pipe = pipe;
    this.#batch = new RedisBatch(pipe, LOCKS);
    this.#processId = processId;
    this.#wake = wake;
  }

  ask(lock: string, token: string, wish: AskWish): Promise<AskReply> {
    const { ttlMs, owner, org, isQueueing, number } = wish;
    const facts = [String(ttlMs), owner, org, this.#processId, LEASE, isQueueing ? "1" : "0", number];
    return this.#batch.call(encodeCall(["ask", lock, token, ...facts])) as Promise<AskReply>;
  }

  leave(lock: string, token: string, ttlMs: number): Promise<LeaveReply> {
    return this.#batch.call(encodeCall(["leave", lock, token, String(ttlMs)])) as Promise<LeaveReply>;
  }

  /** The fence of the lock if it is the token's, else 0. */
  renew(lock: string, token: string, ttlMs: number): Promise<number> {
    return this.#batch.call(encodeCall(["renew", lock, token, String(ttlMs)])) as Promise<number>;
  }

  /** Somebody else may wait for it: it does not wait for the end of the tick. */
  async release(lock: string, token: string): Promise<boolean> {
    const released = this.#batch.call(encodeCall(["release", lock, token, LEASE, this.#processId]));
    this.#pipe.hurry();
    const answer = (await released) as ReleaseReply;
    if (typeof answer === "number") return answer === 1;
    this.#wake(...answer);
    return true;
  }
}

export type Wake = (token: string, fence: number) => void;

const LEASE = String(WAITER_LEASE_MS);

export interface AskWish {
  readonly ttlMs: number;
  readonly owner: string;
  readonly org: string;
  readonly isQueueing: boolean;
  /** Drawn at the end of the queue before; "" for none. */
  readonly number: string;
}

export type NotYet = [number: number, leftMs: number, holder: string, wasFree: number, fence: number];
export type AskReply = [1, number, number] | [0, ...NotYet];
export type ReleaseReply = number | [next: string, fence: number];
export type LeaveReply = readonly [1, number] | readonly [0, string];
