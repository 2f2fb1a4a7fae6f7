import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";
import type { Locks } from "../../src/ports/locks.ts";
import { cryptoRandom } from "../../src/worlds/crypto-random.ts";
import { connectRedis, type RedisConnection } from "../../src/worlds/redis.ts";
import { RedisLocks } from "../../src/worlds/redis-locks.ts";
import { wallClock } from "../../src/worlds/wall-clock.ts";
import type { RunningServer } from "../servers/server.ts";
import { startRedis } from "../servers/start.ts";
import { locksContract } from "./locks.contract.ts";

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
