import { cryptoRandom } from "../../../src/adapters/node/crypto-random.ts";
import { pinoLog } from "../../../src/adapters/node/pino-log.ts";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { connectRedis } from "../../../src/adapters/redis/connection.ts";
import { RedisLocks } from "../../../src/adapters/redis/locks.ts";
import type { LockClient } from "../peers/locks.ts";

/** The locks of a cluster, as the engine uses them. */
export async function openCordumLocks(redisUrl: string, ttlMs: number, waitMs: number): Promise<LockClient> {
  const name = `bench-${process.pid}`;
  const connection = await connectRedis(redisUrl, { log: pinoLog({ level: "error", name, target: process.stderr }) });
  const locks = await RedisLocks.open(connection, wallClock, cryptoRandom(wallClock));
  return {
    async acquire(key) {
      const acquired = await locks.acquire({ key, org: "default", ttlMs, waitMs, owner: name });
      if (acquired.kind === "busy") throw new Error(`the lock was busy for ${acquired.waitedMs} ms`);
      const { lease } = acquired;
      return { attempts: lease.attempts, release: async () => void (await lease.release()) };
    },
    async close() {
      await locks.close();
      await connection.close();
    },
  };
}
