import { afterAll, beforeAll } from "vitest";
import { connectRedis, type RedisConnection } from "../../src/worlds/redis.ts";
import { RedisStore } from "../../src/worlds/redis-store.ts";
import type { RunningServer } from "../servers/server.ts";
import { startRedis } from "../servers/start.ts";
import { type StoreSubject, storeContract } from "./store.contract.ts";

const QUIET = { write: () => undefined };
let server: RunningServer;
let subjects = 0;

beforeAll(async () => {
  server = await startRedis({ appendonly: true, appendfsync: "always" });
});
afterAll(() => server.stop());

storeContract("redis", openSubject);

/** Each subject has keys of its own on the one server; reopening it is kill -9 and a new start of that server. */
async function openSubject(): Promise<StoreSubject> {
  subjects += 1;
  const prefix = `test-${subjects}:`;
  const open = async (): Promise<{ store: RedisStore; connection: RedisConnection }> => {
    const connection = await connectRedis(server.url, { log: QUIET, prefix });
    return { store: new RedisStore(connection.pipe, prefix), connection };
  };
  let opened = await open();
  return {
    store: opened.store,
    run: (promise) => promise,
    reopen: async () => {
      await opened.connection.close();
      await server.restart();
      opened = await open();
      return opened.store;
    },
    close: () => opened.connection.close(),
  };
}
