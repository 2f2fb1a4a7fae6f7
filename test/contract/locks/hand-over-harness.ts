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
 * Two processes and one lock on Redis, for tests of local hand-overs (decision 0012). The test controls the clock of the
 * processes; keys on the server do not expire unless a case lets them.
 */
export class HandOverBench {
  readonly clock: ManualClock;
  readonly locks: RedisLocks;
  /** The locks of another process. */
  readonly otherLocks: RedisLocks;
  readonly #server: RunningServer;
  readonly #connection: RedisConnection;
  readonly #otherConnection: RedisConnection;

  static async open(server: RunningServer): Promise<HandOverBench> {
    const clock = new ManualClock();
    vi.spyOn(performance, "now").mockImplementation(() => clock.now());
    const [here, there] = [await openLocks(server, clock), await openLocks(server, clock)];
    await here.connection.client.flushall();
    await here.connection.guard.recheck();
    return new HandOverBench(server, clock, here, there);
  }

  private constructor(server: RunningServer, clock: ManualClock, here: Opened, there: Opened) {
    this.#server = server;
    this.clock = clock;
    this.locks = here.locks;
    this.otherLocks = there.locks;
    this.#connection = here.connection;
    this.#otherConnection = there.connection;
  }

  /** The client of the other process, which stays connected. */
  get client(): RedisConnection["client"] {
    return this.#otherConnection.client;
  }

  /** `a` has received the lock by a hand-over; `b` and then `c` wait for it in the same process. */
  async threeInLine(partsOfB: Partial<LockRequest> = {}, partsOfA: Partial<LockRequest> = {}): Promise<ThreeInLine> {
    const first = leaseOf(await this.otherLocks.acquire(request("first")));
    const requests = [request("a", partsOfA), request(ODD_NAME, partsOfB), request("c")];
    const [a, b, c] = requests.map((request) => new Waiting(request.owner, this.locks.acquire(request)));
    await this.freezeExpiry();
    await first.release();
    const lease = await a!.lease;
    await this.freezeExpiry();
    return { a: lease, b: b!, c: c! };
  }

  /** Resolves when all commands sent before have been answered and processed. */
  async settled(): Promise<void> {
    await this.#connection.pipe.command("ping", []);
    await this.#otherConnection.pipe.command("ping", []);
    await this.clock.pass(0);
  }

  /** Removes the expiry of all keys, so that the test does not depend on the speed of the machine. */
  async freezeExpiry(): Promise<void> {
    await this.settled();
    for (const key of await this.client.keys("*")) await this.client.persist(key);
  }

  /** Breaks the connection and waits for a new one. Commands already written are executed, but their replies are lost. */
  async reconnect(): Promise<void> {
    const ready = once(this.#connection.client, "ready");
    this.#connection.client.stream.destroy();
    this.#server.resume();
    await ready;
    await this.#connection.guard.recheck();
  }

  async close(): Promise<void> {
    this.#server.resume();
    await this.#connection.close();
    await this.#otherConnection.close();
    vi.restoreAllMocks();
  }
}

export interface ThreeInLine {
  readonly a: LockLease;
  readonly b: Waiting;
  readonly c: Waiting;
}

export const LOCK = "cordum:wf:run:lock:r-1";
export const QUEUE = `cordum:lock:queue:${LOCK}`;
export const TTL_MS = 60_000;
/** The owner of `b`, which contains separators. */
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
