import { afterAll, beforeAll, expect, it } from "vitest";
import { cryptoRandom } from "../../../src/adapters/node/crypto-random.ts";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { connectRedis, type RedisConnection } from "../../../src/adapters/redis/connection.ts";
import { RedisLocks } from "../../../src/adapters/redis/locks.ts";
import { RedisStore } from "../../../src/adapters/redis/store.ts";
import { FAIL_OPEN_TOTAL } from "../../../src/engine/safety/check-job.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { type StoreSubject, storeContract } from "./store.contract.ts";

const QUIET = { write: () => undefined };
let server: RunningServer;
let subjects = 0;

beforeAll(async () => {
  server = await startRedis({ appendonly: true, appendfsync: "always" });
});
afterAll(() => server.stop());

storeContract("redis", openSubject);

it("uses keys with the prefix `cordum:`, and the documented key of the bypass counter", async () => {
  const connection = await connectRedis(server.url, { log: QUIET });
  const { client } = connection;
  const store = new RedisStore(connection);
  const nothing = { org: "acme", atMs: 1, puts: [], guards: [], sends: [], watch: [] };
  await store.commit({ ...nothing, totals: [{ name: FAIL_OPEN_TOTAL, delta: 2 }] });
  await store.commit({ ...nothing, totals: [{ name: FAIL_OPEN_TOTAL, delta: 1 }] });
  expect(await client.get("cordum:scheduler:input_fail_open_total")).toBe("3");
  expect((await client.keys("*")).filter((key) => !/^(cordum|test-\d+):/.test(key))).toEqual([]);
  await connection.close();
});

it("`free` refuses a lock that is not held but has a waiter", async () => {
  const connection = await connectRedis(server.url, { log: QUIET, prefix: "test-waiter:" });
  const { client, prefix } = connection;
  const store = new RedisStore(connection);
  const lock = "cordum:wf:run:lock:r-1";
  const commit = () =>
    store.commit({ org: "acme", atMs: 1, puts: [], guards: [{ kind: "free", lock }], sends: [], watch: [] });
  // The holder's lease has ended, and the waiter has not called again yet.
  const queue = `${prefix}lock:queue:${prefix}wf:run:lock:r-1`;
  await client.zadd(queue, 1, "token");
  expect(await commit()).toMatchObject({ kind: "refused" });
  await client.del(queue);
  expect(await commit()).toMatchObject({ kind: "committed" });
  await connection.close();
});

/** Each subject has its own prefix; `reopen` kills and restarts the server. */
async function openSubject(): Promise<StoreSubject> {
  subjects += 1;
  const prefix = `test-${subjects}:`;
  const open = async (): Promise<{ store: RedisStore; connection: RedisConnection }> => {
    const connection = await connectRedis(server.url, { log: QUIET, prefix });
    return { store: new RedisStore(connection), connection };
  };
  let opened = await open();
  const peers: RedisConnection[] = [];
  return {
    store: opened.store,
    run: (promise) => promise,
    reopen: async () => {
      await opened.connection.close();
      await server.restart();
      opened = await open();
      return opened.store;
    },
    peer: async () => {
      const connection = await connectRedis(server.url, { log: QUIET, prefix });
      peers.push(connection);
      return {
        locks: await RedisLocks.open(connection, wallClock, cryptoRandom(wallClock)),
        crash: () => connection.close(),
      };
    },
    close: async () => {
      for (const connection of [opened.connection, ...peers]) await connection.close();
    },
  };
}
