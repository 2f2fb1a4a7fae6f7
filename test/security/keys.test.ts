import { afterEach, describe, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const get = (key: string) => gateway.call("GET", "/api/v1/jobs", { key });

describe("invalid keys of an address", () => {
  test.each(["unknown id", "wrong secret", "malformed"])("do not affect a valid key of it: %s", async (kind) => {
    gateway = await openTestGateway();
    const good = await gateway.keyOf("acme", "viewer");
    const bad = {
      "unknown id": (at: number) => `cordum_unknown${at}_${"x".repeat(43)}`,
      "wrong secret": () => `cordum_${good.id}_${"x".repeat(43)}`,
      malformed: () => "nonsense",
    }[kind] as (at: number) => string;
    const statuses = await Promise.all(Array.from({ length: 200 }, async (_, at) => (await get(bad(at))).statusCode));
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(100);
    expect(statuses.every((status) => status === 401 || status === 429)).toBe(true);
    // A key that this process has never seen, while the failures of the address are used up.
    const fresh = await gateway.keyOf("acme", "viewer");
    for (const { key } of [good, fresh]) expect((await get(key)).statusCode).toBe(200);
  });
});

describe("a key does not outlive the key that created it", () => {
  test("neither without an expiry nor with a later one", async () => {
    gateway = await openTestGateway();
    const expiresMs = gateway.world.clock.now() + 60_000;
    const { key } = await gateway.keyOf("acme", "admin", expiresMs);
    const create = (body: object) => gateway.call("POST", "/api/v1/keys", { key, body: { role: "viewer", ...body } });
    expect((await create({})).json()).toMatchObject({ expires_at: new Date(expiresMs).toISOString() });
    expect((await create({ expires_in_ms: 120_000 })).json()).toMatchObject({ status: 400 });
    const shorter = Date.parse((await create({ expires_in_ms: 1_000 })).json<{ expires_at: string }>().expires_at);
    expect(shorter).toBeLessThan(expiresMs);
  });

  test("a revoked key cannot create keys, although it is still cached", async () => {
    gateway = await openTestGateway();
    const [root, admin] = [await gateway.keyOf("*", "admin"), await gateway.keyOf("acme", "admin")];
    expect((await get(admin.key)).statusCode).toBe(200);
    const other = await openOther(gateway);
    await other.inject({ method: "DELETE", url: `/api/v1/keys/${admin.id}`, headers: { "x-api-key": root.key } });
    const created = await gateway.call("POST", "/api/v1/keys", { key: admin.key, body: { role: "viewer" } });
    expect(created.json()).toMatchObject({ status: 401, code: "key_revoked" });
    await other.close();
  });
});

/** Another process of the same store. */
async function openOther({ engine }: TestGateway) {
  const { openGateway } = await import("../../src/gateway/server.ts");
  const { TEST_LIMITS } = await import("../gateway/test-gateway.ts");
  const parts = { engine, sweeper: { sweptMs: () => 0 }, metrics: {}, info: {} };
  return openGateway(parts as unknown as Parameters<typeof openGateway>[0], TEST_LIMITS).app;
}
