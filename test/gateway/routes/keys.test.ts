import { afterEach, describe, expect, test } from "vitest";
import { API_KEYS, KEY_USES, ROLES } from "../../../src/core/model/api-key.ts";
import type { Change } from "../../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Payload = Readonly<Record<string, unknown>>;

const ROOT = { tenant: "*", role: "admin" };
const jobs = (options: Parameters<TestGateway["call"]>[2] = {}) => gateway.call("GET", "/api/v1/jobs", options);

async function make(body: object, key?: string): Promise<{ id: string; key: string; status: number; code?: string }> {
  const response = await gateway.call("POST", "/api/v1/keys", { key, body });
  return { ...response.json(), status: response.statusCode };
}

describe("the first key", () => {
  test("loopback callers are administrators until the first key exists", async () => {
    gateway = await openTestGateway();
    expect((await jobs()).statusCode).toBe(200);
    const { key } = await make(ROOT);
    expect(key).toMatch(/^cordum_[0-9a-z]+_[0-9A-Za-z]{43}$/);
    const without = await jobs();
    expect(without.json()).toMatchObject({ status: 401, code: "key_missing", retryable: false });
    expect(without.headers["www-authenticate"]).toContain("Bearer");
    expect((await jobs({ key })).statusCode).toBe(200);
    const bearer = { authorization: `Bearer ${key}` };
    expect((await gateway.app.inject({ url: "/api/v1/jobs", headers: bearer })).statusCode).toBe(200);
  });

  test("must be a root key", async () => {
    gateway = await openTestGateway();
    for (const body of [
      { tenant: "acme", role: "admin" },
      { tenant: "*", role: "viewer" },
      { ...ROOT, expires_in_ms: 5_000 },
    ]) {
      expect(await make(body)).toMatchObject({ status: 409, code: "first_key" });
    }
    expect((await jobs()).statusCode).toBe(200);
  });

  test("the last root key cannot be revoked", async () => {
    gateway = await openTestGateway();
    const first = await make(ROOT);
    const revoke = (id: string) => gateway.call("DELETE", `/api/v1/keys/${id}`, { key: first.key });
    expect((await revoke(first.id)).json()).toMatchObject({ code: "last_key" });
    const second = await make(ROOT, first.key);
    expect((await revoke(second.id)).json()).toMatchObject({ state: "revoked" });
    expect((await revoke(first.id)).json()).toMatchObject({ code: "last_key" });
  });

  test("remote callers cannot use the start-up token", async () => {
    gateway = await openTestGateway();
    const response = await gateway.app.inject({ url: "/api/v1/jobs", remoteAddress: "10.1.2.3" });
    expect(response.json()).toMatchObject({ status: 401, code: "key_invalid" });
  });

  test("cross-origin requests are rejected while no key exists", async () => {
    gateway = await openTestGateway();
    const send = (headers: Readonly<Record<string, string>>) =>
      gateway.app.inject({ method: "POST", url: "/api/v1/keys", payload: ROOT, headers });
    expect((await send({ origin: "http://evil.example" })).statusCode).toBe(400);
    expect((await send({ origin: "http://localhost:3000", host: "localhost:8081" })).statusCode).toBe(400);
    expect((await send({ "sec-fetch-site": "cross-site" })).statusCode).toBe(400);
    expect((await send({ "x-forwarded-for": "10.1.2.3" })).statusCode).toBe(401);
    expect((await send({ origin: "http://localhost:8081", host: "localhost:8081" })).statusCode).toBe(200);
  });
});

describe("a key", () => {
  test("is returned once; the store has only its hash", async () => {
    gateway = await openTestGateway();
    const { id, key } = await make(ROOT);
    const secret = key.split("_")[2] ?? "";
    const list = (await gateway.call("GET", "/api/v1/keys", { key })).body;
    expect(list).toContain(id);
    expect(list).not.toContain(secret);
    expect(JSON.stringify(await gateway.world.store.load(API_KEYS, id))).not.toContain(secret);
  });

  test("wrong, unknown and malformed keys give the same error", async () => {
    gateway = await openTestGateway();
    const { key, id } = await gateway.keyOf("acme", "viewer");
    const wrong = [`cordum_${id}_${"x".repeat(43)}`, key.replace(id, "unknown"), `${key}x`, "secret", ""];
    const responses = await Promise.all(
      wrong.map((text) => gateway.app.inject({ url: "/api/v1/jobs", headers: { "x-api-key": text } })),
    );
    for (const response of responses) expect(response.json()).toMatchObject({ status: 401, code: "key_invalid" });
    expect(new Set(responses.map((response) => response.json<Payload>().detail)).size).toBe(1);
  });

  test("ends by being revoked, within a second in every process, and by its time", async () => {
    let nowMs = 1_700_000_000_000;
    gateway = await openTestGateway({ change: () => ({ clock: { now: () => nowMs, after: () => () => {} } }) });
    const root = await gateway.keyOf("*", "admin");
    const [viewer, short] = [
      await gateway.keyOf("acme", "viewer"),
      await gateway.keyOf("acme", "viewer", nowMs + 60_000),
    ];
    expect((await jobs({ key: viewer.key })).statusCode).toBe(200);
    expect((await jobs({ key: short.key })).statusCode).toBe(200);
    // Revoked by another process: the cache of this one is valid for a second.
    const found = await gateway.world.store.load(API_KEYS, viewer.id);
    const { put } = await import("../../../src/ports/store.ts");
    const change = { org: "acme", atMs: nowMs, guards: [], sends: [], watch: [] };
    const revoked = found && { ...found.value, revokedMs: nowMs };
    await gateway.world.store.commit({ ...change, puts: [put(API_KEYS, viewer.id, found, revoked)] });
    nowMs += 1_000;
    expect((await jobs({ key: viewer.key })).json()).toMatchObject({ status: 401, code: "key_revoked" });
    nowMs += 60_000;
    expect((await jobs({ key: short.key })).json()).toMatchObject({ status: 401, code: "key_expired" });
    expect((await jobs({ key: root.key })).statusCode).toBe(200);
  });

  test("that is revoked here is refused at once", async () => {
    gateway = await openTestGateway();
    const root = await gateway.keyOf("*", "admin");
    const viewer = await gateway.keyOf("acme", "viewer");
    expect((await jobs({ key: viewer.key })).statusCode).toBe(200);
    const response = await gateway.call("DELETE", `/api/v1/keys/${viewer.id}`, { key: root.key });
    expect(response.json()).toMatchObject({ id: viewer.id, state: "revoked" });
    expect((await jobs({ key: viewer.key })).json()).toMatchObject({ code: "key_revoked" });
  });

  test("is looked up once a second; the rate of invalid keys is limited", async () => {
    let loads = 0;
    let nowMs = 1_700_000_000_000;
    gateway = await openTestGateway({
      change: ({ store, clock }) => ({
        clock: { now: () => nowMs, after: clock.after.bind(clock) },
        store: new Proxy(store, {
          get(target, name) {
            if (name === "load") loads += 1;
            return Reflect.get(target, name).bind(target);
          },
        }),
      }),
    });
    const { key } = await gateway.keyOf("acme", "viewer");
    for (let at = 0; at < 5; at++) expect((await jobs({ key })).statusCode).toBe(200);
    expect(loads).toBe(1);
    const guess = (at: number) => jobs({ key: `cordum_guess${at}_${"x".repeat(43)}` });
    const codes: unknown[] = [];
    for (let at = 0; at < 60; at++) codes.push((await guess(at)).json<Payload>().code);
    expect(codes.slice(0, 50).every((code) => code === "key_invalid")).toBe(true);
    expect(codes.slice(50).every((code) => code === "too_many_requests")).toBe(true);
    // A valid key is not affected by the limit.
    nowMs += 1_000;
    for (let at = 100; at < 110; at++) codes.push((await guess(at)).json<Payload>().code);
    expect(codes.at(-1)).toBe("too_many_requests");
    expect((await jobs({ key })).statusCode).toBe(200);
  });
});

describe("permissions", () => {
  const TRIES = [
    ["read", "GET", "/api/v1/jobs"],
    ["submit", "POST", "/api/v1/jobs"],
    ["admin", "GET", "/api/v1/keys"],
  ] as const;
  const MAY: Readonly<Record<string, readonly string[]>> = {
    admin: ["read", "submit", "admin"],
    operator: ["read", "submit"],
    viewer: ["read"],
    worker: [],
    submitter: ["read", "submit"],
  };

  test("follow from the role", async () => {
    gateway = await openTestGateway();
    for (const role of ROLES) {
      const { key } = await gateway.keyOf("acme", role);
      for (const [access, method, url] of TRIES) {
        const body = method === "POST" ? { topic: "demo.echo" } : undefined;
        const response = await gateway.call(method, url, { key, body });
        const expected = MAY[role]?.includes(access) ? 200 : 403;
        expect({ role, access, status: response.statusCode }).toEqual({ role, access, status: expected });
        if (expected === 403) expect(response.json()).toMatchObject({ code: "forbidden" });
      }
    }
  });

  test("a key acts for its own tenant; a key of `*` for any", async () => {
    gateway = await openTestGateway();
    const [own, any] = [await gateway.keyOf("acme", "viewer"), await gateway.keyOf("*", "viewer")];
    const statuses = async (key: string) => [
      (await jobs({ key })).statusCode,
      (await jobs({ key, tenant: "acme" })).statusCode,
      (await jobs({ key, tenant: "other" })).json<Payload>().code ?? 200,
    ];
    expect(await statuses(own.key)).toEqual([200, 200, "tenant_forbidden"]);
    expect(await statuses(any.key)).toEqual([200, 200, 200]);
    const both = { "x-api-key": any.key, "x-tenant-id": "a", "x-cordum-tenant": "b" };
    expect((await gateway.app.inject({ url: "/api/v1/jobs", headers: both })).statusCode).toBe(400);
  });

  test("an administrator of a tenant lists and creates keys of that tenant only", async () => {
    gateway = await openTestGateway();
    const root = await gateway.keyOf("*", "admin");
    const admin = await gateway.keyOf("acme", "admin");
    const other = await gateway.keyOf("other", "viewer");
    expect(await make({ role: "viewer" }, admin.key)).toMatchObject({ status: 200, tenant: "acme" });
    expect(await make({ tenant: "other", role: "viewer" }, admin.key)).toMatchObject({ code: "tenant_forbidden" });
    expect(await make({ tenant: "*", role: "viewer" }, admin.key)).toMatchObject({ code: "tenant_forbidden" });
    const listed = (key: string) => gateway.call("GET", "/api/v1/keys", { key });
    const tenants = (await listed(admin.key)).json<{ items: { tenant: string }[] }>().items.map((item) => item.tenant);
    expect(new Set(tenants)).toEqual(new Set(["acme"]));
    expect((await listed(root.key)).body).toContain(other.id);
    const revoke = (id: string) => gateway.call("DELETE", `/api/v1/keys/${id}`, { key: admin.key });
    expect((await revoke(other.id)).json()).toMatchObject({ status: 404, code: "key_not_found" });
    expect((await revoke(root.id)).json()).toMatchObject({ status: 404, code: "key_not_found" });
  });

  test("metrics require a key of `*`; health checks need none", async () => {
    gateway = await openTestGateway();
    expect((await gateway.call("GET", "/metrics")).statusCode).toBe(200);
    const [own, any] = [await gateway.keyOf("acme", "admin"), await gateway.keyOf("*", "viewer")];
    await gateway.call("GET", "/api/v1/jobs", { key: own.key });
    expect((await gateway.call("GET", "/metrics", { key: own.key })).statusCode).toBe(403);
    expect((await gateway.call("GET", "/metrics", { key: any.key })).statusCode).toBe(200);
    for (const url of ["/healthz", "/readyz", "/api/v1/openapi.json"]) {
      expect((await gateway.call("GET", url)).statusCode).toBe(200);
    }
  });
});

test("binds to a non-loopback address only if a key exists", async () => {
  gateway = await openTestGateway();
  await expect(gateway.server.listen("0.0.0.0", 0)).rejects.toThrow("cordum key create");
  await make(ROOT);
  const url = await gateway.server.listen("0.0.0.0", 0);
  const { port } = new URL(url);
  expect((await fetch(`http://127.0.0.1:${port}/api/v1/jobs`)).status).toBe(401);
});

test("records the use of a key at most once a minute, and explains the key", async () => {
  let nowMs = 1_700_000_040_000;
  const uses: string[] = [];
  gateway = await openTestGateway({
    change: ({ clock, store }) => ({
      clock: { now: () => nowMs, after: clock.after.bind(clock) },
      store: new Proxy(store, {
        get(target, name) {
          if (name !== "commit") return Reflect.get(target, name).bind(target);
          return (change: Change) => {
            uses.push(...change.puts.filter(({ table }) => table === KEY_USES.name).map(({ id }) => id));
            return target.commit(change);
          };
        },
      }),
    }),
  });
  const root = await make({ ...ROOT, name: "ops" });
  const ci = await make({ tenant: "acme", role: "submitter", name: "ci", expires_in_ms: 3_600_000 }, root.key);
  const explain = async (id = ci.id) =>
    (await gateway.call("GET", `/api/v1/keys/${id}/explain`, { key: root.key })).json();
  expect(await explain()).toMatchObject({ key: { last_used_at: null, created_by: root.id, created_by_name: "ops" } });
  for (let at = 0; at < 20; at++) await jobs({ key: ci.key });
  nowMs += 59_999;
  await jobs({ key: ci.key });
  expect(uses.filter((id) => id === ci.id)).toHaveLength(1);
  nowMs += 1;
  await jobs({ key: ci.key });
  expect(uses.filter((id) => id === ci.id)).toHaveLength(2);
  expect(await explain()).toMatchObject({
    key: { last_used_at: new Date(nowMs).toISOString() },
    permissions: ["read", "submit"],
    reasons: [
      { reason: "valid for tenant `acme` with role `submitter`", until: new Date(1_700_003_640_000).toISOString() },
      { unblocks: "cordum key create --tenant acme --role submitter" },
      { unblocks: `cordum key revoke ${ci.id}` },
    ],
  });
  expect((await explain(root.id)).reasons.at(-1).reason).toContain("it cannot be revoked");
  const { items } = (await gateway.call("GET", "/api/v1/keys", { key: root.key })).json();
  expect(items.map(({ last_used_at: at }: Payload) => at)).toEqual([expect.any(String), expect.any(String)]);
  await gateway.call("DELETE", `/api/v1/keys/${ci.id}`, { key: root.key });
  expect((await explain()).reasons).toMatchObject([{ reason: expect.stringContaining("revoked at") }]);
  const other = await gateway.keyOf("other", "admin");
  const hidden = await gateway.call("GET", `/api/v1/keys/${ci.id}/explain`, { key: other.key });
  expect(hidden.json()).toMatchObject({ status: 404, code: "key_not_found" });
});

test("audits creation, revocation, use and refusals of keys, with a limit per minute", async () => {
  // A stopped clock: the limit is per minute.
  gateway = await openTestGateway({
    change: ({ clock }) => ({ clock: { now: () => 0, after: clock.after.bind(clock) } }),
  });
  const { chainAll } = await import("../../../src/engine/audit/chain-audit.ts");
  const { AUDIT_PAGES, AUDIT_PENDING_GROUP } = await import("../../../src/core/model/audit.ts");
  const { auditPagesOf } = await import("../../../src/core/model/lists/audit-lists.ts");
  const root = await make(ROOT);
  const viewer = await make({ tenant: "acme", role: "viewer" }, root.key);
  for (let at = 0; at < 5; at++) await jobs({ key: viewer.key });
  for (let at = 0; at < 100; at++) await jobs();
  await gateway.call("DELETE", `/api/v1/keys/${viewer.id}`, { key: root.key });
  await gateway.engine.tasks.close();
  // A concurrent sweep can process part of the entries.
  while ((await gateway.world.store.counts(AUDIT_PENDING_GROUP, 10)).size > 0) await chainAll(gateway.engine);
  const entries = async (org: string) =>
    (await gateway.world.store.list(AUDIT_PAGES, { index: auditPagesOf(org), limit: 10 })).items.flatMap(
      (item) => item.value.entries,
    );
  const [acme, all] = [await entries("acme"), await entries("*")];
  expect(acme.map(({ what, who }) => `${what} by ${who}`)).toEqual([
    `key created by ${root.id}`,
    `key used by ${viewer.id}`,
    `key revoked by ${root.id}`,
  ]);
  expect(all.filter(({ what }) => what === "request refused")).toHaveLength(60);
  expect(JSON.stringify([acme, all])).not.toContain(viewer.key.split("_")[2]);
});

test("records name the keys that made and changed them", async () => {
  gateway = await openTestGateway();
  const { id, key } = await make({ ...ROOT, name: "ops" });
  const call = async (method: "GET" | "POST", path: string, body?: object) =>
    (await gateway.call(method, `/api/v1${path}`, { key, body })).json();
  const first = async (path: string) => (await call("GET", path)).items[0];

  await call("POST", "/workflows", { id: "waits", steps: { wait: { type: "delay", delay_sec: 60 } } });
  const created = { created_by: id, created_by_name: "ops" };
  expect(await call("GET", "/workflows/waits")).toMatchObject(created);
  expect(await first("/workflows/waits/versions")).toMatchObject(created);

  const { run_id: run } = await call("POST", "/workflows/waits/runs", {});
  const submitted = { submitted_by: id, submitted_by_name: "ops" };
  expect(await first("/workflow-runs")).toMatchObject(submitted);
  expect(await call("GET", `/workflow-runs/${run}`)).toMatchObject(submitted);
  expect(await first(`/workflow-runs/${run}/timeline`)).toMatchObject({ who: id, who_name: "ops" });

  await call("POST", "/schedules", { id: "hourly", workflow_id: "waits", cron: "@hourly" });
  expect(await first("/schedules")).toMatchObject(submitted);
  const range = { from: "2026-01-01T00:00:00Z", until: "2026-01-02T00:00:00Z" };
  const { backfill } = await call("POST", "/schedules/hourly/backfill", range);
  expect(backfill).toMatchObject({ started_by: id, started_by_name: "ops" });

  const { job_id: job } = await call("POST", "/jobs", { topic: "demo.none" });
  await call("POST", `/jobs/${job}/cancel`);
  const cancelled = { event: "cancelled", who: id, who_name: "ops", why: "cancelled by ops" };
  expect((await call("GET", `/jobs/${job}`)).history.at(-1)).toMatchObject(cancelled);

  await call("POST", "/kill", { scope: "acme", reason: "test" });
  const engaged = { engaged_by: id, engaged_by_name: "ops" };
  expect(await first("/kill")).toMatchObject(engaged);
  expect((await call("GET", "/status")).kill).toMatchObject([engaged]);
  const { id: lease } = await call("POST", "/failopen", { scope: "acme", reason: "test" });
  await call("POST", `/failopen/${lease}/close`);
  expect(await first("/failopen")).toMatchObject({ approved_by_name: "ops", ended_by: id, ended_by_name: "ops" });

  await gateway.call("POST", "/api/v1/worker/lease", {
    key,
    body: { worker_id: "w", topics: ["demo.none"], pool: "gpu" },
  });
  await call("POST", "/pools/gpu/drain");
  expect(await first("/pools")).toMatchObject({ changed_by: id, changed_by_name: "ops" });
});
