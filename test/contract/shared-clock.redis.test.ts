import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { systemTime } from "../../src/adapters/node/wall-clock.ts";
import { connectRedis, type RedisConnection } from "../../src/adapters/redis/connection.ts";
import { CLOCK } from "../../src/adapters/redis/scripts/clock.ts";
import { SharedClock } from "../../src/adapters/redis/shared-clock.ts";
import { advanceSharedTime } from "../../src/ports/steady-clock.ts";
import type { RunningServer } from "../servers/server.ts";
import { startRedis } from "../servers/start.ts";

const DAY_MS = 25 * 3_600_000;
/** Longer than calls take on a busy machine, shorter than any step. */
const NEAR_MS = 60_000;
let server: RunningServer;
let connection: RedisConnection;

beforeAll(async () => {
  server = await startRedis();
  connection = await connectRedis(server.url, { log: { write: () => undefined } });
});
afterAll(async () => {
  await connection.close();
  await server.stop();
});
beforeEach(() => connection.client.del(key()));

const key = (): string => `${connection.prefix}clock`;
const open = (stepMs = 0): Promise<SharedClock> =>
  SharedClock.open({ ...systemTime, wallMs: () => systemTime.wallMs() + stepMs }, connection.pipe);
const near = (a: number, b: number): boolean => Math.abs(a - b) < NEAR_MS;

/** To the store it looks as if its clock had been set since the last read. */
const stepServer = async (ms: number): Promise<void> => {
  const wallMs = Number(await connection.client.hget(key(), "wall"));
  await connection.client.hset(key(), "wall", String(wallMs - ms));
};

test("processes with different system clocks have the same time", async () => {
  const clocks = await Promise.all([open(), open(DAY_MS), open(-DAY_MS)]);
  for (const clock of clocks) expect(near(clock.now(), Date.now())).toBe(true);
  for (const clock of clocks) clock.close();
});

test.each([DAY_MS, -DAY_MS])("a step of the server's clock by %i ms changes no process, old or new", async (stepMs) => {
  const running = await open();
  await stepServer(stepMs);
  // Waits until the running process has read the time.
  const started = await open();
  expect(near(running.now(), Date.now())).toBe(true);
  expect(near(started.now(), running.now())).toBe(true);
  await running.read();
  expect(near(running.now(), Date.now())).toBe(true);
  for (const clock of [running, started]) clock.close();
});

test.each([DAY_MS, -DAY_MS])(
  "a process that starts after a gap ignores its system clock, %i ms off",
  async (stepMs) => {
    (await open()).close();
    // To the store it looks as if no process had read the time for a while.
    const [at, wall] = (await connection.client.hmget(key(), "at", "wall")).map(Number) as [number, number];
    await connection.client.hset(key(), { at: String(at - 10_000), wall: String(wall - 10_000) });
    const started = await open(stepMs);
    expect(near(started.now(), Date.now())).toBe(true);
    await started.read();
    expect(near(started.now(), Date.now())).toBe(true);
    started.close();
  },
);

test("the time does not go back while no process runs, and blobs expire by the server's clock", async () => {
  const first = await open();
  first.close();
  await connection.client.hset(key(), { at: String(Date.now() + DAY_MS), wall: String(Date.now() + DAY_MS) });
  const next = await open();
  expect(near(next.now(), Date.now() + DAY_MS)).toBe(true);
  expect(near(next.toServerMs(next.now()), Date.now())).toBe(true);
  next.close();
});

test("the lock of a crashed process is not held for the length of a step back of the server's clock", async () => {
  const { client } = connection;
  const clock = await open();
  const [crashed, renewed, queue, waiter] = [
    ...["cordum:run:crashed", "cordum:run:renewed"],
    ...["cordum:lock:queue:cordum:run:crashed", "cordum:lock:waiter:w"],
  ] as const;
  // After the step, keys expire later by its length, unless they were renewed since.
  await client.zadd("cordum:lock:index", 1, crashed, 0, renewed);
  await client.zadd(queue, 1, "w");
  await client.pexpire(queue, DAY_MS + 50_000);
  await client.set(waiter, "process\no\n30000\nowner", "PX", DAY_MS + 5_000);
  await client.set(crashed, "token\n1\nowner", "PX", DAY_MS + 30_000);
  await client.set(renewed, "token\n2\nowner", "PX", 30_000);
  await stepServer(-DAY_MS);
  await clock.read();
  for (const [key, mostMs] of [
    [crashed, 31_000],
    [renewed, 30_000],
    [queue, 51_000],
    [waiter, 6_000],
  ] as const) {
    const leftMs = await client.pttl(key);
    // Absent (-2) if the machine was slow.
    expect([key, leftMs === -2 || (leftMs > 0 && leftMs <= mostMs)]).toEqual([key, true]);
  }
  clock.close();
});

test("the script follows the same rules as the simulated server", async () => {
  const steps = [0, 400, 20_000, DAY_MS, -500, -DAY_MS];
  const owns = [null, 0, 2_000, -2_000, 50_000, -50_000];
  for (const stepMs of steps) {
    for (const ownMs of owns) {
      const [seconds = "0", micros = "0"] = await connection.client.time();
      const wallMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
      const last = { atMs: wallMs - 5_000, wallMs: wallMs - stepMs };
      await connection.client.hset(key(), { at: String(last.atMs), wall: String(last.wallMs) });
      const own = ownMs === null ? null : last.atMs + ownMs;
      const [at, wall] = (await connection.pipe.run(CLOCK, [own === null ? "" : String(own), "1"])) as string[];
      const expected = advanceSharedTime(last, Number(wall), own);
      expect(Number(at)).toBeCloseTo(expected.atMs, 1);
    }
  }
});
