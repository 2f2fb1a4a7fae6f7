import { afterEach, expect, test } from "vitest";
import { withLock } from "../../../src/engine/with-lock.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

test("lists locks with holder and waiters to administrators of tenant `*`", async () => {
  gateway = await openTestGateway();
  const request = { key: "run:1", org: "acme", ttlMs: 60_000, owner: "one" };
  const held = await gateway.world.locks.acquire({ ...request, waitMs: 0 });
  const waiting = gateway.world.locks.acquire({ ...request, waitMs: 60_000, owner: "two" });
  const shown = (await gateway.call("GET", "/api/v1/locks")).json();
  expect(shown).toMatchObject({ items: [{ key: "run:1", holder: "one", waiters: 1 }], next_cursor: null });
  expect(Date.parse(shown.items[0].expires_at)).toBeGreaterThan(0);
  if (held.kind === "held") await held.lease.release();
  const next = await waiting;
  if (next.kind === "held") await next.lease.release();
  expect((await gateway.call("GET", "/api/v1/locks")).json().items).toEqual([]);

  const { key: root } = await gateway.keyOf("*", "admin");
  const { key: own } = await gateway.keyOf("acme", "admin");
  expect((await gateway.call("GET", "/api/v1/locks", { key: root })).statusCode).toBe(200);
  expect((await gateway.call("GET", "/api/v1/locks", { key: own })).statusCode).toBe(403);
  expect((await gateway.call("GET", "/api/v1/locks?limit=0", { key: root })).statusCode).toBe(400);
});

test("orders by waiters, then by busy count, before the limit applies", async () => {
  gateway = await openTestGateway();
  const { locks } = gateway.world;
  const request = (key: string, waitMs = 0) => ({ key, org: "acme", ttlMs: 60_000, waitMs, owner: "one" });
  for (const key of ["a", "b", "c", "d"]) await locks.acquire(request(key));
  const waiting = locks.acquire(request("d", 60_000));
  const busy = (key: string) => withLock(gateway.engine, { ...request(key), path: "job" }, async () => {});
  for (const key of ["c", "b", "c"]) await expect(busy(key)).rejects.toThrow("is held by");
  const { items } = (await gateway.call("GET", "/api/v1/locks?limit=3")).json();
  expect(items).toMatchObject([
    { key: "d", waiters: 1, busy_last_minute: 0 },
    { key: "c", waiters: 0, busy_last_minute: 2 },
    { key: "b", waiters: 0, busy_last_minute: 1 },
  ]);
  void waiting.catch(() => undefined);
});

test("lists a lock that was busy in the last minute and is free now", async () => {
  gateway = await openTestGateway();
  const held = await gateway.world.locks.acquire({ key: "a", org: "acme", ttlMs: 60_000, waitMs: 0, owner: "one" });
  const request = { key: "a", org: "acme", ttlMs: 60_000, waitMs: 0, path: "job" } as const;
  await expect(withLock(gateway.engine, request, async () => {})).rejects.toThrow("is held by");
  if (held.kind === "held") await held.lease.release();
  const { items } = (await gateway.call("GET", "/api/v1/locks")).json();
  expect(items).toEqual([{ key: "a", holder: null, fence: null, expires_at: null, waiters: 0, busy_last_minute: 1 }]);
});
