import { afterEach, describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { createTenantRecords } from "../auth/tenant-records.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Payload = Readonly<Record<string, unknown>>;

const get = async (url: string, options: Parameters<TestGateway["call"]>[2] = {}) =>
  (await gateway.call("GET", url, options)).json<Payload>();

describe("status", () => {
  test("has all tenants for a key of `*`, and only own numbers for a tenant", async () => {
    gateway = await openTestGateway();
    const { named } = await createTenantRecords(gateway);
    const all = await get("/api/v1/status");
    expect(all).toMatchObject({
      tenant: "*",
      approvals: 1,
      approvals_by_tenant: { acme: 1 },
      dead_letters: 1,
      dead_letters_by_tenant: { acme: 1 },
      workers: { total: 1, leaving: 0, items: [{ id: "acme-worker" }] },
      safety: { kernel: "in this process", breaker: "closed", fail_open: [{ id: named.lease, scope: "acme" }] },
      runs: { open: 1, by_tenant: { acme: 1 } },
      input_fail_open_total: 0,
    });
    const [own, other] = [await gateway.keyOf("acme", "viewer"), await gateway.keyOf("other", "viewer")];
    const seen = await get("/api/v1/status", { key: own.key });
    expect(seen).toMatchObject({ tenant: "acme", approvals: 1, dead_letters: 1, in_flight: null, waiting: null });
    expect(seen).toMatchObject({ safety: { fail_open: [{ scope: "acme" }] } });
    expect(seen).not.toHaveProperty("approvals_by_tenant");
    expect(seen.runs).toEqual({ open: 1, limit: 10 });
    expect(seen.workers).toEqual({ total: 1, leaving: 0 });
    const nothing = await get("/api/v1/status", { key: other.key });
    expect(nothing).toMatchObject({ tenant: "other", approvals: 0, dead_letters: 0, backlog: {}, backlog_total: 0 });
    expect(nothing.runs).toEqual({ open: 0, limit: 10 });
    expect(JSON.stringify(nothing)).not.toContain("acme");
  });

  test("counts the backlog of the tenant for a shared topic", async () => {
    const settings = defaultSettings();
    gateway = await openTestGateway({ settings: { ...settings, dispatch: { ...settings.dispatch, windowMax: 1 } } });
    // A job that never ends keeps the window full, so that the others wait.
    let begun = () => {};
    const isBusy = new Promise<void>((resolve) => {
      begun = resolve;
    });
    let end = () => {};
    const handle = () =>
      new Promise<null>((resolve) => {
        end = () => resolve(null);
        begun();
      });
    const stop = await startWorker(gateway.world, { id: "w1", topics: ["shared.work"], concurrency: 1, handle });
    const submit = (tenant: string) => gateway.call("POST", "/api/v1/jobs", { tenant, body: { topic: "shared.work" } });
    await submit("acme");
    await isBusy;
    for (const tenant of ["acme", "acme", "other"]) await submit(tenant);
    const own = await get("/api/v1/status", { tenant: "acme" });
    expect(own).toMatchObject({ tenant: "acme", backlog: { "shared.work": 2 }, backlog_total: 2, in_flight_total: 1 });
    const all = await get("/api/v1/status");
    expect(all).toMatchObject({ backlog: { "shared.work": 3 }, in_flight: { "shared.work": 1 }, in_flight_total: 1 });
    end();
    await stop();
  });
});

describe("memory", () => {
  test("returns inputs and results of own jobs, inline or from the blob store", async () => {
    const settings = { ...defaultSettings() };
    const limits = { ...settings.limits, inlineBytesMax: 40 };
    gateway = await openTestGateway({ settings: { ...settings, limits } });
    const handle = async () => "y".repeat(100);
    const stop = await startWorker(gateway.world, { id: "w1", topics: ["demo.echo"], concurrency: 1, handle });
    const submit = async (input: unknown) =>
      (await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.echo", input } })).json<{ job_id: string }>()
        .job_id;
    const [small, large] = [await submit(1), await submit({ text: "x".repeat(100) })];
    await gateway.ended(2);
    const memory = (ptr: string) => get(`/api/v1/memory?ptr=${encodeURIComponent(ptr)}`);
    expect(await memory(`ctx:${small}`)).toEqual({
      pointer: `redis://ctx:${small}`,
      key: `ctx:${small}`,
      kind: "context",
      size_bytes: 1,
      base64: "MQ==",
      text: "1",
      json: 1,
    });
    expect(await memory(`redis://ctx:${large}`)).toMatchObject({ kind: "context", json: { text: "x".repeat(100) } });
    expect(await memory(`res:${large}`)).toMatchObject({ kind: "result", size_bytes: 102, json: "y".repeat(100) });
    for (const ptr of [`res:${small}x`, "ctx:", `job:${small}`, `ctx:${small}.x`, "/etc/passwd", "ctx:../x"]) {
      expect(await memory(ptr)).toMatchObject({ status: 404, code: "memory_not_found" });
    }
    expect(await get("/api/v1/memory")).toMatchObject({ status: 400 });
    await stop();
  });

  test("returns binary payloads as base64; unreferenced blobs are not found", async () => {
    gateway = await openTestGateway();
    const { blobs, clock } = gateway.world;
    await blobs.put("ctx:raw-1", new Uint8Array([255, 0, 254]), clock.now() + 60_000);
    const memory = () => get("/api/v1/memory?ptr=ctx:raw-1");
    expect(await memory()).toMatchObject({ status: 404 });
    const { JOBS } = await import("../../../src/core/model/job.ts");
    const { put } = await import("../../../src/ports/store.ts");
    const { job_id } = (await gateway.call("POST", "/api/v1/jobs", { body: { topic: "demo.forbidden" } })).json<{
      job_id: string;
    }>();
    const found = await gateway.world.store.load(JOBS, job_id);
    if (!found) throw new Error("no job");
    const value = { ...found.value, id: "raw-1", input: { kind: "pointer", ptr: "ctx:raw-1", bytes: 3 } } as const;
    const change = { org: "default", atMs: clock.now(), guards: [], sends: [], watch: [] };
    await gateway.world.store.commit({ ...change, puts: [put(JOBS, "raw-1", null, value)] });
    const seen = await memory();
    expect(seen).toMatchObject({ size_bytes: 3, base64: "/wD+" });
    expect(seen).not.toHaveProperty("text");
  });
});
