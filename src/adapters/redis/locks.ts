import type { Redis } from "ioredis";
import type { Clock } from "../../ports/clock.ts";
import { FenceAllocator } from "../../ports/fence-allocator.ts";
import type { Acquired, LockRequest, Locks, LockView } from "../../ports/locks.ts";
import type { Random } from "../../ports/random.ts";
import type { RedisConnection } from "./connection.ts";
import { encodeArgs } from "./encode.ts";
import { RedisFailure } from "./errors.ts";
import { keyOfLock, lockName } from "./keys.ts";
import { type Grant, type Heir, LockCalls, type Turn, turnOf } from "./lock-calls.ts";
import { RedisWaiter, type WaiterContext } from "./lock-waiter.ts";
import type { RedisPipe } from "./pipe.ts";
import { LIST_LOCKS } from "./scripts/locks.ts";

/**
 * Locks between processes, on Redis.
 *
 * 1. The server decides, in scripts: who holds a lock, who is next, and with which fence.
 * 2. A release hands the lock to the next waiter in the same script and tells its process, on a channel that the
 *    process listens to with a connection of its own. A message that got lost is made up for by the waiter's next sign
 *    of life.
 * 3. When the one after it is of the same process, the lock is promised to it: within a process it is handed on without
 *    waiting for the server, in the same order as ever (docs/decisions/0012-local-hand-over.md).
 * 4. A lock's key on Redis is the very key asked for, when that begins with `cordum:`.
 */
export class RedisLocks implements Locks {
  readonly isShared = true;
  readonly #pipe: RedisPipe;
  readonly #prefix: string;
  readonly #random: Random;
  readonly #context: WaiterContext;
  readonly #waiters = new Map<string, RedisWaiter>();
  readonly #subscriber: Redis;
  readonly #stock: FenceAllocator;
  #isClosed = false;

  static async open(connection: RedisConnection, clock: Clock, random: Random): Promise<RedisLocks> {
    const processId = random.id();
    const subscriber = await connection.openAnother();
    const channel = `${connection.prefix}lock:wake:${processId}`;
    await subscriber.subscribe(channel);
    // A new connection has to subscribe again; if that fails, yet another connection is on its way.
    subscriber.on("ready", () => void subscriber.subscribe(channel).catch(() => undefined));
    return new RedisLocks(connection, clock, random, processId, subscriber);
  }

  private constructor(connection: RedisConnection, clock: Clock, random: Random, processId: string, subscriber: Redis) {
    this.#pipe = connection.pipe;
    this.#prefix = connection.prefix;
    this.#random = random;
    this.#subscriber = subscriber;
    this.#stock = new FenceAllocator(async (org, count) => {
      const counter = `${connection.prefix}lock:fence:${org}`;
      return (await connection.pipe.command("incrby", [encodeArgs([counter, String(count)])])) as number;
    });
    const forget = (waiter: RedisWaiter): void => {
      this.#waiters.delete(waiter.token);
    };
    const wake = (turn: Turn): void => this.#waiters.get(turn.token)?.wake(turn);
    const handOn = ({ token, fence }: Grant, untilMs: number): Heir | null => {
      const waiter = this.#waiters.get(token);
      return waiter?.inherit(fence, untilMs) ? waiter : null;
    };
    this.#context = { calls: new LockCalls(connection.pipe, processId, wake), clock, forget, handOn };
    subscriber.on("message", (_channel: string, message: string) => wake(turnOf(message)));
  }

  async acquire(request: LockRequest): Promise<Acquired> {
    if (this.#isClosed) throw closed();
    const waiter = new RedisWaiter(this.#context, request, this.#prefix + lockName(request.key), this.#random.id());
    this.#waiters.set(waiter.token, waiter);
    return waiter.acquire();
  }

  reserveFence(_key: string, org: string, above: number): number | null {
    return this.#stock.take(org, above);
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
    // Waiters that died were counted by the index, not by us.
    return views.sort((a, b) => b.waiters - a.waiters || (a.key < b.key ? -1 : 1));
  }

  /** Ends all waiting. Locks that are held stay with their holders. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const waiter of [...this.#waiters.values()]) waiter.fail(closed());
    await this.#subscriber.quit().catch(() => undefined);
  }
}

type ViewReply = [string, string, number, number, number];

const closed = (): RedisFailure => new RedisFailure("STORE_UNAVAILABLE", "the locks of this process are closed");
