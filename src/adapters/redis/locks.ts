import type { Redis } from "ioredis";
import type { Clock } from "../../ports/clock.ts";
import { FenceAllocator } from "../../ports/fence-allocator.ts";
import type { Acquired, LockRequest, Locks, LockView } from "../../ports/locks.ts";
import type { Random } from "../../ports/random.ts";
import type { RedisConnection } from "./connection.ts";
import { encodeArgs } from "./encode.ts";
import { RedisFailure } from "./errors.ts";
import { keyOfLock, lockName } from "./keys.ts";
import { type Grant, LockCalls, parseGrant, type Successor, type Ticket } from "./lock-calls.ts";
import { RedisWaiter, type WaiterContext } from "./lock-waiter.ts";
import type { RedisPipe } from "./pipe.ts";
import { LIST_LOCKS } from "./scripts/locks.ts";

/**
 * Locks on Redis, shared by all processes.
 *
 * 1. The `LOCKS` script decides on the holder, the next waiter and the fence.
 * 2. A release hands the lock to the next waiter in the same script and announces it to that waiter's process on a
 *    pub/sub channel. A lost announcement is recovered by the waiter's next attempt.
 * 3. If the next waiter belongs to the holder's process, the server reserves the lock for it, and the process hands it
 *    over locally without waiting for a round trip (decision 0012).
 * 4. The Redis key of a lock equals its key if that begins with `cordum:`.
 */
export class RedisLocks implements Locks {
  readonly isShared = true;
  readonly #pipe: RedisPipe;
  readonly #prefix: string;
  readonly #random: Random;
  readonly #context: WaiterContext;
  readonly #waiters = new Map<string, RedisWaiter>();
  readonly #subscriber: Redis;
  readonly #fences: FenceAllocator;
  #isClosed = false;

  static async open(connection: RedisConnection, clock: Clock, random: Random): Promise<RedisLocks> {
    const processId = random.id();
    const subscriber = await connection.openAnother();
    const channel = `${connection.prefix}lock:wake:${processId}`;
    await subscriber.subscribe(channel);
    // Subscriptions end with the connection. If this fails, the client reconnects and emits "ready" again.
    subscriber.on("ready", () => void subscriber.subscribe(channel).catch(() => undefined));
    return new RedisLocks(connection, clock, random, processId, subscriber);
  }

  private constructor(connection: RedisConnection, clock: Clock, random: Random, processId: string, subscriber: Redis) {
    this.#pipe = connection.pipe;
    this.#prefix = connection.prefix;
    this.#random = random;
    this.#subscriber = subscriber;
    this.#fences = new FenceAllocator(async (org, count) => {
      const counter = `${connection.prefix}lock:fence:${org}`;
      return (await connection.pipe.command("incrby", [encodeArgs([counter, String(count)])])) as number;
    });
    const remove = (waiter: RedisWaiter): void => {
      this.#waiters.delete(waiter.token);
    };
    const wake = (grant: Grant): void => this.#waiters.get(grant.token)?.wake(grant);
    const handOver = ({ token, fence }: Ticket, untilMs: number): Successor | null => {
      const waiter = this.#waiters.get(token);
      return waiter?.receive(fence, untilMs) ? waiter : null;
    };
    this.#context = {
      calls: new LockCalls(connection.pipe, processId, wake),
      clock,
      remove: remove,
      handOver: handOver,
    };
    subscriber.on("message", (_channel: string, message: string) => wake(parseGrant(message)));
  }

  async acquire(request: LockRequest): Promise<Acquired> {
    if (this.#isClosed) throw closed();
    const waiter = new RedisWaiter(this.#context, request, this.#prefix + lockName(request.key), this.#random.id());
    this.#waiters.set(waiter.token, waiter);
    return waiter.acquire();
  }

  reserveFence(_key: string, org: string, above: number): number | null {
    return this.#fences.take(org, above);
  }

  async list(limit: number): Promise<readonly LockView[]> {
    if (limit < 1) return [];
    const reply = (await this.#pipe.run(LIST_LOCKS, [String(limit)])) as (string | number)[];
    const views: LockView[] = [];
    for (let at = 0; at < reply.length; at += 5) {
      const [lock, holder, fence, expiresAtMs, waiters] = reply.slice(at, at + 5) as ViewReply;
      views.push({
        key: keyOfLock(lock.slice(this.#prefix.length)),
        holder: holder === "" ? null : holder,
        fence,
        expiresAtMs,
        waiters,
      });
    }
    // The index also counts dead waiters, so its order differs.
    return views.sort((a, b) => b.waiters - a.waiters || (a.key < b.key ? -1 : 1));
  }

  /** Rejects all waiters. Held locks stay with their holders. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const waiter of [...this.#waiters.values()]) waiter.fail(closed());
    await this.#subscriber.quit().catch(() => undefined);
  }
}

type ViewReply = [string, string, number, number, number];

const closed = (): RedisFailure =>
  new RedisFailure("STORE_UNAVAILABLE", "locks are closed: the process is shutting down");
