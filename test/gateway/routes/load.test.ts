// Disk, kernel, open runs, approvals and tenant load: in the status of operators and in the metrics.

import { afterEach, expect, test } from "vitest";
import { OPEN_JOBS_GROUP } from "../../../src/core/model/quota.ts";
import type { Store } from "../../../src/ports/store.ts";
import { createTenantRecords } from "../auth/tenant-records.ts";
import { openTestGateway, type TestGateway, type TestGatewayOptions } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const status = async (key?: string) => (await gateway.call("GET", "/api/v1/status", { key })).json();
const metrics = async () => (await gateway.call("GET", "/metrics")).body;

const withDisk = (freeBytes: number): TestGatewayOptions => ({
  change: () => ({ disk: { usage: async () => ({ path: "/data", freeBytes, totalBytes: 100 }) } }),
});

test("counts approvals, runs and open jobs by tenant in the metrics and for operators", async () => {
  gateway = await openTestGateway();
  await createTenantRecords(gateway);
  for (let job = 0; job < 3; job += 1) {
    await gateway.call("POST", "/api/v1/jobs", { tenant: "busy", body: { topic: "demo.echo" } });
  }
  const { open_jobs } = await status();
  expect(open_jobs.by_tenant).toMatchObject({ busy: 3 });
  const page = await metrics();
  for (const line of [
    "cordum_approvals_waiting 1",
    "cordum_runs_open 1",
    'cordum_tenant_open_jobs{tenant="busy"} 3',
    'cordum_disk_free_bytes{path="/data"} 60000000000',
    'cordum_disk_size_bytes{path="/data"} 100000000000',
    "cordum_store_up 1",
    "cordum_safety_kernel_up 1",
  ]) {
    expect(page.split("\n")).toContain(line);
  }
  const own = await status((await gateway.keyOf("acme", "viewer")).key);
  expect(own).not.toHaveProperty("open_jobs");
  expect(own).not.toHaveProperty("disk");
});

test("sets the gauge of a tenant without open jobs to 0", async () => {
  const counts: Record<string, number> = { quiet: 2 };
  gateway = await openTestGateway({
    change: ({ store }) => ({ store: withOpenJobs(store, async () => new Map(Object.entries(counts))) }),
  });
  expect(await metrics()).toContain('cordum_tenant_open_jobs{tenant="quiet"} 2');
  delete counts.quiet;
  counts.loud = 5;
  const page = await metrics();
  expect(page).toContain('cordum_tenant_open_jobs{tenant="quiet"} 0');
  expect(page).toContain('cordum_tenant_open_jobs{tenant="loud"} 5');
});

test("shows the 20 tenants with the most open jobs", async () => {
  const counts = new Map(Array.from({ length: 500 }, (_, at) => [`t${at}`, at] as const));
  gateway = await openTestGateway({
    change: ({ store }) => ({ store: withOpenJobs(store, async () => counts) }),
  });
  const { by_tenant, total } = (await status()).open_jobs;
  expect(Object.keys(by_tenant)).toHaveLength(20);
  expect(by_tenant).toMatchObject({ t499: 499, t480: 480 });
  expect(total).toBe((499 * 500) / 2);
});

test.each([
  [10, false],
  [9, true],
])("a disk with %i %% free is low: %s", async (free, low) => {
  gateway = await openTestGateway(withDisk(free));
  expect((await status()).disk).toEqual({ path: "/data", free_bytes: free, size_bytes: 100, low });
});

test("a disk that cannot be read is logged and absent", async () => {
  gateway = await openTestGateway({ change: () => ({ disk: { usage: () => Promise.reject(new Error("gone")) } }) });
  expect(await status()).not.toHaveProperty("disk");
  expect(gateway.logged).toContain("warn disk_unreadable");
});

test("a failed store is a metric, and the page is still served", async () => {
  gateway = await openTestGateway({
    change: ({ store }) => ({ store: withOpenJobs(store, () => Promise.reject(new Error("down"))) }),
  });
  const page = await metrics();
  expect(page).toContain("cordum_store_up 0");
  expect(page).toContain('cordum_disk_free_bytes{path="/data"}');
});

test("a kernel that does not answer is visible before a check has failed, to operators only", async () => {
  const probe = async () => "connection refused at 10.0.0.9:50051";
  gateway = await openTestGateway({ change: ({ safety }) => ({ safety: { ...safety, probe } }) });
  expect((await status()).safety).toMatchObject({ breaker: "closed", unreachable: await probe() });
  expect(await metrics()).toContain("cordum_safety_kernel_up 0");
  const own = await status((await gateway.keyOf("acme", "viewer")).key);
  expect(JSON.stringify(own)).not.toContain("10.0.0.9");
});

/** Replaces the open jobs by tenant. */
function withOpenJobs(store: Store, openJobs: () => Promise<ReadonlyMap<string, number>>): Store {
  const counts: Store["counts"] = (group, limit) =>
    group === OPEN_JOBS_GROUP ? openJobs() : store.counts(group, limit);
  return new Proxy(store, {
    get(target, name) {
      const value = name === "counts" ? counts : Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
