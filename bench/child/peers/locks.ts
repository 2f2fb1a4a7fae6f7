import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import { openCordumLocks } from "../cordum/locks.ts";
import type { LockPeer } from "../task.ts";

/** A compared lock. */
export interface LockClient {
  acquire(key: string): Promise<HeldLock>;
  close(): Promise<void>;
}

export interface HeldLock {
  readonly attempts: number;
  release(): Promise<void>;
}

export async function openLockPeer(peer: LockPeer, redisUrl: string): Promise<LockClient> {
  switch (peer) {
    case "cordum":
      return openCordumLocks(redisUrl, LOCK_TTL_MS, LOCK_WAIT_MS);
    case "redlock":
      // The default delay without the default limit of ten tries.
      return openRedlock(redisUrl, { retryCount: -1 });
    case "redlock 10 ms":
      return openRedlock(redisUrl, { retryCount: -1, retryDelay: 10, retryJitter: 5 });
    case "redis-semaphore":
      return openMutex(redisUrl);
    case "fixed poll 10 ms":
      return openPoll(redisUrl);
    default:
      return peer satisfies never;
  }
}

function openRedlock(redisUrl: string, options: ConstructorParameters<typeof Redlock>[1]): LockClient {
  const redis = new Redis(redisUrl);
  const redlock = new Redlock([redis], options);
  return {
    async acquire(key) {
      const lock = await redlock.lock(key, LOCK_TTL_MS);
      return { attempts: lock.attempts, release: async () => void (await lock.unlock()) };
    },
    close: async () => redis.disconnect(),
  };
}

function openMutex(redisUrl: string): LockClient {
  const redis = new Redis(redisUrl);
  return {
    async acquire(key) {
      let attempts = 0;
      // Mutex sends one SET per try and does not expose the count.
      const counting = new Proxy(redis, {
        get(target, name) {
          if (name === "set") attempts++;
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
      const mutex = new Mutex(counting, key, { lockTimeout: LOCK_TTL_MS, acquireTimeout: LOCK_WAIT_MS });
      await mutex.acquire();
      return { attempts, release: () => mutex.release() };
    },
    close: async () => redis.disconnect(),
  };
}

function openPoll(redisUrl: string): LockClient {
  const redis = new Redis(redisUrl);
  let nextToken = 0;
  return {
    async acquire(key) {
      const token = `${process.pid}-${nextToken++}`;
      for (let attempts = 1; ; attempts++) {
        if ((await redis.set(key, token, "PX", LOCK_TTL_MS, "NX")) === "OK") {
          return { attempts, release: async () => void (await redis.eval(RELEASE, 1, key, token)) };
        }
        await delay(POLL_MS);
      }
    },
    close: async () => redis.disconnect(),
  };
}

const RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0';
const LOCK_TTL_MS = 10_000;
const LOCK_WAIT_MS = 120_000;
const POLL_MS = 10;
