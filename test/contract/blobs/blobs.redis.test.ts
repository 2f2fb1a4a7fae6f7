import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisBlobs } from "../../../src/adapters/redis/blobs.ts";
import { connectRedis, type RedisConnection } from "../../../src/adapters/redis/connection.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";
import { blobsContract } from "./blobs.contract.ts";

const QUIET = { write: () => undefined };
let server: RunningServer;

beforeAll(async () => {
  server = await startRedis({ appendonly: true, appendfsync: "always" });
});
afterAll(() => server.stop());

blobsContract("redis", async () => {
  let connection = await connectRedis(server.url, { log: QUIET });
  await connection.client.flushall();
  return {
    blobs: new RedisBlobs(connection.client),
    run: (promise) => promise,
    now: () => Date.now(),
    // Real time: the clock of the server cannot be controlled.
    pass: (ms) => delay(ms),
    reopen: async () => {
      await connection.close();
      await server.restart();
      connection = await connectRedis(server.url, { log: QUIET });
      return new RedisBlobs(connection.client);
    },
    close: () => connection.close(),
  };
});

describe("blobs on redis", () => {
  let connection: RedisConnection;
  let blobs: RedisBlobs;

  beforeAll(async () => {
    connection = await connectRedis(server.url, { log: QUIET });
    blobs = new RedisBlobs(connection.client);
  });
  afterAll(() => connection.close());

  it("use the keys of the wire protocol, which third-party workers read", async () => {
    await blobs.put("res:job-2", new TextEncoder().encode("done"), Date.now() + 3_600_000);
    expect(await connection.client.get("res:job-2")).toBe("done");
  });

  it("expire on the server", async () => {
    const expiresAtMs = Date.now() + 3_600_000;
    await blobs.put("ctx:job-4", new Uint8Array(3), expiresAtMs);
    expect(await connection.client.pexpiretime("ctx:job-4")).toBe(expiresAtMs);
  });

  it("reject while the server is down", async () => {
    const other = await startRedis();
    const lost = await connectRedis(other.url, { log: QUIET });
    const gone = new RedisBlobs(lost.client);
    await other.kill();
    await expect(gone.get("ctx:job-1")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await expect(gone.put("ctx:job-1", new Uint8Array(1), Date.now() + 1_000)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
    });
    await lost.close();
    await other.stop();
  });
});
