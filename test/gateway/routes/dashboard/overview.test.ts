import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFailOpen } from "../../../../src/engine/safety/fail-open.ts";
import { openTestGateway, type TestGateway, type TestKey } from "../../test-gateway.ts";

let gateway: TestGateway;
let [root, acme, other] = [] as unknown as [TestKey, TestKey, TestKey];

interface Overview {
  readonly attention: readonly { readonly kind: string; readonly severity: string; readonly action: Action | null }[];
  readonly topics: readonly { readonly topic: string; readonly backlog: number; readonly oldest_ms: number | null }[];
  readonly tenants: readonly { readonly tenant: string; readonly backlog: number }[];
}

interface Action {
  readonly method: "POST";
  readonly path: string;
  readonly body: object;
}

beforeAll(async () => {
  gateway = await openTestGateway();
  root = await gateway.keyOf("*", "admin");
  acme = await gateway.keyOf("acme", "admin");
  other = await gateway.keyOf("other", "viewer");
  const submit = (tenant: string, topic: string) =>
    gateway.call("POST", "/api/v1/jobs", { key: root.key, tenant, body: { topic } });
  await Promise.all(Array.from({ length: 40 }, () => submit("acme", "acme.slow")));
  await submit("other", "other.slow");
  await submit("acme", "demo.approve");
});

afterAll(() => gateway.close());

async function overview(key: string): Promise<Overview> {
  const response = await gateway.call("GET", "/api/v1/overview", { key });
  expect(response.statusCode, response.body).toBe(200);
  return response.json();
}

describe("GET /overview", () => {
  test("names queues by topic and tenant with their age, for all tenants", async () => {
    const { topics, tenants } = await overview(root.key);
    expect(topics[0]).toMatchObject({ topic: "acme.slow", oldest_ms: expect.any(Number) });
    expect(tenants.map(({ tenant }) => tenant)).toEqual(["acme", "other"]);
  });

  test("shows a tenant its own queues only", async () => {
    const text = JSON.stringify(await overview(other.key));
    expect(text).toContain("other.slow");
    expect(text).not.toMatch(/acme/);
    const { tenants, topics } = await overview(acme.key);
    expect(tenants).toMatchObject([{ tenant: "acme" }]);
    expect(topics.map(({ topic }) => topic)).toEqual(["acme.slow"]);
  });

  test("puts danger first, with the request that resolves it", async () => {
    await gateway.call("POST", "/api/v1/kill", { key: root.key, body: { scope: "acme", reason: "test" } });
    await openFailOpen(gateway.engine, { scope: "acme", reason: "test", by: "test", forMs: 600_000 });
    const { attention } = await overview(acme.key);
    expect(attention.map(({ kind }) => kind)).toEqual(["killed", "fail_open", "no_workers", "approvals"]);
    const resolved = attention.flatMap(({ action }) => action ?? []);
    expect(resolved).toHaveLength(2);
    for (const { method, path, body } of resolved) {
      expect((await gateway.call(method, path, { key: acme.key, body })).statusCode).toBe(200);
    }
    expect((await overview(acme.key)).attention.map(({ kind }) => kind)).toEqual(["no_workers", "approvals"]);
    expect((await overview(other.key)).attention.map(({ kind }) => kind)).toEqual(["no_workers"]);
  });

  test("reads a bounded number of index entries and loads no record of a job", async () => {
    const { store } = gateway.engine.world;
    const reads: string[] = [];
    const { list, load } = store;
    Object.assign(store, {
      list: (table: { name: string }, query: { limit: number }) => {
        reads.push(`list ${table.name} ${query.limit}`);
        return list.call(store, table as never, query as never);
      },
      load: (table: { name: string }, id: string) => {
        if (id !== "readiness-probe") reads.push(`load ${table.name}`);
        return load.call(store, table as never, id);
      },
    });
    await overview(root.key);
    Object.assign(store, { list, load });
    expect(reads.filter((read) => read.startsWith("list job")).every((read) => read.endsWith(" 1"))).toBe(true);
    expect(reads.filter((read) => read === "load job")).toEqual([]);
    expect(reads.length).toBeLessThan(20);
  });

  test("counts what ends, per second and tenant", async () => {
    await overview(root.key);
    const { key } = await gateway.keyOf("rates", "admin");
    for (let at = 0; at < 3; at++)
      await gateway.call("POST", "/api/v1/jobs", { key, body: { topic: "demo.forbidden" } });
    const own = (await gateway.call("GET", "/api/v1/overview", { key })).json();
    const perS = own.throughput.jobs_per_s * (own.throughput.measured_ms / 1_000);
    expect(Math.round(perS)).toBe(3);
    expect(own.throughput.failed_per_s).toBe(own.throughput.jobs_per_s);
    const foreign = (await gateway.call("GET", "/api/v1/overview", { key: other.key })).json();
    expect(foreign.throughput.jobs_per_s).toBe(0);
  });
});

describe("GET /waves", () => {
  test("shows retries by class and arm beside a Poisson stream that depends on the seed only", async () => {
    const { arrivals, world } = gateway.engine;
    const nowMs = world.clock.now();
    for (let at = 0; at < 400; at++) arrivals.record("lock_busy", nowMs, at % 4 === 0 ? "treatment" : "control");
    for (let at = 0; at < 100; at++) arrivals.record("no_worker", nowMs - at * 500);
    const waves = async (seed: number) =>
      (await gateway.call("GET", `/api/v1/waves?seed=${seed}`, { key: root.key })).json();
    const { series, bins, covers_all_processes } = await waves(1);
    expect(covers_all_processes).toBe(true);
    const of = (name: string, arm: string | null) =>
      series.find((one: { class: string; arm: string | null }) => one.class === name && one.arm === arm);
    expect(of("lock_busy", null)).toMatchObject({ total: 400, peak: 400, peak_to_mean: bins });
    expect(of("lock_busy", "treatment").total).toBe(100);
    expect(of("lock_busy", "control").total).toBe(300);
    expect(of("lock_busy", null).poisson).toMatchObject({ total: 400 });
    expect(of("lock_busy", null).poisson.peak).toBeLessThan(10);
    expect(of("no_worker", null).peak).toBeLessThan(5);
    const again = (await waves(1)).series.find((one: { class: string }) => one.class === "no_worker");
    expect(again.poisson.total).toBe(again.total);
    expect((await waves(2)).series[0].poisson.counts).not.toEqual(series[0].poisson.counts);
  });

  test("names the holder, the fence and the waiters of a contended lock", async () => {
    const { locks } = gateway.engine.world;
    const request = { key: "run:hot", org: "acme", ttlMs: 60_000, owner: "this test" };
    const held = await locks.acquire({ ...request, waitMs: 0 });
    const waiting = locks.acquire({ ...request, waitMs: 60_000 });
    const { locks: shown } = (await gateway.call("GET", "/api/v1/waves", { key: root.key })).json();
    if (held.kind !== "held") throw new Error("the lock is free");
    const { fence } = held.lease;
    expect(shown).toMatchObject([{ key: "run:hot", holder: expect.stringContaining("this test"), fence, waiters: 1 }]);
    await held.lease.release();
    const next = await waiting;
    if (next.kind === "held") await next.lease.release();
  });

  test("requires a key of all tenants", async () => {
    expect((await gateway.call("GET", "/api/v1/waves", { key: acme.key })).statusCode).toBe(403);
  });
});
