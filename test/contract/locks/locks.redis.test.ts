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

/** Each subject has keys of its own on the one server, and each view of the locks has connections of its own. */
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
    // The server's clock cannot be moved: here, and only here, time has to pass by itself.
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
  let elsewhere: RedisConnection;
  /** Of another process. */
  let others: RedisLocks;

  beforeEach(async () => {
    connection = await connectRedis(server.url, { log: QUIET });
    await connection.client.flushall();
    locks = await RedisLocks.open(connection, wallClock, cryptoRandom(wallClock));
    elsewhere = await connectRedis(server.url, { log: QUIET });
    others = await RedisLocks.open(elsewhere, wallClock, cryptoRandom(wallClock));
  });
  afterEach(async () => {
    await connection.close();
    await elsewhere.close();
  });

  const request = (waitMs: number, key = "cordum:wf:run:lock:r-1") => ({
    key,
    org: "acme",
    ttlMs: 60_000,
    waitMs,
    owner: "test",
  });

  it("stand under the very keys asked for, and leave nothing behind but counters", async () => {
    const first = leaseOf(await locks.acquire(request(0)));
    expect(await connection.client.pttl("cordum:wf:run:lock:r-1")).toBeGreaterThan(30_000);
    const waiting = locks.acquire(request(60_000));
    await locks.acquire(request(1));
    await first.release();
    await leaseOf(await waiting).release();
    expect((await connection.client.keys("*")).sort()).toEqual(["cordum:lock:arrivals", "cordum:lock:fence:acme"]);
  });

  it("a key that says not whose it is cannot meet one that does", async () => {
    const lease = leaseOf(await locks.acquire(request(0, "wf:run:lock:r-1")));
    await leaseOf(await locks.acquire(request(0))).release();
    expect((await locks.list(10)).map(({ key }) => key)).toEqual(["wf:run:lock:r-1"]);
    await lease.release();
  });

  it("a message that got lost is made up for by the next sign of life: still one attempt", async () => {
    const first = leaseOf(await others.acquire(request(0)));
    const waiting = locks.acquire(request(60_000));
    await connection.pipe.command("ping", []);
    // Nobody listens at the moment of the hand-over.
    const killed = connection.client.call("client", "kill", "type", "pubsub");
    await Promise.all([killed, first.release()]);
    expect(leaseOf(await waiting).attempts).toBe(1);
    // And the connection for messages is back afterwards.
    const next = others.acquire(request(60_000));
    await elsewhere.pipe.command("ping", []);
    await leaseOf(await waiting).release();
    expect(leaseOf(await next).attempts).toBe(1);
  });

  it("a message of a turn that was missed is not believed (L14)", async () => {
    const { client } = connection;
    const first = leaseOf(await others.acquire(request(0)));
    const waiting = locks.acquire(request(60_000));
    await connection.pipe.command("ping", []);
    const [token] = await client.zrange(`cordum:lock:queue:${first.key}`, "0", "-1");
    const channels = (await client.call("pubsub", "channels", "cordum:lock:wake:*")) as string[];
    for (const channel of channels) expect(await client.publish(channel, `${token} ${first.fence}`)).toBe(1);
    await first.release();
    expect(leaseOf(await waiting).fence).toBeGreaterThan(first.fence);
  });

  it("a waiter of the holder's own process hears of its turn by the answer to the release: no message, no sign of life", async () => {
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

  it("a server that has forgotten the scripts, or everything, is coped with: a lock it does not know is lost", async () => {
    const kept = leaseOf(await locks.acquire(request(0)));
    await connection.client.script("FLUSH");
    expect(await kept.release()).toBe(true);
    const lost = leaseOf(await locks.acquire({ ...request(0), ttlMs: 600 }));
    const aborted = new Promise((resolve) => lost.signal.addEventListener("abort", resolve));
    await connection.client.flushall();
    await aborted;
    expect(await lost.release()).toBe(false);
  });

  it("dead entries do not fill the list of locks for ever", async () => {
    await connection.client.zadd("cordum:lock:index", 0, "cordum:dead-1");
    await connection.client.zadd("cordum:lock:index", 7, "cordum:dead-2");
    const lease = leaseOf(await locks.acquire(request(0)));
    expect((await locks.list(10)).map(({ key }) => key)).toEqual([lease.key]);
    expect(await connection.client.zcard("cordum:lock:index")).toBe(1);
    await connection.client.zadd("cordum:lock:index", 0, "cordum:dead-3");
    for (let n = 0; n < 256; n += 1) await leaseOf(await locks.acquire(request(0, `cordum:k-${n}`))).release();
    expect(await connection.client.zscore("cordum:lock:index", "cordum:dead-3")).toBeNull();
  });

  it("closing ends all waiting at once, and frees the places", async () => {
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
