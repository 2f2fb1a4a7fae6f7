import { request } from "node:http";
import { connect } from "node:net";
import { Type } from "typebox";
import { afterEach, describe, expect, test } from "vitest";
import { ConnectionLimiter, TokenBuckets } from "../../../src/gateway/auth/limits.ts";
import { ok, type Route } from "../../../src/gateway/route.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

type Payload = Readonly<Record<string, unknown>>;

describe("token bucket", () => {
  const rate = { perSecond: 10, burst: 20 };

  test("allows a burst, refills over time, and never exceeds its capacity", () => {
    const buckets = new TokenBuckets();
    const taken = (nowMs: number, tries: number) =>
      Array.from({ length: tries }, () => buckets.take("a", nowMs, rate)).filter(Boolean).length;
    expect(taken(0, 50)).toBe(20);
    expect(taken(500, 50)).toBe(5);
    expect(taken(100_000, 50)).toBe(20);
    // A clock that moves backwards does not change the tokens.
    expect(taken(0, 50)).toBe(0);
    expect(taken(1_000, 50)).toBe(10);
  });

  test("is separate for each caller; the oldest is evicted", () => {
    const buckets = new TokenBuckets();
    for (let at = 0; at < 20; at++) buckets.take("a", 0, rate);
    expect(buckets.take("a", 0, rate)).toBe(false);
    expect(buckets.take("b", 0, rate)).toBe(true);
    for (let at = 0; at < 10_001; at++) buckets.take(`other ${at}`, 0, rate);
    expect(buckets.take("a", 0, rate)).toBe(true);
  });
});

test("connection slots are limited per caller, per tenant and in total, and are reusable after release", () => {
  const limiter = new ConnectionLimiter({ perCaller: 2, perTenant: 3, all: 5 });
  const first = limiter.acquire("a", "acme");
  limiter.acquire("a", "acme");
  expect(limiter.acquire("a", "acme")).toEqual({ kind: "full", current: 2, limit: 2 });
  expect(limiter.acquire("b", "acme").kind).toBe("acquired");
  // Keys of one tenant share its limit.
  expect(limiter.acquire("c", "acme")).toEqual({ kind: "full", current: 3, limit: 3 });
  expect(limiter.acquire("d", null).kind).toBe("acquired");
  expect(limiter.acquire("e", null).kind).toBe("acquired");
  expect(limiter.acquire("f", "other")).toEqual({ kind: "full", current: 5, limit: 5 });
  if (first.kind === "acquired") {
    first.release();
    first.release();
  }
  expect(limiter.acquire("c", "acme").kind).toBe("acquired");
  expect(limiter.acquire("c", "acme").kind).toBe("full");
});

describe("gateway limits", () => {
  let gateway: TestGateway;

  afterEach(() => gateway.close());

  const clock = { now: () => 1_700_000_000_000, after: () => () => {} };

  test("the keys of a tenant share its rate limit, without affecting other tenants", async () => {
    gateway = await openTestGateway({ ratePerS: 10, change: () => ({ clock }) });
    const acme = await Promise.all([1, 2, 3].map(() => gateway.keyOf("acme", "viewer")));
    const [other, root] = [await gateway.keyOf("other", "viewer"), await gateway.keyOf("*", "viewer")];
    const tries = acme.flatMap(({ key }) => Array.from({ length: 20 }, () => key));
    const answers = await Promise.all(tries.map((key) => gateway.call("GET", "/api/v1/jobs", { key })));
    const refused = answers.filter((answer) => answer.statusCode === 429);
    expect(refused).toHaveLength(20);
    expect(refused[0]?.json()).toMatchObject({ code: "too_many_requests", limit: 40 });
    expect(refused[0]?.json<Payload>().detail).toContain("per tenant");
    for (const { key } of [other, root]) {
      expect((await gateway.call("GET", "/api/v1/jobs", { key })).statusCode).toBe(200);
    }
  });

  test("a 429 has the limit and a jittered Retry-After (L11, L26)", async () => {
    gateway = await openTestGateway({ ratePerS: 10, change: () => ({ clock }) });
    const answers = await Promise.all(Array.from({ length: 60 }, () => gateway.call("GET", "/api/v1/jobs")));
    const refused = answers.filter((answer) => answer.statusCode === 429);
    expect(refused).toHaveLength(40);
    expect(refused[0]?.json()).toMatchObject({
      code: "too_many_requests",
      status: 429,
      retryable: true,
      current: 20,
      limit: 20,
    });
    const waits = refused.map((answer) => answer.json<{ retry_after_ms: number }>().retry_after_ms);
    expect(new Set(waits).size).toBeGreaterThan(20);
    for (const answer of refused) expect(Number(answer.headers["retry-after"])).toBeGreaterThanOrEqual(1);
    // Health checks are not rate limited.
    expect((await gateway.call("GET", "/healthz")).statusCode).toBe(200);
  });

  test("limits each caller separately", async () => {
    gateway = await openTestGateway({ ratePerS: 1, change: () => ({ clock }) });
    const [one, other] = [await gateway.keyOf("a", "viewer"), await gateway.keyOf("b", "viewer")];
    const status = async (key: string) => (await gateway.call("GET", "/api/v1/jobs", { key })).statusCode;
    expect([await status(one.key), await status(one.key), await status(one.key)]).toEqual([200, 200, 429]);
    expect(await status(other.key)).toBe(200);
  });

  test("rejects oversized bodies, URLs and headers", async () => {
    gateway = await openTestGateway();
    const body = { topic: "demo.echo", input: "x".repeat(70_000) };
    expect((await gateway.call("POST", "/api/v1/jobs", { body })).json()).toMatchObject({ status: 413 });
    const long = await gateway.call("GET", `/api/v1/jobs?cursor=${"x".repeat(9_000)}`);
    expect(long.json()).toMatchObject({ status: 414, code: "url_too_long" });
    const url = new URL(await gateway.server.listen("127.0.0.1", 0));
    const answer = await new Promise<{ status: number; body: string }>((resolve, reject) => {
      const sent = request(
        { host: url.hostname, port: url.port, headers: { "x-big": "x".repeat(20_000) } },
        (response) => {
          let text = "";
          response.on("data", (part: Buffer) => {
            text += part.toString();
          });
          response.on("end", () => resolve({ status: response.statusCode ?? 0, body: text }));
        },
      );
      sent.on("error", reject).end();
    });
    expect(answer.status).toBe(431);
    expect(JSON.parse(answer.body)).toMatchObject({ code: "headers_too_large", retryable: false });
  });

  test("answers malformed HTTP with a problem document", async () => {
    gateway = await openTestGateway();
    const url = new URL(await gateway.server.listen("127.0.0.1", 0));
    const text = await new Promise<string>((resolve, reject) => {
      const socket = connect({ host: url.hostname, port: Number(url.port) }, () => socket.write("nonsense\r\n\r\n"));
      let seen = "";
      socket.on("data", (part) => {
        seen += part.toString();
      });
      socket.on("end", () => resolve(seen)).on("error", reject);
    });
    expect(text).toContain("HTTP/1.1 400");
    expect(text).toContain('"code":"invalid_request"');
  });

  test("authenticates before it reads the body", async () => {
    gateway = await openTestGateway();
    await gateway.call("POST", "/api/v1/keys", { body: { tenant: "*", role: "admin" } });
    const body = { topic: "demo.echo", input: "x".repeat(70_000) };
    expect((await gateway.call("POST", "/api/v1/jobs", { body })).statusCode).toBe(401);
  });

  test("limits long polls, releases slots of disconnected clients, and aborts the rest on stop", async () => {
    const signals: AbortSignal[] = [];
    let entered = () => {};
    const waiting: Route = {
      method: "GET",
      path: "/wait",
      summary: "waits",
      access: "read",
      longLived: true,
      query: Type.Object({}),
      handle: (_, { signal }) =>
        new Promise((resolve) => {
          signals.push(signal);
          signal.addEventListener("abort", () => resolve(ok({ ended: true })));
          entered();
        }),
    };
    gateway = await openTestGateway({ routes: [waiting], ratePerS: 100_000 });
    const url = await gateway.server.listen("127.0.0.1", 0);
    const afterEntering = (count: number) =>
      new Promise<void>((resolve) => {
        entered = () => signals.length === count && resolve();
      });
    const all = afterEntering(1_000);
    const gone = new AbortController();
    const disconnected = fetch(`${url}/wait`, { signal: gone.signal }).catch(() => "gone");
    const others = Array.from({ length: 999 }, () => gateway.app.inject({ url: "/wait" }));
    await all;
    const full = await gateway.app.inject({ url: "/wait" });
    expect(full.json()).toMatchObject({ status: 429, code: "too_many_waiting", current: 1_000, limit: 1_000 });
    const abandoned = new Promise((resolve) => {
      for (const signal of signals) signal.addEventListener("abort", resolve, { once: true });
    });
    gone.abort();
    expect(await disconnected).toBe("gone");
    await abandoned;
    const again = afterEntering(1_001);
    others.push(gateway.app.inject({ url: "/wait" }));
    await again;
    await gateway.server.stop();
    const ends = await Promise.all(others);
    expect(ends.every((answer) => answer.json<Payload>().ended === true)).toBe(true);
  });
});

describe("request ids and traces", () => {
  let gateway: TestGateway;

  afterEach(() => gateway.close());

  const headersOf = async (headers: Readonly<Record<string, string>>) =>
    (await gateway.app.inject({ url: "/api/v1/jobs", headers })).headers;

  test("echoes a valid `traceparent` and `x-request-id`", async () => {
    gateway = await openTestGateway();
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    expect(await headersOf({ traceparent, "x-request-id": "mine-1" })).toMatchObject({
      traceparent,
      "x-request-id": "mine-1",
    });
    const other = await headersOf({ traceparent: "nonsense", "x-request-id": "a b\tc" });
    expect(other.traceparent).toBeUndefined();
    expect(other["x-request-id"]).toMatch(/^[0-9a-z]{26}$/);
    expect(other["cache-control"]).toBe("no-store");
  });

  test("logs the request id and the caller, never the key", async () => {
    const lines: string[] = [];
    const log = {
      write: (level: string, event: string, fields?: object) =>
        void lines.push(JSON.stringify({ level, event, ...fields })),
    };
    gateway = await openTestGateway({ change: () => ({ log }) });
    const { id, key } = await gateway.keyOf("acme", "viewer");
    await gateway.app.inject({ url: "/api/v1/jobs", headers: { "x-api-key": key, "x-request-id": "r1" } });
    await gateway.app.inject({
      url: "/api/v1/jobs?cursor=secret-cursor",
      headers: { authorization: `Bearer ${key}x` },
    });
    expect(lines.find((line) => line.includes('"request":"r1"'))).toContain(`"who":"${id}"`);
    expect(lines.join()).not.toContain(key.split("_")[2]);
    expect(lines.join()).not.toContain("secret-cursor");
  });
});
