import { WAITER_LEASE_MS } from "../../ports/locks.ts";
import { RedisBatch } from "./batch.ts";
import { encodeCall } from "./encode.ts";
import type { RedisPipe } from "./pipe.ts";
import { LOCKS } from "./scripts/locks.ts";

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

  ask(lock: string, token: string, request: AcquireRequest): Promise<AskReply> {
    const { ttlMs, owner, org, isQueueing, number } = request;
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

  /**
   * Somebody else may wait for it: it does not wait for the end of the tick. An heir has it already, by a promise of the
   * server, and hears what the server says to that; if it says nothing, the heir's renewal asks.
   */
  async release(lock: string, token: string, heir: Heir | null): Promise<boolean> {
    const sentMs = monotonicMs();
    const args = ["release", lock, token, LEASE, this.#processId, heir?.owner ?? ""];
    const released = this.#batch.call(encodeCall(args));
    this.#pipe.hurry();
    const answer = (await released) as number | string;
    const turn = typeof answer === "string" ? turnOf(answer) : null;
    if (turn !== null && turn.token === heir?.token) {
      heir.confirm(sentMs, turn.next);
    } else {
      heir?.refuse();
      if (turn !== null) this.#wake(turn);
    }
    return turn !== null || answer === 1;
  }
}

/** Who has a lock now; and who has it after that, if it is promised already. */
export interface Turn extends Grant {
  readonly next: Grant | null;
}

export interface Grant {
  readonly token: string;
  readonly fence: number;
}

/** A waiter that has got a lock from a holder of its process, until the server has said what it knows of that. */
export interface Heir {
  readonly token: string;
  readonly owner: string;
  /** It is the heir's, by a release that was sent at that time or later, and goes to `next` after it. */
  confirm(sentMs: number, next: Grant | null): void;
  /** Who handed it on had it no more. */
  refuse(): void;
}

export type Wake = (turn: Turn) => void;

/** Of what the server says: "token fence", or "token fence next fence". */
export function turnOf(text: string): Turn {
  const [token = "", fence, next, nextFence] = text.split(" ");
  return {
    token,
    fence: Number(fence),
    next: next === undefined ? null : { token: next, fence: Number(nextFence) },
  };
}

/** Durations only: the wall clock may be set back while a lock is held. */
export const monotonicMs = (): number => performance.now();

const LEASE = String(WAITER_LEASE_MS);

export interface AcquireRequest {
  readonly ttlMs: number;
  readonly owner: string;
  readonly org: string;
  readonly isQueueing: boolean;
  /** Drawn at the end of the queue before; "" for none. */
  readonly number: string;
}

export type NotYet = [number: number, leftMs: number, holder: string, wasFree: number, fence: number];
export type AskReply = [1, number, number] | [0, ...NotYet];
export type LeaveReply = readonly [1, number] | readonly [0, string];
