import { afterEach, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "./open.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

test("locks are shown with their holder and their waiters, to keys of all tenants that may do anything", async () => {
  gateway = await openTestGateway();
  const ask = { key: "run:1", org: "acme", ttlMs: 60_000, owner: "one" };
  const held = await gateway.world.locks.acquire({ ...ask, waitMs: 0 });
  const waiting = gateway.world.locks.acquire({ ...ask, waitMs: 60_000, owner: "two" });
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
