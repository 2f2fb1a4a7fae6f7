import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { cryptoRandom } from "../../../src/adapters/node/crypto-random.ts";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { connectRedis, type RedisConnection } from "../../../src/adapters/redis/connection.ts";
import { RedisLocks } from "../../../src/adapters/redis/locks.ts";
import type { Locks } from "../../../src/ports/locks.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { locksContract } from "./locks.contract.ts";
import { leaseOf } from "./locks.subject.ts";

const QUIET = { write: () => undefined };
let server: RunningServer;
let subjects = 0;

beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

/** Each subject has its own prefix, and each process its own connections. */
locksContract("redis", async () => {
  subjects += 1;
  const prefix = `test-${subjects}:`;
  const connections = new Map<Locks, RedisConnection>();
  return {
    open: async () => {
      const connection = await connectRedis(server.url, { log: QUIET, prefix });
      const locks = await RedisLocks.open(connection, wallClock, cryptoRandom(wallClock));
      connections.set(locks, connection);
      return locks;
    },
    run: (promise) => promise,
    // Real time: the clock of the server cannot be controlled.
    pass: (ms) => delay(ms),
    cut: async (locks) => connections.get(locks)?.close(),
    capabilities: { betweenProcesses: true },
    close: async () => {
      for (const connection of connections.values()) await connection.close();
    },
  };
});

describe("locks on redis", () => {
  let connection: RedisConnection;
  let locks: RedisLocks;
  let otherConnection: RedisConnection;
  let otherLocks: RedisLocks;

  beforeEach(async () => {
    connection = await connectRedis(server.url, { log: QUIET });
    await connection.client.flushall();
    await connection.guard.recheck();
    locks = await RedisLocks.open(connection, wallClock, cryptoRandom(wallClock));
    otherConnection = await connectRedis(server.url, { log: QUIET });
    otherLocks = await RedisLocks.open(otherConnection, wallClock, cryptoRandom(wallClock));
  });
  afterEach(async () => {
    await connection.close();
    await otherConnection.close();
  });

  const request = (waitMs: number, key = "cordum:wf:run:lock:r-1") => ({
    key,
    org: "acme",
    ttlMs: 60_000,
    waitMs,
    owner: "test",
  });

  it("use the requested keys, and leave only counters behind", async () => {
    const first = leaseOf(await locks.acquire(request(0)));
    expect(await connection.client.pttl("cordum:wf:run:lock:r-1")).toBeGreaterThan(30_000);
    const waiting = locks.acquire(request(60_000));
    await locks.acquire(request(1));
    await first.release();
    await leaseOf(await waiting).release();
    const left = (await connection.client.keys("cordum:*lock*")).sort();
    expect(left).toEqual(["cordum:lock:arrivals", "cordum:lock:fence:acme"]);
  });

  it("separate keys with and without the prefix `cordum:`", async () => {
    const lease = leaseOf(await locks.acquire(request(0, "wf:run:lock:r-1")));
    await leaseOf(await locks.acquire(request(0))).release();
    expect((await locks.list(10)).map(({ key }) => key)).toEqual(["wf:run:lock:r-1"]);
    await lease.release();
  });

  it("recover from a lost announcement with the waiter's next call: still one attempt", async () => {
    const first = leaseOf(await otherLocks.acquire(request(0)));
    const waiting = locks.acquire(request(60_000));
    await connection.pipe.command("ping", []);
    // The waiter's process is not subscribed during the hand-over.
    const killed = connection.client.call("client", "kill", "type", "pubsub");
    await Promise.all([killed, first.release()]);
    expect(leaseOf(await waiting).attempts).toBe(1);
    // The subscription is restored afterwards.
    const next = otherLocks.acquire(request(60_000));
    await otherConnection.pipe.command("ping", []);
    await leaseOf(await waiting).release();
    expect(leaseOf(await next).attempts).toBe(1);
  });

  it("ignore an outdated announcement (L14)", async () => {
    const { client } = connection;
    const first = leaseOf(await otherLocks.acquire(request(0)));
    const waiting = locks.acquire(request(60_000));
    await connection.pipe.command("ping", []);
    const [token] = await client.zrange(`cordum:lock:queue:${first.key}`, "0", "-1");
    const channels = (await client.call("pubsub", "channels", "cordum:lock:wake:*")) as string[];
    for (const channel of channels) expect(await client.publish(channel, `${token} ${first.fence}`)).toBe(1);
    await first.release();
    expect(leaseOf(await waiting).fence).toBeGreaterThan(first.fence);
  });

  it("announce a grant within the process by the reply to the release, without a message", async () => {
    const still = { now: () => wallClock.now(), after: () => () => undefined };
    const own = await RedisLocks.open(connection, still, cryptoRandom(wallClock));
    const first = leaseOf(await own.acquire(request(0)));
    const [second, third] = [own.acquire(request(60_000)), own.acquire(request(60_000))];
    await connection.pipe.command("ping", []);
    await Promise.all([connection.client.call("client", "kill", "type", "pubsub"), first.release()]);
    const next = leaseOf(await second);
    expect(next.fence).toBeGreaterThan(first.fence);
    expect(await next.release()).toBe(true);
    expect(leaseOf(await third).fence).toBeGreaterThan(next.fence);
  });

  it("reload scripts after SCRIPT FLUSH, and lose locks after FLUSHALL", async () => {
    const kept = leaseOf(await locks.acquire(request(0)));
    await connection.client.script("FLUSH");
    expect(await kept.release()).toBe(true);
    const lost = leaseOf(await locks.acquire({ ...request(0), ttlMs: 600 }));
    const aborted = new Promise((resolve) => lost.signal.addEventListener("abort", resolve));
    await connection.client.flushall();
    await connection.guard.recheck();
    await aborted;
    expect(await lost.release()).toBe(false);
  });

  it("remove dead entries from the index", async () => {
    await connection.client.zadd("cordum:lock:index", 0, "cordum:dead-1");
    await connection.client.zadd("cordum:lock:index", 7, "cordum:dead-2");
    const lease = leaseOf(await locks.acquire(request(0)));
    expect((await locks.list(10)).map(({ key }) => key)).toEqual([lease.key]);
    expect(await connection.client.zcard("cordum:lock:index")).toBe(1);
    await connection.client.zadd("cordum:lock:index", 0, "cordum:dead-3");
    for (let n = 0; n < 256; n += 1) await leaseOf(await locks.acquire(request(0, `cordum:k-${n}`))).release();
    expect(await connection.client.zscore("cordum:lock:index", "cordum:dead-3")).toBeNull();
  });

  it("list a lock with waiters and no holder, and keep its queue", async () => {
    const { client } = connection;
    const first = leaseOf(await otherLocks.acquire(request(0)));
    const waiting = locks.acquire(request(60_000));
    await connection.pipe.command("ping", []);
    const queue = `cordum:lock:queue:${first.key}`;
    const [token] = await client.zrange(queue, "0", "-1");
    // The holder's lease ends, and the waiter has not called again yet.
    const [, listed] = await Promise.all([client.del(first.key), locks.list(10)]);
    expect(listed).toEqual([{ key: first.key, holder: null, fence: 0, expiresAtMs: 0, waiters: 1 }]);
    // A caller that came later does not overtake the waiter.
    expect(await otherLocks.acquire(request(0))).toMatchObject({ kind: "busy" });
    expect(leaseOf(await waiting).token).toBe(token);
  });

  it("reject waiters on close, and remove them from the queue", async () => {
    await locks.acquire(request(0));
    const waiting = locks.acquire(request(60_000));
    await connection.pipe.command("ping", []);
    const closed = locks.close();
    await expect(waiting).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await closed;
    await connection.pipe.command("ping", []);
    expect(await connection.client.exists("cordum:lock:queue:cordum:wf:run:lock:r-1")).toBe(0);
    await expect(locks.acquire(request(0))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  });
});
