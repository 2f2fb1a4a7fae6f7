import { once } from "node:events";
import { request } from "node:http";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { openTestGateway, type TestGateway } from "../../gateway/test-gateway.ts";
import { quotaCases, withQuotas } from "./quotas.ts";

describe("the quotas of a tenant of an embedded control plane", () => {
  let subject: TestGateway;
  beforeAll(async () => {
    subject = await openTestGateway({ settings: withQuotas(defaultSettings()) });
  });
  afterAll(() => subject.close());

  const call = async (method: "GET" | "POST", tenant: string, path: string, body?: object) => {
    const answer = await subject.call(method, `/api/v1${path}`, { tenant, body });
    return { status: answer.statusCode, body: answer.json() };
  };
  quotaCases(() => ({
    engine: subject.engine,
    post: (tenant, path, body) => call("POST", tenant, path, body),
    get: (tenant, path) => call("GET", tenant, path),
  }));
});

let gateway: TestGateway;

afterEach(() => gateway?.close());

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

test("the event streams of a tenant are limited, and a closed one makes room", async () => {
  const settings = defaultSettings();
  gateway = await openTestGateway({ settings: { ...settings, limits: { ...settings.limits, streamsMax: 2 } } });
  const url = await gateway.server.listen("127.0.0.1", 0);
  const [acme, second, other, root] = await Promise.all([
    gateway.keyOf("acme", "viewer"),
    gateway.keyOf("acme", "viewer"),
    gateway.keyOf("other", "viewer"),
    gateway.keyOf("*", "admin"),
  ]);
  const open = async ({ key }: { key: string }) => {
    const sent = request(`${url}/api/v1/stream`, { headers: { "x-api-key": key } }).end();
    const [response] = await once(sent, "response");
    let text = "";
    response.on("data", (chunk: Buffer) => {
      text += chunk;
    });
    response.on("error", () => undefined);
    if (response.statusCode !== 200) await once(response, "end");
    return { status: response.statusCode, text: () => text, close: () => sent.destroy() };
  };
  const [first] = [await open(acme), await open(second)];
  const refused = await open(acme);
  expect(JSON.parse(refused.text())).toMatchObject({
    status: 429,
    code: "quota_exceeded",
    quota: "streams",
    current: 2,
    limit: 2,
  });
  for (const key of [other, root, root, root]) expect((await open(key)).status).toBe(200);
  first?.close();
  for (let status = 429; status !== 200; ) status = (await open(acme)).status;
});
