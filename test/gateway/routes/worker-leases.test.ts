import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { clientJobId } from "../../../src/core/model/job-id.ts";
import { retryAfter } from "../../../src/core/retry/intent.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import type { Gateway, GatewayRequest } from "../../../src/gateway/route.ts";
import { WORKER_ROUTES } from "../../../src/gateway/routes/worker-leases.ts";
import type { Blobs } from "../../../src/ports/blobs.ts";
import type { WorkItem } from "../../../src/worker/item.ts";
import { http, worker } from "../../../src/worlds/worker-sdk.ts";
import { openTestGateway, STARTUP_TOKEN, type TestGateway } from "../test-gateway.ts";

const NEVER = new AbortController().signal;
let gateway: TestGateway;

beforeEach(async () => {
  const settings = defaultSettings();
  // Longer than any request here, shorter than the long-running job below.
  gateway = await openTestGateway({ settings: { ...settings, dispatch: { ...settings.dispatch, deadlineMs: 1_000 } } });
});

afterEach(() => gateway.close());

async function submit(raw: Record<string, unknown>): Promise<string> {
  const checked = checkSubmission({ topic: "demo.far", ...raw });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return (await admitJob(gateway.engine, checked.submission)).jobId;
}

async function job(id: string): Promise<Job> {
  const found = await gateway.world.store.load(JOBS, id);
  if (!found) throw new Error(`no job ${id}`);
  return found.value;
}

describe("worker API", () => {
  const lease = (body: object = {}, key?: string) =>
    gateway.call("POST", "/api/v1/worker/lease", {
      body: { worker_id: "curl", topics: ["demo.far"], wait_ms: 5_000, ...body },
      key,
    });

  test("leases, extends, reports progress, and completes idempotently", async () => {
    const traceparent = `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01`;
    const id = await submit({ input: { n: 1 }, labels: { a: "b" }, traceparent });
    const leased = await lease();
    expect(leased.statusCode).toBe(200);
    const [one] = leased.json().jobs;
    expect(one).toMatchObject({ job_id: id, topic: "demo.far", tenant_id: "default", input: { n: 1 }, traceparent });
    expect(one).toMatchObject({ labels: { a: "b" }, constraints: null });
    expect(Date.parse(one.deadline)).toBe((await job(id)).dueMs);
    const report = (what: string, body: object) =>
      gateway.call("POST", `/api/v1/worker/jobs/${id}/${what}`, { body: { lease_id: one.lease_id, ...body } });
    const extended = await report("extend", { ms: 60_000 });
    expect(Date.parse(extended.json().deadline)).toBeGreaterThan(Date.parse(one.deadline) + 30_000);
    expect((await report("progress", { percent: 50, message: "half" })).statusCode).toBe(200);
    expect(await job(id)).toMatchObject({ state: "RUNNING", progress: { percent: 50, message: "half" } });
    for (let times = 0; times < 2; times++) {
      expect((await report("complete", { result: { ok: true } })).json()).toEqual({ job_id: id, state: "SUCCEEDED" });
    }
    const late = await report("fail", { error: "changed my mind" });
    expect(late.statusCode).toBe(409);
    expect(late.json()).toMatchObject({ code: "lease_lost", job_id: id });
    const shown = await gateway.call("GET", `/api/v1/jobs/${id}`);
    expect(shown.json()).toMatchObject({ state: "SUCCEEDED", result: { ok: true } });
  });

  test("204 without jobs, 400 with a detail for an invalid request", async () => {
    const nothing = await lease({ wait_ms: 0 });
    expect([nothing.statusCode, nothing.body]).toEqual([204, ""]);
    const wrong = await lease({ wait_ms: 60_000 });
    expect(wrong.statusCode).toBe(400);
    expect(wrong.json().detail).toContain("wait_ms");
  });

  test("leases jobs of the own tenant; a key of `*` leases jobs of all tenants", async () => {
    const [acme, birch] = [await submit({ org: "acme" }), await submit({ org: "birch" })];
    const { key } = await gateway.keyOf("birch", "worker");
    const own = await lease({ max: 10 }, key);
    expect(own.json().jobs.map((one: { job_id: string }) => one.job_id)).toEqual([clientJobId("birch", birch)]);
    const body = { lease_id: own.json().jobs[0].lease_id, result: 1 };
    const { key: other } = await gateway.keyOf("acme", "worker");
    const stolen = await gateway.call("POST", `/api/v1/worker/jobs/${birch}/complete`, { key: other, body });
    expect(stolen.statusCode).toBe(404);
    const { key: viewer } = await gateway.keyOf("birch", "viewer");
    expect((await lease({}, viewer)).statusCode).toBe(403);
    const { key: all } = await gateway.keyOf("*", "worker");
    expect((await lease({ max: 10 }, all)).json().jobs[0].job_id).toBe(acme);
    await submit({ org: "birch" });
    await submit({ org: "acme" });
    const topics = await gateway.call("GET", "/api/v1/topics", { key: viewer });
    expect(topics.json().items).toEqual([{ topic: "demo.far", workers: 2, waiting: 1, running: null }]);
    const seen = await gateway.call("GET", "/api/v1/workers", { key: viewer });
    expect(seen.json().items.map((one: { worker_id: string }) => one.worker_id)).toEqual(["curl", "curl"]);
  });
});

describe("an input in the blob store", () => {
  const route = WORKER_ROUTES.find(({ path }) => path === "/api/v1/worker/lease");
  const deleteInput = async (id: string) => {
    const input = (await gateway.world.store.load(JOBS, id))?.value.input;
    await gateway.world.blobs.delete(input?.kind === "pointer" ? input.ptr : "");
  };
  const submitLarge = () => submit({ input: { text: "x".repeat(300_000) } });
  const leased = (signal: AbortSignal, blobs: Partial<Blobs> = {}) => {
    const body = { worker_id: "curl", topics: ["demo.far"], wait_ms: 5_000, max: 10 };
    const request = { body, signal, org: "default", principal: { org: "default" }, headers: {} };
    const world = { ...gateway.world, blobs: { ...seen(gateway.world.blobs), ...blobs } };
    return route?.handle({ engine: { ...gateway.engine, world } } as Gateway, request as unknown as GatewayRequest);
  };
  const seen = (blobs: Blobs): Pick<Blobs, "get"> => ({ get: (ptr) => blobs.get(ptr) });

  test("fails the job with a reason when it is gone, and leases the others", async () => {
    const [gone, there] = [await submitLarge(), await submitLarge()];
    await deleteInput(gone);
    const response = await leased(NEVER);
    expect(response).toMatchObject({
      status: 200,
      body: { jobs: [{ job_id: there, input: { text: "x".repeat(300_000) } }] },
    });
    expect(await job(gone)).toMatchObject({ state: "FAILED", attempt: 1 });
    expect((await job(gone)).error?.message).toContain("is missing in the blob store");
  });

  test("204 when the inputs of all jobs are gone", async () => {
    const gone = await submitLarge();
    await deleteInput(gone);
    expect(await leased(NEVER)).toMatchObject({ status: 204 });
  });

  test("releases the jobs when the worker disconnects while it is read", async () => {
    const id = await submitLarge();
    const gone = new AbortController();
    const get: Blobs["get"] = (ptr) => {
      gone.abort();
      return gateway.world.blobs.get(ptr);
    };
    await leased(gone.signal, { get });
    expect(await job(id)).toMatchObject({ state: "SCHEDULED", attempt: 0 });
  });
});

describe("`worker` over `http`", () => {
  const start = async (handle: (item: WorkItem) => Promise<unknown>) => {
    const url = await gateway.server.listen("127.0.0.1", 0);
    return worker({
      id: "sdk",
      topics: ["demo.far"],
      concurrency: 4,
      handle,
      transport: http({ url, apiKey: STARTUP_TOKEN, waitMs: 5_000 }),
    });
  };

  test("runs jobs, follows the retry intent of a handler, and is listed", async () => {
    const stop = await start(async (item) => {
      if (item.attempt < 2 && item.input === "flaky") throw retryAfter(new Error("not yet"), 1);
      return { got: item.input };
    });
    const ids = [await submit({ input: 1 }), await submit({ input: "flaky" })];
    await gateway.ended(2);
    for (const id of ids) expect(await job(id)).toMatchObject({ state: "SUCCEEDED", workerId: "sdk" });
    const seen = await gateway.call("GET", "/api/v1/workers/sdk");
    expect(seen.json()).toMatchObject({ worker_id: "sdk", transport: "http", topics: ["demo.far"] });
    await stop();
  });

  test("extends the lease of a job that runs longer than the deadline", async () => {
    let starts = 0;
    const stop = await start(async () => {
      starts += 1;
      await new Promise<void>((resolve) => gateway.world.clock.after(2_500, resolve));
      return "done";
    });
    const id = await submit({});
    await gateway.ended(1);
    expect(starts).toBe(1);
    expect(await job(id)).toMatchObject({ state: "SUCCEEDED", output: { value: "done" } });
    await stop();
  });

  test("aborts the signal of a cancelled job", async () => {
    let begun: (signal: AbortSignal) => void = () => {};
    const signal = new Promise<AbortSignal>((resolve) => (begun = resolve));
    const stop = await start((item) => {
      begun(item.signal);
      return new Promise((_, reject) => item.signal.addEventListener("abort", () => reject(item.signal.reason)));
    });
    const id = await submit({});
    const aborting = await signal;
    const aborted = new Promise((resolve) => aborting.addEventListener("abort", resolve));
    const cancelled = await gateway.call("POST", `/api/v1/jobs/${id}/cancel`, { body: { reason: "enough" } });
    expect(cancelled.statusCode).toBe(200);
    await aborted;
    expect(String(aborting.reason)).toContain("lease lost");
    await stop();
  });

  test("fails to start with a key without `work` access", async () => {
    const { key } = await gateway.keyOf("default", "viewer");
    const url = await gateway.server.listen("127.0.0.1", 0);
    const transport = http({ url, apiKey: key });
    await expect(worker({ topics: ["demo.far"], handle: async () => 1, transport })).rejects.toThrow(/403/);
  });
});

describe("pools", () => {
  test("are listed, drained and resumed", async () => {
    const unknown = await gateway.call("POST", "/api/v1/pools/unknown/drain");
    expect(unknown.statusCode).toBe(404);
    const body = { worker_id: "h", topics: ["demo.far"], pool: "gpu" };
    await gateway.call("POST", "/api/v1/worker/lease", { body });
    const drained = await gateway.call("POST", "/api/v1/pools/gpu/drain");
    expect(drained.json()).toMatchObject({ name: "gpu", draining: true, workers: 1, changed_by: "local" });
    await submit({});
    expect((await gateway.call("POST", "/api/v1/worker/lease", { body })).statusCode).toBe(204);
    const explain = async () => (await gateway.call("GET", "/api/v1/workers/h/explain")).json();
    const drain = { reason: expect.stringContaining("`gpu` is draining"), unblocks: "cordum pool resume gpu" };
    const waits = { unblocks: "cordum job list --topic demo.far --state SCHEDULED" };
    expect(await explain()).toMatchObject({ state: "blocked", reasons: [drain, waits, {}] });
    expect((await gateway.call("GET", "/api/v1/pools")).json().items).toMatchObject([{ name: "gpu", draining: true }]);
    await gateway.call("POST", "/api/v1/pools/gpu/resume");
    expect((await gateway.call("POST", "/api/v1/worker/lease", { body: { ...body, wait_ms: 5_000 } })).statusCode).toBe(
      200,
    );
    const topics = (await gateway.call("GET", "/api/v1/topics")).json().items;
    expect(topics).toMatchObject([{ topic: "demo.far", workers: 1, waiting: 0, running: 1 }]);
    const full = { reason: "all of its slots are in use: 1 of 1" };
    const none = { reason: "no job waits for a topic that it serves" };
    expect(await explain()).toMatchObject({ worker: { worker_id: "h" }, state: "full", reasons: [full, none, {}] });
  });
});
