import { once } from "node:events";
import { vi } from "vitest";
import { cryptoRandom } from "../../../src/adapters/node/crypto-random.ts";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { connectRedis, type RedisConnection } from "../../../src/adapters/redis/connection.ts";
import { RedisLocks } from "../../../src/adapters/redis/locks.ts";
import type { LockLease, LockRequest } from "../../../src/ports/locks.ts";
import type { RunningServer } from "../../servers/server.ts";
import { ManualClock } from "../manual-clock.ts";
import { quietLog } from "../quiet-log.ts";
import { leaseOf, Waiting } from "./locks.subject.ts";

/**
 * Two processes and one lock on Redis, for what becomes of it within one of them before the server has heard of that
 * (docs/decisions/0012-local-hand-over.md). Time is the test's own; on the server it stands still, but for what a case sets
 * going.
 */
export class HandingBench {
  readonly clock: ManualClock;
  readonly locks: RedisLocks;
  /** Of another process. */
  readonly others: RedisLocks;
  readonly #server: RunningServer;
  readonly #connection: RedisConnection;
  readonly #elsewhere: RedisConnection;

  static async open(server: RunningServer): Promise<HandingBench> {
    const clock = new ManualClock();
    vi.spyOn(performance, "now").mockImplementation(() => clock.now());
    const [here, there] = [await openLocks(server, clock), await openLocks(server, clock)];
    await here.connection.client.flushall();
    return new HandingBench(server, clock, here, there);
  }

  private constructor(server: RunningServer, clock: ManualClock, here: Opened, there: Opened) {
    this.#server = server;
    this.clock = clock;
    this.locks = here.locks;
    this.others = there.locks;
    this.#connection = here.connection;
    this.#elsewhere = there.connection;
  }

  /** Of the other process: whatever happens here, it is connected. */
  get client(): RedisConnection["client"] {
    return this.#elsewhere.client;
  }

  /** `a` has been handed the lock; `b` is behind it, in the same process, and `c` behind that. */
  async line(partsOfB: Partial<LockRequest> = {}, partsOfA: Partial<LockRequest> = {}): Promise<Line> {
    const first = leaseOf(await this.others.acquire(request("first")));
    const wishes = [request("a", partsOfA), request(ODD_NAME, partsOfB), request("c")];
    const [a, b, c] = wishes.map((request) => new Waiting(request.owner, this.locks.acquire(request)));
    await this.holdStill();
    await first.release();
    const lease = await a!.lease;
    await this.holdStill();
    return { a: lease, b: b!, c: c! };
  }

  /** Whatever was sent before has been answered, and whoever it was for has heard. */
  async settled(): Promise<void> {
    await this.#connection.pipe.command("ping", []);
    await this.#elsewhere.pipe.command("ping", []);
    await this.clock.pass(0);
  }

  /** Nothing on the server runs out by itself, however long the machine takes. */
  async holdStill(): Promise<void> {
    await this.settled();
    for (const key of await this.client.keys("*")) await this.client.persist(key);
  }

  /** The connection breaks, and there is another one. What was written before still gets there; no answer comes back. */
  async reconnect(): Promise<void> {
    const ready = once(this.#connection.client, "ready");
    this.#connection.client.stream.destroy();
    this.#server.resume();
    await ready;
  }

  async close(): Promise<void> {
    this.#server.resume();
    await this.#connection.close();
    await this.#elsewhere.close();
    vi.restoreAllMocks();
  }
}

export interface Line {
  readonly a: LockLease;
  readonly b: Waiting;
  readonly c: Waiting;
}

export const LOCK = "cordum:wf:run:lock:r-1";
export const QUEUE = `cordum:lock:queue:${LOCK}`;
export const TTL_MS = 60_000;
/** Of `b`: what a name contains is nobody's business. */
export const ODD_NAME = "b\n2 x 3\nb";

export const request = (owner: string, parts: Partial<LockRequest> = {}): LockRequest => ({
  ...{ key: LOCK, org: "acme", ttlMs: TTL_MS, waitMs: 60_000, owner },
  ...parts,
});

interface Opened {
  readonly connection: RedisConnection;
  readonly locks: RedisLocks;
}

async function openLocks(server: RunningServer, clock: ManualClock): Promise<Opened> {
  const connection = await connectRedis(server.url, { log: quietLog });
  return { connection, locks: await RedisLocks.open(connection, clock, cryptoRandom(wallClock)) };
}
