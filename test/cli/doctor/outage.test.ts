// `cordum doctor` while the control plane or its store does not answer.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Finding } from "../../../src/gateway/findings/finding.ts";
import { type FakeGateway, startFake } from "../fake.ts";
import { cordum } from "../run.ts";

let dir: string;
const fakes: FakeGateway[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "cordum-doctor-"));
});

afterEach(() => {
  for (const fake of fakes.splice(0)) fake.close();
  rmSync(dir, { recursive: true, force: true });
});

async function doctor(env: Readonly<Record<string, string>>): Promise<readonly Finding[]> {
  const { out, exitCode } = await cordum(["doctor", "--json"], { CORDUM_DATA_DIR: dir, ...env });
  expect(exitCode).toBe(1);
  return JSON.parse(out).findings;
}

const codes = (found: readonly Finding[]) => found.map(({ level, code }) => `${level} ${code}`);

/** A loopback address on which nothing listens. */
async function freeAddress(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${port}`;
}

/** A gateway whose store is down: every request fails, and `/readyz` has the reason. */
async function withoutStore(reason: string): Promise<{ readonly CORDUM_URL: string }> {
  const fake = await startFake(({ path }) => ({
    status: 503,
    body: path === "/readyz" ? { code: "not_ready", detail: reason } : { code: "store_unavailable", detail: "unknown" },
  }));
  fakes.push(fake);
  return fake.env;
}

test("a control plane that is not running is a danger with the command that starts it", async () => {
  const address = await freeAddress();
  const [found, ...others] = await doctor({ CORDUM_URL: `http://${address}` });
  expect(found).toMatchObject({ level: "danger", code: "unreachable", next: "cordum up" });
  expect(found?.what).toContain(`http://${address}`);
  expect(others).toEqual([]);
});

test.each([
  ["store unavailable: RedisFailure: redis unavailable: not connected", "start the Redis server"],
  ["store unavailable: Error: database or disk is full", "free space on the disk"],
  ["store unavailable: SqliteError: disk I/O error", "present and writable"],
  ["the store has not responded for 2000 ms", "the log of the process"],
])("a store that fails with `%s` has its own fix", async (reason, fix) => {
  const [found] = await doctor(await withoutStore(reason));
  expect(found).toMatchObject({ level: "danger", code: "store_unavailable" });
  expect(found?.what).toContain(reason);
  expect(found?.fix).toContain(fix);
});

test("a background loop that is stuck is not a store failure", async () => {
  expect(codes(await doctor(await withoutStore("the timers loop is late")))).toEqual(["danger not_ready"]);
});

test("names the configured server that does not accept connections, without its credentials", async () => {
  const env = await withoutStore("store unavailable");
  const [redis, nats] = [await freeAddress(), env.CORDUM_URL.replace("http://", "nats://")];
  const found = await doctor({ ...env, CORDUM_REDIS_URL: `redis://u:secret@${redis}`, CORDUM_NATS_URL: nats });
  expect(codes(found)).toEqual(["danger store_unavailable", "danger redis_down"]);
  expect(found[1]).toMatchObject({ next: "cordum config explain redis.url" });
  expect(found[1]?.what).toBe(`the redis server at ${redis} does not accept connections (ECONNREFUSED)`);
  expect(JSON.stringify(found)).not.toContain("secret");
});

test("reports a data directory that is gone, or on a disk that is nearly full", async () => {
  const CORDUM_URL = `http://${await freeAddress()}`;
  const gone = await doctor({ CORDUM_URL, CORDUM_DATA_DIR: join(dir, "gone") });
  expect(codes(gone)).toEqual(["danger unreachable", "caution data_dir_missing"]);
  // No disk has more than 100 % free.
  const low = await doctor({ CORDUM_URL, CORDUM_DIAGNOSIS_DISK_FREE_MIN: "100" });
  expect(codes(low)).toEqual(["danger unreachable", "danger disk_low"]);
  expect(low[1]).toMatchObject({ next: `df -h ${dir}` });
});

test("says nothing about this machine if the control plane is on another", async () => {
  const found = await doctor({ CORDUM_URL: "http://cordum.invalid", CORDUM_DATA_DIR: join(dir, "gone") });
  expect(codes(found)).toEqual(["danger unreachable"]);
});

test("an error of a ready gateway is reported as such", async () => {
  const fake = await startFake(({ path }) => ({
    status: path === "/readyz" ? 200 : 429,
    body: path === "/readyz" ? { ready: true } : { code: "rate_limited", detail: "too many requests" },
  }));
  fakes.push(fake);
  const { exitCode, err } = await cordum(["doctor"], fake.env);
  expect(exitCode).toBe(6);
  expect(err).toContain("too many requests");
});
