import { afterEach, describe, expect, test } from "vitest";
import { SESSIONS, SESSIONS_PER_KEY_MAX, sessionsOf } from "../../src/core/model/api-key.ts";
import { openGateway } from "../../src/gateway/server.ts";
import { openTestGateway, STARTUP_TOKEN, TEST_LIMITS, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;
let nowMs: number | null = null;

afterEach(async () => {
  nowMs = null;
  await gateway.close();
});

const HOST = "127.0.0.1:8081";
const SAME = { host: HOST, origin: `http://${HOST}`, "sec-fetch-site": "same-origin", "x-cordum-csrf": "1" };
const URL = "/api/v1/session";

async function open(): Promise<void> {
  gateway = await openTestGateway({
    withoutToken: true,
    change: ({ clock }) => ({ clock: { now: () => nowMs ?? clock.now(), after: (ms, fn) => clock.after(ms, fn) } }),
  });
}

const inject = (method: "GET" | "POST" | "DELETE", url: string, headers: Record<string, string>, payload?: object) =>
  gateway.app.inject({ method, url, headers, ...(payload === undefined ? {} : { payload }) });

async function signIn(key: string, headers: Record<string, string> = SAME): Promise<string> {
  const response = await inject("POST", URL, headers, { api_key: key });
  expect(response.statusCode, response.body).toBe(200);
  return String(response.headers["set-cookie"]).split(";")[0] ?? "";
}

const statusOf = async (cookie: string, url = "/api/v1/jobs") =>
  (await inject("GET", url, { host: HOST, cookie })).statusCode;

describe("a session", () => {
  test("has the permissions of its key, and its cookie is hidden from scripts and other sites", async () => {
    await open();
    const { id, key } = await gateway.keyOf("acme", "viewer");
    const response = await inject("POST", URL, { ...SAME, origin: "http://127.0.0.1:8081" }, { api_key: key });
    const cookie = String(response.headers["set-cookie"]);
    expect(cookie).toMatch(/^cordum_session=[0-9A-Za-z]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/);
    expect(response.json()).toMatchObject({ authenticated: true, key_id: id, role: "viewer", tenant: "acme" });
    expect(response.json()).toMatchObject({ permissions: ["read"], needs_key: true });
    expect(response.body).not.toContain(cookie.slice(15, 58));
    const https = await inject("POST", URL, { ...SAME, "x-forwarded-proto": "https" }, { api_key: key });
    expect(String(https.headers["set-cookie"])).toMatch(/; Secure$/);
    const session = cookie.split(";")[0] ?? "";
    expect(await statusOf(session)).toBe(200);
    const submitted = await inject("POST", "/api/v1/jobs", { ...SAME, cookie: session }, { topic: "t" });
    expect(submitted.json()).toMatchObject({ status: 403, code: "forbidden" });
    const other = await inject("GET", "/api/v1/jobs", { host: HOST, cookie: session, "x-tenant-id": "other" });
    expect(other.json()).toMatchObject({ code: "tenant_forbidden" });
  });

  test("stores the hash of its token only", async () => {
    await open();
    const { id, key } = await gateway.keyOf("acme", "viewer");
    const token = (await signIn(key)).split("=")[1] ?? "";
    const { items } = await gateway.world.store.list(SESSIONS, { index: sessionsOf(id), limit: 5 });
    expect(items).toHaveLength(1);
    expect(JSON.stringify(items)).not.toContain(token);
    expect(await statusOf(`cordum_session=${items[0]?.id.slice(0, 43)}`)).toBe(401);
  });

  test("ends when its key is revoked", async () => {
    await open();
    const root = await gateway.keyOf("*", "admin");
    const { id, key } = await gateway.keyOf("acme", "operator");
    const cookie = await signIn(key);
    await inject("DELETE", `/api/v1/keys/${id}`, { "x-api-key": root.key });
    expect(await statusOf(cookie)).toBe(401);
    expect((await inject("GET", URL, { host: HOST, cookie })).json()).toMatchObject({
      authenticated: false,
      role: null,
    });
  });

  test("ends after the idle time, which requests extend, and after the absolute time", async () => {
    await open();
    const { key } = await gateway.keyOf("acme", "viewer");
    const startMs = gateway.world.clock.now();
    nowMs = startMs;
    const [used, unused] = [await signIn(key), await signIn(key)];
    const { idleMs, maxMs } = TEST_LIMITS.session;
    for (let atMs = 0; atMs < maxMs; atMs += idleMs - 1) {
      nowMs = startMs + atMs;
      expect(await statusOf(used), String(atMs)).toBe(200);
    }
    expect(await statusOf(unused)).toBe(401);
    nowMs = startMs + maxMs;
    expect(await statusOf(used)).toBe(401);
  });

  test("is not extended by asking for it", async () => {
    await open();
    const { key } = await gateway.keyOf("acme", "viewer");
    const startMs = gateway.world.clock.now();
    nowMs = startMs;
    const cookie = await signIn(key);
    nowMs = startMs + TEST_LIMITS.session.idleMs / 2;
    expect((await inject("GET", URL, { host: HOST, cookie })).json()).toMatchObject({ authenticated: true });
    nowMs = startMs + TEST_LIMITS.session.idleMs;
    expect(await statusOf(cookie)).toBe(401);
  });

  test("is accepted by every gateway of the store, and ends in each of them", async () => {
    await open();
    const { key } = await gateway.keyOf("acme", "viewer");
    const parts = { engine: gateway.engine, startupToken: null, info: {}, metrics: {}, sweeper: { duties: () => [] } };
    const other = openGateway(parts as unknown as Parameters<typeof openGateway>[0], TEST_LIMITS).app;
    const cookie = await signIn(key);
    const read = () => other.inject({ method: "GET", url: "/api/v1/jobs", headers: { host: HOST, cookie } });
    expect((await read()).statusCode).toBe(200);
    nowMs = gateway.world.clock.now();
    const ended = await inject("DELETE", URL, { ...SAME, cookie });
    expect(String(ended.headers["set-cookie"])).toMatch(/^cordum_session=; .*Max-Age=0/);
    expect(await statusOf(cookie)).toBe(401);
    nowMs += 1_001;
    expect((await read()).statusCode).toBe(401);
    await other.close();
  });

  test("replaces the oldest of a key that has too many", async () => {
    await open();
    const { id, key } = await gateway.keyOf("acme", "viewer");
    const startMs = gateway.world.clock.now();
    const cookies: string[] = [];
    for (let at = 0; at <= SESSIONS_PER_KEY_MAX; at++) {
      nowMs = startMs + at * 1_000;
      cookies.push(await signIn(key));
    }
    expect(await gateway.world.store.count(SESSIONS, { index: sessionsOf(id) })).toBe(SESSIONS_PER_KEY_MAX);
    expect(await statusOf(cookies[0] ?? "")).toBe(401);
    expect(await statusOf(cookies.at(-1) ?? "")).toBe(200);
  });

  test("of the start-up token is void once a key exists", async () => {
    await open();
    const cookie = await signIn(STARTUP_TOKEN);
    expect((await inject("GET", URL, { host: HOST, cookie })).json()).toMatchObject({
      role: "admin",
      needs_key: false,
    });
    expect(await statusOf(cookie)).toBe(200);
    const created = await inject("POST", "/api/v1/keys", { ...SAME, cookie }, { tenant: "*", role: "admin" });
    expect(created.statusCode, created.body).toBe(200);
    expect(await statusOf(cookie)).toBe(401);
  });
});

describe("requests of other web pages with the cookie", () => {
  const FOREIGN: Readonly<Record<string, Record<string, string>>> = {
    "another port of this host": { origin: "http://127.0.0.1:3000", "sec-fetch-site": "same-site" },
    "another site": { origin: "https://evil.example", "sec-fetch-site": "cross-site" },
    "another origin, without fetch metadata": { origin: "http://127.0.0.1:3000" },
    "an opaque origin": { origin: "null" },
  };

  test.each(Object.entries(FOREIGN))("are rejected: %s", async (_, foreign) => {
    await open();
    const { key } = await gateway.keyOf("acme", "operator");
    const cookie = await signIn(key);
    const headers = { host: HOST, cookie, "x-cordum-csrf": "1", ...foreign };
    for (const response of [
      await inject("GET", "/api/v1/jobs", headers),
      await inject("GET", "/api/v1/stream", { ...headers, upgrade: "websocket", connection: "upgrade" }),
      await inject("POST", "/api/v1/jobs", headers, { topic: "t" }),
      await inject("DELETE", URL, headers),
      await inject("POST", URL, { host: HOST, ...foreign }, { api_key: key }),
    ]) {
      expect(response.json()).toMatchObject({ status: 403, code: "cross_origin" });
      expect(response.headers["set-cookie"]).toBeUndefined();
    }
    expect(await statusOf(cookie)).toBe(200);
  });

  test("unsafe requests need a proof of their origin and the header", async () => {
    await open();
    const { key } = await gateway.keyOf("acme", "submitter");
    const cookie = await signIn(key);
    const submit = async (headers: Record<string, string>) =>
      (await inject("POST", "/api/v1/jobs", { host: HOST, cookie, ...headers }, { topic: "t" })).statusCode;
    expect(await submit({ "x-cordum-csrf": "1" })).toBe(403);
    expect(await submit({ origin: SAME.origin })).toBe(403);
    expect(await submit({ "sec-fetch-site": "none", "x-cordum-csrf": "1" })).toBe(403);
    expect(await submit({ origin: SAME.origin, "x-cordum-csrf": "1" })).toBe(200);
    expect(await submit({ "sec-fetch-site": "same-origin", "x-cordum-csrf": "1" })).toBe(200);
  });

  test("a key in the request is used instead of the cookie, without these rules", async () => {
    await open();
    const [viewer, submitter] = [await gateway.keyOf("acme", "viewer"), await gateway.keyOf("acme", "submitter")];
    const cookie = await signIn(viewer.key);
    const headers = { host: HOST, cookie, "x-api-key": submitter.key, origin: "https://elsewhere.example" };
    expect((await inject("POST", "/api/v1/jobs", headers, { topic: "t" })).statusCode).toBe(200);
  });
});

describe("invalid credentials", () => {
  test("open no session, and are limited per address", async () => {
    await open();
    await gateway.keyOf("acme", "viewer");
    const statuses: number[] = [];
    for (let at = 0; at < 60; at++) {
      const bad = at % 2 === 0 ? `cordum_no${at}_${"x".repeat(43)}` : "nonsense";
      const response = await inject("POST", URL, SAME, { api_key: bad });
      expect(response.headers["set-cookie"]).toBeUndefined();
      statuses.push(response.statusCode);
    }
    expect(new Set(statuses)).toEqual(new Set([401, 429]));
    expect(await statusOf(`cordum_session=${"x".repeat(43)}`)).toBe(429);
  });

  test("an expired key opens none, and a session does not outlive the expiry of its key", async () => {
    await open();
    const startMs = gateway.world.clock.now();
    const { key } = await gateway.keyOf("acme", "viewer", startMs + 60_000);
    nowMs = startMs;
    const cookie = await signIn(key);
    nowMs = startMs + 60_000;
    expect(await statusOf(cookie)).toBe(401);
    expect((await inject("POST", URL, SAME, { api_key: key })).json()).toMatchObject({ code: "key_expired" });
  });
});
