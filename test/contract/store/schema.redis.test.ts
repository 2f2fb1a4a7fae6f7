import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { cryptoRandom } from "../../../src/adapters/node/crypto-random.ts";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { RedisBlobs } from "../../../src/adapters/redis/blobs.ts";
import { connectRedis, type RedisConnection } from "../../../src/adapters/redis/connection.ts";
import { RedisLocks } from "../../../src/adapters/redis/locks.ts";
import { RedisStore } from "../../../src/adapters/redis/store.ts";
import type { Table } from "../../../src/core/model/table.ts";
import type { LogFields, LogLevel } from "../../../src/ports/log.ts";
import { type Change, put } from "../../../src/ports/store.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startRedis } from "../../servers/start.ts";

let server: RunningServer;
let connection: RedisConnection;
let store: RedisStore;
let operator: Redis;
let lines: { readonly event: string; readonly fields: LogFields | undefined }[];
let waiters: { readonly event: string; readonly resolve: () => void }[];
let wentBack: string[];

const log = {
  write(_level: LogLevel, event: string, fields?: LogFields): void {
    lines.push({ event, fields });
    for (const waiter of waiters.filter((one) => one.event === event)) waiter.resolve();
  },
};
/** Resolves at the next log event of that name. */
const once = (event: string): Promise<void> => new Promise((resolve) => waiters.push({ event, resolve }));
const connect = () => connectRedis(server.url, { log, onWentBack: (detail) => void wentBack.push(detail) });

beforeEach(async () => {
  [lines, waiters, wentBack] = [[], [], []];
  server = await startRedis();
  operator = new Redis(server.url, { lazyConnect: true });
  operator.on("error", () => undefined);
  await operator.connect();
  connection = await connect();
  store = new RedisStore(connection);
});
afterEach(async () => {
  operator.disconnect();
  await connection.close();
  await server.stop();
});

describe("the schema of the data in redis", () => {
  it("is written to a store without one, and accepted afterwards", async () => {
    expect(await operator.get("cordum:schema")).toBe("2");
    await operator.del("cordum:schema");
    const second = await connect();
    expect(await operator.get("cordum:schema")).toBe("2");
    await second.close();
  });

  it("1 is migrated: its records are read, and get a checksum with the next write", async () => {
    await operator.set("cordum:schema", "1");
    await operator.set("cordum:r:doc/a", '{"text":"old"}\n1 5 1\n{"s":{"text":"newer"}}\n2 5 1');
    const second = await connect();
    expect(await operator.get("cordum:schema")).toBe("2");
    const migrated = new RedisStore(second);
    const found = await migrated.load(DOCS, "a");
    expect(found).toMatchObject({ version: 2, value: { text: "newer" } });
    const puts = [put(DOCS, "a", found, { text: "newest" })];
    expect(await migrated.commit({ ...change("a"), puts })).toMatchObject({ kind: "committed" });
    expect(await operator.get("cordum:r:doc/a")).toMatch(/\n3 5 1 #[0-9a-f]+$/);
    expect(await migrated.load(DOCS, "a")).toMatchObject({ version: 3, value: { text: "newest" } });
    await second.close();
  });

  it.each(["3", "0", "1.5", "next"])(
    "`%s` is refused at the start, with the versions and the next step",
    async (schema) => {
      await operator.set("cordum:schema", schema);
      const error = await connect().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "STORE_REFUSED" });
      expect(String(error)).toMatch(
        new RegExp(`127.0.0.1:${server.port}.*schema \`${schema}\`.*uses schema 2: (upgrade|start|restore)`),
      );
      expect(await operator.get("cordum:schema")).toBe(schema);
    },
  );

  it("of a newer process stops every write of a running older one, without a reconnect", async () => {
    await store.commit(change("a"));
    const locks = await RedisLocks.open(connection, wallClock, cryptoRandom(wallClock));
    const writes: Record<string, () => Promise<unknown>> = {
      commit: () => store.commit(change("b")),
      sent: () => store.sent(["m"]),
      take: () => store.take(DOCS, { queue: "q", limit: 1, nowMs: 0, leaseMs: 1_000 }),
      untake: () => store.untake(DOCS, "q", ["a"]),
      due: () => store.due({ nowMs: 0, untilMs: 10, leaseMs: 1_000, limit: 1 }),
      recount: () => store.recount({ group: "g", name: "n" }, "doc", []),
      acquire: () => locks.acquire({ key: "cordum:l", org: "o", owner: "w", ttlMs: 1_000, waitMs: 0 }),
    };
    for (const [name, write] of Object.entries(writes)) {
      await operator.set("cordum:schema", "3");
      const before = await contents();
      // Sent together with the check of the first refusal: only the script itself can refuse these.
      const results = await Promise.allSettled([write(), write()]);
      expect(await contents(), name).toEqual(before);
      for (const result of results) {
        expect(result, name).toMatchObject({ status: "rejected", reason: { code: "STORE_UNAVAILABLE" } });
      }
      await operator.set("cordum:schema", "2");
      await connection.guard.recheck();
    }
    await locks.close();
  });

  it("of a newer process stops every command of a running older one", async () => {
    const noticed = once("redis_schema_differs");
    await operator.set("cordum:schema", "3");
    await noticed;
    const blobs = new RedisBlobs(connection.client);
    const calls = [store.load(DOCS, "a"), store.commit(change("a")), store.total("t"), blobs.get("ctx:a")];
    for (const result of await Promise.allSettled(calls)) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "STORE_UNAVAILABLE" } });
      expect(String((result as PromiseRejectedResult).reason)).toContain("upgrade this process");
    }
  });

  it("is checked on every reconnect before any other command", async () => {
    await store.commit(change("a"));
    await operator.set("cordum:schema", "3");
    const noticed = once("redis_schema_differs");
    connection.client.stream.destroy();
    // Commands are tried during the whole reconnect.
    let isNoticed = false;
    void noticed.then(() => {
      isNoticed = true;
    });
    while (!isNoticed) {
      await expect(store.load(DOCS, "a")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    }
    await expect(store.commit(change("b"))).rejects.toThrow("upgrade this process");
  });
});

describe("a record that cannot be read", () => {
  const KEY = "cordum:r:doc/a";
  const whole = '{"text":"secret"}\n1 5 1';
  const damages: Record<string, () => Promise<unknown>> = {
    "another type": () => operator.hset(KEY, "text", "x"),
    "an empty text": () => operator.set(KEY, ""),
    "a missing last line": () => operator.set(KEY, '{"text":"secret"}'),
    "a truncated last line": () => operator.set(KEY, '{"text":"secret"}\n1 5'),
    "a last line with another format": () => operator.set(KEY, '{"text":"secret"}\nv1;5;1'),
    "truncated JSON": () => operator.set(KEY, '{"text":"sec\n1 5 1'),
    "a missing patch": () => operator.set(KEY, `${whole}\n{"s":{"n":3}}\n3 5 1`),
    "a patch without its base": () => operator.set(KEY, '\n{"s":{"n":3}}\n3 5 1'),
    "a patch on another value": () => operator.set(KEY, '[]\n1 5 1\n{"p":{"list":[1]}}\n2 5 1'),
    "a patch of an unknown version": () => operator.set(KEY, `${whole}\n{"x":{"n":3}}\n2 5 1`),
  };
  const cases = Object.entries(damages);

  beforeEach(async () => {
    await store.commit(change("a"));
    await store.commit(change("b"));
    await operator.del(KEY);
  });

  it.each(cases)("with %s is an error of load and list, without its content", async (_, damage) => {
    await damage();
    const reads = [store.load(DOCS, "a"), store.list(DOCS, { index: "all", limit: 10 })];
    for (const read of await Promise.allSettled<unknown>(reads)) {
      const message = expect.stringContaining(KEY);
      expect(read).toMatchObject({ status: "rejected", reason: { code: "STORE_REFUSED", message } });
      expect(String((read as PromiseRejectedResult).reason)).not.toContain("sec");
    }
    expect(await store.load(DOCS, "b")).toMatchObject({ version: 1 });
  });

  it.each(cases)("with %s is not created again; other changes of the batch are committed", async (_, damage) => {
    await damage();
    const stored = await contents();
    const absent: Change = { ...change("c"), guards: [{ kind: "absent", table: "doc", id: "a" }] };
    const [again, guarded, other] = await Promise.allSettled([
      store.commit(change("a")),
      store.commit(absent),
      store.commit(change("d")),
    ]);
    for (const result of [again, guarded]) expect(result).not.toMatchObject({ value: { kind: "committed" } });
    expect(other).toMatchObject({ value: { kind: "committed" } });
    expect((await contents())[KEY]).toEqual(stored[KEY]);
  });

  it.each(cases)("with %s is logged by take and due, which return the others", async (_, damage) => {
    await damage();
    for (const nowMs of [10, 10_000]) {
      lines = [];
      const taken = await store.take(DOCS, { queue: "q", limit: 10, nowMs, leaseMs: 1_000 });
      const due = await store.due({ nowMs, untilMs: nowMs, leaseMs: 1_000, limit: 10 });
      expect([...taken, ...due].map(({ id }) => id)).toEqual(["b", "b"]);
      expect(lines.filter(({ event }) => event === "record_unreadable")).toHaveLength(2);
    }
  });
});

describe("a flipped bit in a record", () => {
  it("is found by every read, whatever it changed", async () => {
    const doc = { text: "a text that is long enough for a patch: ".repeat(3), list: [1, "ä"] };
    await store.commit({ ...change("a"), puts: [put(DOCS, "a", null, doc)] });
    for (let version = 2; version < 5; version += 1) {
      const found = await store.load(DOCS, "a");
      await store.commit({ ...change("a"), puts: [put(DOCS, "a", found, { ...doc, list: [version, "ö"] })] });
    }
    // A version that only the server knows.
    await store.commit({ ...change("b"), puts: [{ ...put(DOCS, "b", null, doc), expect: null }] });
    for (const id of ["a", "b"]) {
      const key = `cordum:r:doc/${id}`;
      const whole = (await operator.getBuffer(key))!;
      const expected = await store.load(DOCS, id);
      for (let bit = 0; bit < 8 * whole.length; bit += 1) {
        const bytes = Buffer.from(whole);
        bytes[bit >> 3]! ^= 1 << (bit & 7);
        await operator.set(key, bytes);
        const found = await store.load(DOCS, id).catch(() => null);
        // Only a version that the server chose is not covered.
        if (found !== null) expect([id, bit, found.value]).toEqual(["b", bit, expected?.value]);
      }
      await operator.set(key, whole);
      // The record of another id.
      await operator.rename(key, "cordum:r:doc/c");
      await expect(store.load(DOCS, "c")).rejects.toThrow("does not match its checksum");
    }
  });
});

describe("a store that went back in time", () => {
  it("is reported after a reconnect: an older snapshot lacks the last commit of this process", async () => {
    await store.commit(change("a"));
    await operator.save();
    await store.commit(change("b"));
    const noticed = once("redis_went_back");
    await server.restart();
    await noticed;
    expect(wentBack).toHaveLength(1);
    expect(wentBack[0]).toMatch(new RegExp(`127.0.0.1:${server.port}.*went back in time`));
    expect(connection.guard.wentBackAt).not.toBeNull();
    expect(await store.load(DOCS, "b")).toBeNull();
    expect(await store.commit(change("b"))).toMatchObject({ kind: "committed" });
  });

  it("is reported although another process has committed more since", async () => {
    await operator.save();
    await store.commit(change("b"));
    const other = await connect();
    const noticed = once("redis_went_back");
    await server.restart();
    const others = new RedisStore(other);
    for (let n = 0; n < 5; n += 1) await others.commit(change(`o-${n}`)).catch(() => undefined);
    await noticed;
    await other.close();
  });

  it("is reported without a reconnect", async () => {
    await store.commit(change("a"));
    const noticed = once("redis_went_back");
    await operator.flushall();
    await noticed;
    expect(await store.commit(change("a"))).toMatchObject({ kind: "committed" });
  });

  it("is not reported when replies of commits and checks arrive together", async () => {
    const { client, guard } = connection;
    await store.commit(change("a"));
    // The first commit is sent again with the source of its script, and its reply has a longer way to the caller.
    await operator.script("FLUSH");
    client.stream.once("data", () => client.stream.pause());
    const calls: Promise<unknown>[] = [store.commit(change("b"))];
    while ((await operator.exists("cordum:r:doc/b")) === 0);
    for (let n = 0; n < 5; n += 1) {
      calls.push(guard.recheck(), store.commit(change(`c-${n}`)));
      // The server has answered; the socket keeps the replies.
      while ((await operator.exists(`cordum:r:doc/c-${n}`)) === 0);
    }
    client.stream.resume();
    await Promise.all(calls);
    expect(wentBack).toEqual([]);
  });

  it("is reported once, although many commands are under way", async () => {
    for (let n = 0; n < 5; n += 1) await store.commit(change(`a-${n}`));
    const { client, guard } = connection;
    client.stream.pause();
    await operator.flushall();
    await operator.set("cordum:schema", "2");
    const calls = [guard.recheck(), guard.recheck(), store.commit(change("b"))];
    await new Promise<void>((resolve) => setImmediate(resolve));
    calls.push(store.commit(change("c")));
    client.stream.resume();
    await Promise.all(calls);
    expect(wentBack).toHaveLength(1);
    await guard.recheck();
    await store.commit(change("d"));
    expect(wentBack).toHaveLength(1);
  });

  it("is not reported after a restart that kept everything", async () => {
    for (let n = 0; n < 3; n += 1) await store.commit(change(`a-${n}`));
    await operator.save();
    const reconnected = once("redis_connected");
    await server.restart();
    await reconnected;
    await store.commit(change("b"));
    expect(wentBack).toEqual([]);
  });
});

/** Keys and values, without those of locks and processes. */
async function contents(): Promise<Readonly<Record<string, unknown>>> {
  const found: Record<string, unknown> = {};
  for (const key of (await operator.keys("cordum:*")).sort()) {
    if (!key.startsWith("cordum:process:")) found[key] = await operator.dumpBuffer(key);
  }
  return found;
}

interface Doc {
  readonly text: string;
  readonly list?: readonly unknown[];
}

const DOCS: Table<Doc> = {
  name: "doc",
  placement: () => ({
    lists: [{ name: "all", score: 1 }],
    queue: { name: "q", score: 1 },
    counters: [],
    dueMs: 5,
  }),
};

/** Creates a record. */
function change(id: string): Change {
  const puts = [put(DOCS, id, null, { text: "text" })];
  return { org: "o", atMs: 1, puts, guards: [], sends: [], watch: [] };
}
