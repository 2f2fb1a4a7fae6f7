import { request } from "node:http";
import { connect } from "node:net";
import { Type } from "typebox";
import { afterEach, describe, expect, test } from "vitest";
import { Buckets, Places } from "../../../src/gateway/auth/limits.ts";
import { ok, type Route } from "../../../src/gateway/route.ts";
import { openTestGateway, type TestGateway } from "../open.ts";

type Payload = Readonly<Record<string, unknown>>;

describe("a bucket", () => {
  const rate = { perSecond: 10, burst: 20 };

  test("gives a burst, then as much as time puts back, and no more than it holds", () => {
    const buckets = new Buckets();
    const taken = (nowMs: number, tries: number) =>
      Array.from({ length: tries }, () => buckets.take("a", nowMs, rate)).filter(Boolean).length;
    expect(taken(0, 50)).toBe(20);
    expect(taken(500, 50)).toBe(5);
    expect(taken(100_000, 50)).toBe(20);
    // A clock that goes back neither gives nor takes.
    expect(taken(0, 50)).toBe(0);
    expect(taken(1_000, 50)).toBe(10);
  });

  test("is each caller's own, and so many are remembered", () => {
    const buckets = new Buckets();
    for (let at = 0; at < 20; at++) buckets.take("a", 0, rate);
    expect(buckets.take("a", 0, rate)).toBe(false);
    expect(buckets.take("b", 0, rate)).toBe(true);
    for (let at = 0; at < 10_001; at++) buckets.take(`other ${at}`, 0, rate);
    expect(buckets.take("a", 0, rate)).toBe(true);
  });
});

test("places are bounded for each caller, each tenant and for all, and one that was left is free", () => {
  const places = new Places({ perCaller: 2, perTenant: 3, all: 5 });
  const first = places.enter("a", "acme");
  places.enter("a", "acme");
  expect(places.enter("a", "acme")).toEqual({ kind: "full", current: 2, limit: 2 });
  expect(places.enter("b", "acme").kind).toBe("taken");
  // Another key of the same tenant is not another tenant.
  expect(places.enter("c", "acme")).toEqual({ kind: "full", current: 3, limit: 3 });
  expect(places.enter("d", null).kind).toBe("taken");
  expect(places.enter("e", null).kind).toBe("taken");
  expect(places.enter("f", "other")).toEqual({ kind: "full", current: 5, limit: 5 });
  if (first.kind === "taken") {
    first.leave();
    first.leave();
  }
  expect(places.enter("c", "acme").kind).toBe("taken");
  expect(places.enter("c", "acme").kind).toBe("full");
});

describe("the gateway", () => {
  let gateway: TestGateway;

  afterEach(() => gateway.close());

  const clock = { now: () => 1_700_000_000_000, after: () => () => {} };

  test("a tenant with many keys takes no more than its share, and nobody else's", async () => {
    gateway = await openTestGateway({ ratePerS: 10, change: () => ({ clock }) });
    const acme = await Promise.all([1, 2, 3].map(() => gateway.keyOf("acme", "viewer")));
    const [other, root] = [await gateway.keyOf("other", "viewer"), await gateway.keyOf("*", "viewer")];
    const tries = acme.flatMap(({ key }) => Array.from({ length: 20 }, () => key));
    const answers = await Promise.all(tries.map((key) => gateway.call("GET", "/api/v1/jobs", { key })));
    const refused = answers.filter((answer) => answer.statusCode === 429);
    expect(refused).toHaveLength(20);
    expect(refused[0]?.json()).toMatchObject({ code: "too_many_requests", limit: 40 });
    expect(refused[0]?.json<Payload>().detail).toContain("one tenant");
    for (const { key } of [other, root]) {
      expect((await gateway.call("GET", "/api/v1/jobs", { key })).statusCode).toBe(200);
    }
  });

  test("answers 429 with what the limit is and when to come again, spread (L11, L26)", async () => {
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
    // Health is not somebody's request.
    expect((await gateway.call("GET", "/healthz")).statusCode).toBe(200);
  });

  test("counts each caller alone", async () => {
    gateway = await openTestGateway({ ratePerS: 1, change: () => ({ clock }) });
    const [one, other] = [await gateway.keyOf("a", "viewer"), await gateway.keyOf("b", "viewer")];
    const status = async (key: string) => (await gateway.call("GET", "/api/v1/jobs", { key })).statusCode;
    expect([await status(one.key), await status(one.key), await status(one.key)]).toEqual([200, 200, 429]);
    expect(await status(other.key)).toBe(200);
  });

  test("refuses what is too large: bodies, addresses, headers", async () => {
    gateway = await openTestGateway();
    const body = { topic: "demo.echo", input: "x".repeat(70_000) };
    expect((await gateway.call("POST", "/api/v1/jobs", { body })).json()).toMatchObject({ status: 413 });
    const long = await gateway.call("GET", `/api/v1/jobs?cursor=${"x".repeat(9_000)}`);
    expect(long.json()).toMatchObject({ status: 414, code: "url_too_long" });
    const url = new URL(await gateway.server.listen("127.0.0.1", 0));
    const answer = await new Promise<{ status: number; body: string }>((resolve, reject) => {
      const asked = request(
        { host: url.hostname, port: url.port, headers: { "x-big": "x".repeat(20_000) } },
        (response) => {
          let text = "";
          response.on("data", (part: Buffer) => {
            text += part.toString();
          });
          response.on("end", () => resolve({ status: response.statusCode ?? 0, body: text }));
        },
      );
      asked.on("error", reject).end();
    });
    expect(answer.status).toBe(431);
    expect(JSON.parse(answer.body)).toMatchObject({ code: "headers_too_large", retryable: false });
  });

  test("answers in its own form what is no request at all", async () => {
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

  test("reads no body of a stranger", async () => {
    gateway = await openTestGateway();
    await gateway.call("POST", "/api/v1/keys", { body: { tenant: "*", role: "admin" } });
    const body = { topic: "demo.echo", input: "x".repeat(70_000) };
    expect((await gateway.call("POST", "/api/v1/jobs", { body })).statusCode).toBe(401);
  });

  test("bounds those who wait, ends them when it stops, and their places are free when they go", async () => {
    const signals: AbortSignal[] = [];
    let entered = () => {};
    const waiting: Route = {
      method: "GET",
      path: "/wait",
      summary: "waits",
      access: "read",
      long: true,
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
    const someEntered = (count: number) =>
      new Promise<void>((resolve) => {
        entered = () => signals.length === count && resolve();
      });
    const all = someEntered(1_000);
    const gone = new AbortController();
    const leaver = fetch(`${url}/wait`, { signal: gone.signal }).catch(() => "gone");
    const others = Array.from({ length: 999 }, () => gateway.app.inject({ url: "/wait" }));
    await all;
    const full = await gateway.app.inject({ url: "/wait" });
    expect(full.json()).toMatchObject({ status: 429, code: "too_many_waiting", current: 1_000, limit: 1_000 });
    const abandoned = new Promise((resolve) => {
      for (const signal of signals) signal.addEventListener("abort", resolve, { once: true });
    });
    gone.abort();
    expect(await leaver).toBe("gone");
    await abandoned;
    const again = someEntered(1_001);
    others.push(gateway.app.inject({ url: "/wait" }));
    await again;
    await gateway.server.stop();
    const ends = await Promise.all(others);
    expect(ends.every((answer) => answer.json<Payload>().ended === true)).toBe(true);
  });
});

describe("traces and names of requests", () => {
  let gateway: TestGateway;

  afterEach(() => gateway.close());

  const headersOf = async (headers: Readonly<Record<string, string>>) =>
    (await gateway.app.inject({ url: "/api/v1/jobs", headers })).headers;

  test("a trace context is given back if it is one, and a request's own name if it is plain", async () => {
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

  test("what is logged of a request has its name and its caller, and never the key", async () => {
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
