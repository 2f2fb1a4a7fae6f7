// Visibility of shared state for keys of one tenant.
import { afterEach, describe, expect, test } from "vitest";
import { defaultSettings } from "../../src/config/config.ts";
import { DEAD_LETTERS, type DeadLetter } from "../../src/core/model/dead-letter.ts";
import { deliverTo } from "../../src/engine/delivery/deliver-message.ts";
import { put } from "../../src/ports/store.ts";
import { SUBMIT } from "../../src/protocol/subjects.ts";
import { openTestGateway, type TestGateway } from "./test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Payload = Readonly<Record<string, unknown>>;

const get = async (url: string, key?: string) => (await gateway.call("GET", url, { key })).json<Payload>();

async function submit(key: string, body: object): Promise<string> {
  return (await gateway.call("POST", "/api/v1/jobs", { key, body })).json<{ job_id: string }>().job_id;
}

/** Tenant `acme` with a worker, tenant `other`, and an operator. */
async function openWithWorker() {
  const redis = {
    product: "redis",
    version: "7",
    durability: "always",
    maxmemory_policy: "noeviction",
    went_back_at: null,
  };
  const servers = { nats: { version: "2.10" }, redis };
  const info = { servers, safety_address: "10.0.0.7:50051", warnings: ["redis://10.0.0.8 evicts"] };
  gateway = await openTestGateway({ info });
  const { key: root } = await gateway.keyOf("*", "admin");
  const { key: acme } = await gateway.keyOf("acme", "admin");
  const { key: other } = await gateway.keyOf("other", "submitter");
  const body = { worker_id: "acme-worker", topics: ["b.b"], pool: "acme-pool" };
  await gateway.call("POST", "/api/v1/worker/lease", { key: acme, body });
  return { root, acme, other };
}

describe("workers of another tenant", () => {
  test("hides their pools and their number", async () => {
    const { root, acme, other } = await openWithWorker();
    const pools = async (key: string) =>
      (await get("/api/v1/pools", key)).items as readonly { name: string; workers: number }[];
    for (const key of [root, acme]) expect(await pools(key)).toMatchObject([{ name: "acme-pool", workers: 1 }]);
    expect(await pools(other)).toEqual([]);
    // The record of a drained pool is hidden, too.
    await gateway.call("POST", "/api/v1/pools/acme-pool/drain", { key: root });
    expect(await pools(other)).toEqual([]);
    expect(await pools(acme)).toMatchObject([{ name: "acme-pool", draining: true }]);
    const workers = async (key: string) => (await get("/api/v1/status", key)).workers;
    expect(await workers(acme)).toEqual({ total: 1, leaving: 0 });
    expect(await workers(other)).toEqual({ total: 0, leaving: 0 });
  });

  test("hides their jobs in explanations", async () => {
    const { root, acme, other } = await openWithWorker();
    for (let at = 0; at < 3; at++) await submit(acme, { topic: "b.b" });
    const id = await submit(other, { topic: "b.b" });
    const explain = async (key: string, tenant?: string) =>
      (await gateway.call("GET", `/api/v1/jobs/${id}/explain`, { key, tenant })).json<{ facts: Payload }>();
    const seen = await explain(other);
    expect(seen.facts).toMatchObject({ backlog: { topic: null }, workers: { serving: 0, free: 0 } });
    expect(Object.keys(seen.facts.window as object)).toEqual(["full"]);
    expect(JSON.stringify(seen)).not.toContain("acme");
    const whole = await explain(root, "other");
    expect(whole.facts).toMatchObject({ backlog: { topic: expect.any(Number) }, window: { max: expect.any(Number) } });
  });
});

describe("status", () => {
  test("shows servers and process figures only to keys of `*`, also when they name a tenant", async () => {
    const { root, other } = await openWithWorker();
    const reason = "the kernel at 10.0.0.7:50051 gave no response";
    gateway.engine.safety.breaker = { kind: "open", untilMs: Number.MAX_SAFE_INTEGER, openings: 1, reason };
    const seen = await get("/api/v1/status", other);
    expect(seen).toMatchObject({ input_fail_open_total: null, lock_busy_retry_count: null, warnings: [] });
    expect(seen).toMatchObject({ job_result_latency_ms_p95: null, durability: { profile: "test" } });
    expect(seen.safety).toMatchObject({ breaker: "open" });
    expect(JSON.stringify(seen)).not.toMatch(/10\.0\.0|redis|nats/);
    const whole = (await gateway.call("GET", "/api/v1/status", { key: root, tenant: "other" })).json<Payload>();
    expect(whole).toMatchObject({ input_fail_open_total: 0, safety_address: "10.0.0.7:50051" });
    expect(whole.safety).toMatchObject({ breaker_reason: reason });
  });

  test("counts correctly with more tenants than a listing returns", async () => {
    gateway = await openTestGateway();
    const { key } = await gateway.keyOf("zz-last", "viewer");
    const orgs = [...Array.from({ length: 1_100 }, (_, at) => `a${at}`), "zz-last"];
    const nowMs = gateway.world.clock.now();
    const source = { kind: "message", subject: "s", messageId: "m", deliveries: 1, base64: "" } as const;
    const deadLetterOf = (org: string): DeadLetter => ({
      id: org,
      org,
      createdMs: nowMs,
      dueMs: nowMs + 60_000,
      reason: "budget",
      error: { name: "Error", message: "no" },
      source,
      history: [],
    });
    const change = { org: "a0", atMs: nowMs, guards: [], sends: [], watch: [] };
    const puts = orgs.map((org) => put(DEAD_LETTERS, org, null, deadLetterOf(org)));
    await gateway.world.store.commit({ ...change, puts });
    expect(await get("/api/v1/status", key)).toMatchObject({ tenant: "zz-last", dead_letters: 1 });
  });
});

test("shows undecodable messages only to keys of `*`", async () => {
  gateway = await openTestGateway();
  const root = await gateway.keyOf("*", "operator");
  const tenant = await gateway.keyOf("default", "operator");
  const messageHandler = { name: "test", about: () => "", handle: async () => {} };
  const content = { kind: "undecodable", bytes: new Uint8Array([255]), error: "not a packet" } as const;
  await deliverTo(gateway.engine, messageHandler)({ id: "m1", subject: SUBMIT, attempt: 9, content });
  const id = `${SUBMIT}/m1`;
  const list = async (key: string) => (await get("/api/v1/dlq", key)).items;
  const call = async (method: "GET" | "POST" | "DELETE", key: string, action = "") =>
    (await gateway.call(method, `/api/v1/dlq/${encodeURIComponent(id)}${action}`, { key })).json<Payload>();
  expect(await list(tenant.key)).toEqual([]);
  for (const [method, action] of [
    ["GET", ""],
    ["POST", "/retry"],
    ["DELETE", ""],
  ] as const) {
    expect(await call(method, tenant.key, action)).toMatchObject({ code: "dead_letter_not_found" });
  }
  expect(await list(root.key)).toMatchObject([{ id, tenant_id: "*" }]);
  expect(await call("GET", root.key)).toMatchObject({ id, base64: "/w==" });
  expect(await call("POST", root.key, "/retry")).toMatchObject({ code: "unreadable" });
  expect(await call("DELETE", root.key)).toMatchObject({ dropped: true });
});

describe("payload by pointer", () => {
  const input = { card: "4111", password: "hunter22", text: "hello" };

  test("is redacted for readers and raw for workers", async () => {
    gateway = await openTestGateway({ settings: { ...defaultSettings(), redaction: { paths: ["input.card"] } } });
    const [submitter, viewer, worker] = [
      await gateway.keyOf("acme", "submitter"),
      await gateway.keyOf("acme", "viewer"),
      await gateway.keyOf("acme", "worker"),
    ];
    const id = await submit(submitter.key, { topic: "x.y", input });
    for (const { key } of [submitter, viewer]) {
      const seen = await get(`/api/v1/memory?ptr=ctx:${id}`, key);
      expect(seen).toMatchObject({ json: { card: "[redacted]", password: "[redacted]", text: "hello" } });
      expect(seen).not.toHaveProperty("base64");
      expect(JSON.stringify(seen)).not.toMatch(/4111|hunter22/);
    }
    const raw = await get(`/api/v1/memory?ptr=ctx:${id}`, worker.key);
    expect(raw).toMatchObject({ json: input, base64: Buffer.from(JSON.stringify(input)).toString("base64") });
    const other = await gateway.keyOf("other", "worker");
    expect(await get(`/api/v1/memory?ptr=ctx:${id}`, other.key)).toMatchObject({ code: "memory_not_found" });
  });
});
