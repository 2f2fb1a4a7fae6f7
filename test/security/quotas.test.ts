import { afterEach, expect, test } from "vitest";
import { defaultSettings } from "../../src/config/config.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const topics = (count: number) => Array.from({ length: count }, (_, at) => `demo.t${at}`);

test("the topics in the long polls of a tenant are limited, without affecting other tenants", async () => {
  const settings = defaultSettings();
  gateway = await openTestGateway({
    settings: { ...settings, limits: { ...settings.limits, polledTopicsMax: 100 } },
  });
  const [acme, other, root] = await Promise.all([
    gateway.keyOf("acme", "worker"),
    gateway.keyOf("other", "worker"),
    gateway.keyOf("*", "admin"),
  ]);
  const lease = (key: string, count: number, waitMs: number) => {
    const body = { worker_id: "w", topics: topics(count), wait_ms: waitMs };
    return gateway.call("POST", "/api/v1/worker/lease", { key, body });
  };
  const polls = [lease(acme.key, 64, 30_000)];
  while (gateway.engine.waiters.polledTopicsOf("acme") < 64) await new Promise(setImmediate);
  const refused = await lease(acme.key, 64, 30_000);
  expect(refused.json()).toMatchObject({ status: 429, code: "quota_exceeded", current: 64, limit: 100 });
  expect(Number(refused.headers["retry-after"])).toBeGreaterThanOrEqual(1);
  for (const [key, count] of [
    [acme.key, 36],
    [other.key, 64],
    [root.key, 64],
  ] as const) {
    expect((await lease(key, count, 0)).statusCode).toBe(204);
  }
  await gateway.server.stop();
  await Promise.all(polls);
  expect(gateway.engine.waiters.polledTopicsOf("acme")).toBe(0);
});
