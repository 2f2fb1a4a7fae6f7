import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { IllegalMove } from "../../src/core/model/job.ts";
import { isLoopback } from "../../src/core/model/loopback.ts";
import { METRICS } from "../../src/ports/metrics.ts";
import type { World } from "../../src/ports/world.ts";
import { openTestGateway, type TestGateway } from "./test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Payload = Readonly<Record<string, unknown>>;

const get = (url: string, headers: Readonly<Record<string, string>> = {}) =>
  gateway.app.inject({ method: "GET", url, headers });

const submit = () => gateway.app.inject({ method: "POST", url: "/api/v1/jobs", payload: { topic: "demo.echo" } });

/** A store with some methods replaced. */
function storeWith(world: World, overrides: Partial<World["store"]>): Partial<World> {
  const store = new Proxy(world.store, {
    get: (target, key) => Reflect.get(overrides, key) ?? Reflect.get(target, key).bind(target),
  });
  return { store };
}

describe("readiness requires progress (L20)", () => {
  test("ready while the loops run and the store responds", async () => {
    gateway = await openTestGateway();
    expect((await get("/healthz")).json()).toEqual({ alive: true });
    const ready = (await get("/readyz")).json<Payload>();
    expect(ready).toMatchObject({ ready: true, duties: { timers: expect.any(Number), audit: expect.any(Number) } });
    expect((await get("/api/v1/status")).json<Payload>().duties).toMatchObject({ outbox: expect.any(Number) });
  });

  test("not ready while one loop is late, though the process is alive", async () => {
    const timers = { name: "timers", lagMs: 20_000, late: "the timers loop is 20000 ms behind (limit 15000 ms)" };
    gateway = await openTestGateway({ duties: () => [{ name: "audit", lagMs: 0, late: null }, timers] });
    expect((await get("/healthz")).statusCode).toBe(200);
    const response = await get("/readyz");
    expect(response.statusCode).toBe(503);
    expect(response.json()).toMatchObject({ code: "not_ready", retryable: true, detail: timers.late });
    const status = (await get("/api/v1/status")).json();
    expect(status).toMatchObject({ ready: false, duties: { audit: 0, timers: 20_000 } });
  });

  test("not ready with a failing or a hanging store", async () => {
    gateway = await openTestGateway({
      change: (world) => storeWith(world, { load: () => Promise.reject(new Error("gone")) }),
    });
    expect((await get("/readyz")).json<Payload>().detail).toContain("gone");
    await gateway.close();
    gateway = await openTestGateway({
      change: (world) => ({
        ...storeWith(world, { load: () => new Promise(() => {}) }),
        clock: {
          now: () => world.clock.now(),
          after: (_, fn) => {
            queueMicrotask(fn);
            return () => {};
          },
        },
      }),
    });
    expect((await get("/readyz")).json<Payload>().detail).toContain("has not responded");
  });
});

describe("errors", () => {
  test("a failing store is a 503 with a jittered Retry-After, and is logged (L11, L26)", async () => {
    gateway = await openTestGateway({
      change: (world) => storeWith(world, { commit: () => Promise.reject(new Error("connection lost")) }),
    });
    const responses = await Promise.all(Array.from({ length: 30 }, submit));
    const delays = responses.map((response) => response.json<{ retry_after_ms: number }>().retry_after_ms);
    for (const response of responses) {
      expect(response.statusCode).toBe(503);
      expect(response.json()).toMatchObject({ code: "store_unavailable", retryable: true });
      expect(Number(response.headers["retry-after"])).toBeGreaterThanOrEqual(1);
    }
    expect(new Set(delays).size).toBeGreaterThan(10);
    expect(gateway.logged).toContain("warn request_failed");
    expect(responses[0]?.body).not.toContain("connection lost");
  });

  test.each([new TypeError("x is not a function"), new IllegalMove("job `x` is not a function of its states")])(
    "a bug is a 500 that is not retryable: %s",
    async (bug) => {
      gateway = await openTestGateway({
        change: (world) => storeWith(world, { commit: () => Promise.reject(bug) }),
      });
      const response = await submit();
      expect(response.json()).toMatchObject({ status: 500, code: "internal", retryable: false });
      expect(response.headers["retry-after"]).toBeUndefined();
      expect(response.body).not.toContain("not a function");
      expect(gateway.logged).toContain("error request_failed");
    },
  );

  test("a record under constant contention is a 503 that names the conflict", async () => {
    let isContended = false;
    gateway = await openTestGateway({
      change: (world) =>
        storeWith(world, {
          commit: async (change) => (isContended ? { kind: "stale", table: "", id: "" } : world.store.commit(change)),
        }),
    });
    const { job_id: id } = (await submit()).json<Payload>();
    isContended = true;
    const response = await gateway.app.inject({ method: "POST", url: `/api/v1/jobs/${id}/cancel`, payload: {} });
    expect(response.json()).toMatchObject({ status: 503, retryable: true });
    expect(response.json<Payload>().detail).toContain("changed 8 times");
  });

  test("an unknown route suggests a known one", async () => {
    gateway = await openTestGateway();
    const response = await get("/api/v1/job");
    expect(response.json()).toMatchObject({ status: 404, code: "route_not_found" });
    expect(response.json<Payload>().detail).toContain("`GET /api/v1/jobs`");
  });
});

describe("without API keys", () => {
  test("refuses to bind to a non-loopback address", async () => {
    gateway = await openTestGateway();
    await expect(gateway.server.listen("0.0.0.0", 0)).rejects.toThrow("without an API key");
    expect(["127.0.0.1", "127.1.2.3", "::1", "localhost"].every(isLoopback)).toBe(true);
    expect(["0.0.0.0", "::", "10.0.0.1", "example.com", "127.0.0.1.example.com", ""].some(isLoopback)).toBe(false);
  });

  test("rejects a non-loopback host name (DNS rebinding)", async () => {
    gateway = await openTestGateway();
    expect((await get("/api/v1/jobs", { host: "evil.example:8081" })).statusCode).toBe(400);
    expect((await get("/api/v1/jobs", { host: "127.0.0.1:8081" })).statusCode).toBe(200);
    expect((await get("/api/v1/jobs", { host: "[::1]:8081" })).statusCode).toBe(200);
  });

  test("rejects invalid tenant names", async () => {
    gateway = await openTestGateway();
    for (const tenant of ["a/b", "", "x".repeat(65), "a b"]) {
      expect((await get("/api/v1/jobs", { "x-tenant-id": tenant })).statusCode).toBe(400);
    }
  });
});

describe("observability", () => {
  test("status has the policy, the queues and the latency figures", async () => {
    gateway = await openTestGateway();
    await submit();
    const status = (await get("/api/v1/status")).json<Payload>();
    expect(status).toMatchObject({
      name: "test",
      mode: "embedded",
      ready: true,
      policy: { source: "test", default_decision: "deny" },
      dead_letters: 0,
      lock_busy_retry_count: 0,
      lock_busy_retry_delay_ms: { p50: null, p95: null },
      run_lock_wait_ms_p95: null,
      run_lock_wait_ms_p99: null,
      job_result_latency_ms_p95: null,
      input_fail_open_total: 0,
    });
    const { backlog, in_flight } = status as { backlog: Payload; in_flight: Payload };
    expect(Number(backlog["demo.echo"] ?? 0) + Number(in_flight["demo.echo"] ?? 0)).toBe(1);
  });

  test("`/metrics` lists every metric by name", async () => {
    gateway = await openTestGateway();
    const page = await get("/metrics");
    expect(page.headers["content-type"]).toContain("text/plain");
    for (const name of Object.keys(METRICS)) expect(page.body).toContain(`# TYPE ${name} `);
  });
});

describe("stop", () => {
  test("finishes requests in progress and rejects new ones", async () => {
    let finishLoad: () => void = () => {};
    const load = new Promise<null>((resolve) => {
      finishLoad = () => resolve(null);
    });
    let loadStarted: () => void = () => {};
    const started = new Promise<void>((resolve) => {
      loadStarted = resolve;
    });
    gateway = await openTestGateway({
      change: (world) =>
        storeWith(world, {
          load: () => {
            loadStarted();
            return load;
          },
        }),
    });
    const url = await gateway.server.listen("127.0.0.1", 0);
    const inProgress = fetch(`${url}/api/v1/jobs/some-job`);
    await started;
    const stopped = gateway.server.stop();
    // A request that arrives before the stop has begun is still served.
    await expect
      .poll(async () => {
        const { status, headers } = await fetch(`${url}/api/v1/jobs`);
        return [status, headers.get("connection")];
      })
      .toEqual([503, "close"]);
    finishLoad();
    expect((await inProgress).status).toBe(404);
    await stopped;
    await expect(fetch(`${url}/api/v1/jobs`)).rejects.toThrow();
  });

  test("reports not ready and serves requests until the grace period ends", async () => {
    gateway = await openTestGateway({ limits: { shutdownGraceMs: 300 } });
    const url = new URL(await gateway.server.listen("127.0.0.1", 0));
    // Connected before the stop, and sends its requests after it.
    const client = new Agent({ keepAlive: true, maxSockets: 1 });
    const get = async (path: string) => {
      const sent = request(new URL(path, url), { agent: client });
      const [response] = (await once(sent.end(), "response")) as [IncomingMessage];
      response.resume();
      return [response.statusCode, response.headers.connection];
    };
    expect(await get("/readyz")).toEqual([200, "keep-alive"]);
    const stopped = gateway.server.stop();
    expect(await get("/readyz")).toEqual([503, "close"]);
    expect(await get("/api/v1/jobs")).toEqual([200, "close"]);
    await stopped;
    await expect(get("/readyz")).rejects.toThrow("ECONNREFUSED");
  });

  test("answers requests that have arrived but are not read, without a reset", async () => {
    gateway = await openTestGateway();
    const url = new URL(await gateway.server.listen("127.0.0.1", 0));
    const sockets: Socket[] = [];
    for (let at = 0; at < 20; at++) {
      const accepted = once(gateway.app.server, "connection");
      sockets.push(connect({ host: url.hostname, port: Number(url.port) }));
      await accepted;
    }
    const answers = sockets.map((socket) => once(socket, "data"));
    // In the buffers of the kernel when the stop begins.
    for (const socket of sockets) socket.write("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    const stopped = gateway.server.stop();
    for (const [data] of await Promise.all(answers)) expect(String(data)).toMatch(/^HTTP\/1\.1 200 /);
    await stopped;
  });
});
