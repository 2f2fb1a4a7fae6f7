import type { Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CALLS_MAX } from "../../src/adapters/redis/batch.ts";
import { connectRedis, type RedisConnection } from "../../src/adapters/redis/connection.ts";
import { isUnavailable } from "../../src/adapters/redis/errors.ts";
import { RedisStore } from "../../src/adapters/redis/store.ts";
import type { Table } from "../../src/core/model/table.ts";
import type { LogFields, LogLevel } from "../../src/ports/log.ts";
import { NOWHERE, put } from "../../src/ports/store.ts";
import type { RunningServer } from "../servers/server.ts";
import { startRedis } from "../servers/start.ts";

// Round trips, unknown scripts and outages of the connection to Redis.
describe("the connection to redis", () => {
  let server: RunningServer;
  let connection: RedisConnection;
  let store: RedisStore;
  const lines: { level: LogLevel; event: string; fields: LogFields | undefined }[] = [];
  const log = {
    write: (level: LogLevel, event: string, fields?: LogFields) => void lines.push({ level, event, fields }),
  };
  const connect = async (timeoutMs = 5_000): Promise<void> => {
    connection = await connectRedis(server.url, { log, timeoutMs });
    store = new RedisStore(connection);
  };

  beforeEach(async () => {
    lines.length = 0;
    server = await startRedis();
    await connect();
  });
  afterEach(async () => {
    server.resume();
    await connection.close();
    await server.stop();
  });

  it("sends the calls of one tick in few commands", async () => {
    await store.load(DOCS, "warm");
    await store.commit(change("warm", 0));
    await connection.client.config("RESETSTAT");
    const commits = Array.from({ length: CALLS_MAX }, (_, n) => store.commit(change(`d-${n}`, 0)));
    const loads = Array.from({ length: 200 }, (_, n) => store.load(DOCS, `x-${n}`));
    const sent = Array.from({ length: 3 }, (_, n) => store.sent([`m-${n}`]));
    expect((await Promise.all(commits)).every(({ kind }) => kind === "committed")).toBe(true);
    await Promise.all([...loads, ...sent]);
    // One full batch, one batch for `sent`, and one MGET for all loads.
    expect(await callsOf("evalsha")).toBe(2);
    expect(await callsOf("mget")).toBe(1);
  });

  it("limits batches in number and size, and returns each call its own reply", async () => {
    const different = CALLS_MAX + 1;
    const many = Array.from({ length: CALLS_MAX * 2 + 1 }, (_, n) => store.commit(change(`d-${n % different}`, 0)));
    const kinds = (await Promise.all(many)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "committed")).toHaveLength(different);
    expect(kinds.slice(different).every((kind) => kind === "stale")).toBe(true);
    await connection.client.config("RESETSTAT");
    const large = Array.from({ length: 6 }, (_, n) => store.commit(change(`l-${n}`, 0, "x".repeat(400_000))));
    expect((await Promise.all(large)).every(({ kind }) => kind === "committed")).toBe(true);
    expect(await callsOf("evalsha")).toBe(3);
  });

  it("sends a full batch at once, and other batches at the end of the tick", async () => {
    await store.commit(change("warm", 0));
    const written = () => (connection.client.stream as Socket).bytesWritten;
    const before = written();
    const commits = Array.from({ length: CALLS_MAX - 1 }, (_, n) => store.commit(change(`d-${n}`, 0)));
    expect(written()).toBe(before);
    commits.push(store.commit(change("full", 0)));
    const full = written();
    expect(full).toBeGreaterThan(before);
    commits.push(store.commit(change("next", 0)));
    expect(written()).toBe(full);
    expect((await Promise.all(commits)).every(({ kind }) => kind === "committed")).toBe(true);
  });

  it("sends a script again, once, if the server does not know it", async () => {
    expect((await store.commit(change("a", 0))).kind).toBe("committed");
    await connection.client.script("FLUSH");
    const [first, second] = await Promise.all([store.commit(change("b", 0)), store.commit(change("b", 0))]);
    expect([first.kind, second.kind]).toEqual(["committed", "stale"]);
    expect(await store.load(DOCS, "b")).toMatchObject({ version: 1 });
  });

  it("fails calls at once as unavailable while the server is down, and recovers", async () => {
    const lost = once("redis_connection_lost");
    await server.kill();
    await lost;
    for (const call of [store.load(DOCS, "a"), store.commit(change("a", 0)), store.counts("g", 10)]) {
      const error: unknown = await call.then(
        () => null,
        (thrown: unknown) => thrown,
      );
      expect(isUnavailable(error)).toBe(true);
    }
    const reconnected = once("redis_connected");
    await server.restart();
    await reconnected;
    expect((await store.commit(change("a", 0))).kind).toBe("committed");
  });

  it("fails calls to a stalled server after the timeout; they may have been executed once", async () => {
    await connection.close();
    await connect(250);
    expect((await store.commit(change("a", 0))).kind).toBe("committed");
    await server.pause();
    await expect(store.commit(change("a", null))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    server.resume();
    expect(await store.load(DOCS, "a")).toMatchObject({ version: 2 });
  });

  it("fails calls in flight when the connection breaks, and does not resend them", async () => {
    expect((await store.commit(change("a", 0))).kind).toBe("committed");
    await server.pause();
    const inFlight = store.commit(change("a", null));
    // Commands are written at the end of the tick.
    await new Promise((resolve) => setImmediate(resolve));
    connection.client.stream.destroy();
    await expect(inFlight).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    const reconnected = once("redis_connected");
    server.resume();
    await reconnected;
    expect(await store.load(DOCS, "a")).toMatchObject({ version: 2 });
  });

  it("throws errors without payloads", async () => {
    const { client, prefix } = connection;
    await client.set(`${prefix}due`, "not a sorted set");
    const placed = { ...change("broken", 0), puts: [put(DOCS, "broken", null, { text: "secret", isPlaced: true })] };
    const error: unknown = await store.commit(placed).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "STORE_REFUSED" });
    expect(isUnavailable(error)).toBe(false);
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain("secret");
    expect(Object.keys((error as Error).cause as object)).not.toContain("command");
  });

  it("deletes all keys of deleted records, except fences, which expire (L14)", async () => {
    const placed: Doc = { text: "x", isPlaced: true };
    await store.commit({
      ...change("a", 0),
      puts: [put(DOCS, "a", null, placed)],
      guards: [{ kind: "fence", table: "doc", id: "a", fence: 7 }],
    });
    await store.take(DOCS, { queue: "q", limit: 1, nowMs: 0, leaseMs: 1_000 });
    await store.due({ nowMs: 0, untilMs: 10, leaseMs: 1_000, limit: 1 });
    await store.commit({ ...change("a", 0), puts: [put(DOCS, "a", await store.load(DOCS, "a"), null)] });
    const { prefix, guard } = connection;
    const kept = [`${prefix}f:doc/a`, `${prefix}process:${guard.processId}`, `${prefix}schema`];
    expect((await connection.client.keys("*")).sort()).toEqual(kept);
    expect(await connection.client.pttl(`${connection.prefix}f:doc/a`)).toBeGreaterThan(0);
  });

  it("describes the server, and logs settings that risk data loss (L46, L47, L48)", async () => {
    expect(connection.server).toMatchObject({ product: "redis", durability: "none", maxmemoryPolicy: "noeviction" });
    expect(lines.map(({ event }) => event)).toContain("redis_durability_weak");
    expect(lines.map(({ event }) => event)).not.toContain("redis_eviction_enabled");
    await connection.close();
    await server.stop();
    server = await startRedis({ appendonly: true, appendfsync: "always" });
    lines.length = 0;
    await connect();
    await connection.client.config("SET", "maxmemory-policy", "allkeys-lru");
    await connection.close();
    await connect();
    expect(connection.server).toMatchObject({ durability: "always", maxmemoryPolicy: "allkeys-lru" });
    expect(lines.map(({ event }) => event)).toContain("redis_eviction_enabled");
    expect(lines.map(({ event }) => event)).not.toContain("redis_durability_weak");
  });

  it("rejects with the address of an unreachable server, without the password", async () => {
    await server.kill();
    const url = server.url.replace("//", "//user:secret@");
    const error = await connectRedis(url, { log }).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect((error as Error).message).toContain(`127.0.0.1:${server.port}`);
    expect((error as Error).message).not.toContain("secret");
  });

  const callsOf = async (command: string): Promise<number> => {
    const stats = await connection.client.info("commandstats");
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  };

  /** Resolves at the next log event of that name. */
  const once = (event: string): Promise<void> =>
    new Promise((resolve) => {
      const before = lines.length;
      const push = lines.push.bind(lines);
      lines.push = (...added) => {
        const length = push(...added);
        if (lines.slice(before).some((line) => line.event === event)) resolve();
        return length;
      };
    });
});

interface Doc {
  readonly text: string;
  readonly isPlaced?: boolean;
}

const DOCS: Table<Doc> = {
  name: "doc",
  placement: ({ isPlaced }) =>
    isPlaced
      ? {
          lists: [{ name: "all", score: 1 }],
          queue: { name: "q", score: 1 },
          counters: [{ group: "g", name: "n" }],
          dueMs: 5,
        }
      : NOWHERE,
};

const change = (id: string, expect: number | null, text = "text") => ({
  org: "default",
  atMs: 0,
  puts: [{ table: "doc", id, value: { text }, expect, from: NOWHERE, to: NOWHERE }],
  guards: [],
  sends: [],
  watch: [],
});
