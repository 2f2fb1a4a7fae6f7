// Workers: their load, what they work on, and draining a pool.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { createClient } from "../../src/worlds/client-sdk.ts";
import { seedSilentWorker } from "./data/seed.ts";
import { Dashboard, expectAccessible } from "./harness.ts";

let dashboard: Dashboard;
let worker: Client;
let jobId: string;

beforeAll(async () => {
  dashboard = await Dashboard.start({ seed: (dir) => seedSilentWorker(dir, "lost-1", "pay.lost") });
  const { api, url } = dashboard;
  jobId = (await api.jobs.submit({ topic: "pay.out", input: {} })).job_id;
  await api.jobs.submit({ topic: "pay.in", input: {} });
  worker = createClient({ url, apiKey: await dashboard.keyOf("worker") });
  expect(await lease(5_000)).toEqual([jobId]);
});

/** A worker that does not call for 30 s is no longer listed. */
async function lease(waitMs = 0): Promise<readonly string[]> {
  const body = { worker_id: "pay-1", topics: ["pay.out"], pool: "payments", max: 1, wait_ms: waitMs };
  return (await worker.request("POST /worker/lease", { body }))?.jobs.map((job) => job.job_id) ?? [];
}

beforeEach(async () => void (await lease()));

afterAll(() => dashboard.close());

test("shows the load of workers, what they work on, and topics without workers", async () => {
  const page = await dashboard.open("/workers");
  const table = page.getByRole("table", { name: "workers" });
  const row = table.getByRole("row").filter({ hasText: "pay-1" });
  await row.getByText("working").waitFor();
  await expect.poll(() => row.innerText()).toContain("pay.out");
  await table.getByRole("row").filter({ hasText: "demo-worker" }).getByText("0/64").waitFor();
  await page.getByText("pay.in").first().waitFor();
  await page.getByRole("link", { name: "explain worker demo-worker" }).click();
  const panel = page.getByRole("dialog", { name: "Which jobs does this worker get?" });
  await panel.getByText("no job waits for a topic that it serves").waitFor();
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "explain topic pay.in" }).click();
  const topic = page.getByRole("dialog", { name: "Do the jobs of this topic get a worker?" });
  await topic.getByText("no workers", { exact: true }).waitFor();
  await topic
    .getByText(/no worker serves|no live worker/)
    .first()
    .waitFor();
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await expectAccessible(page);
  await page.getByLabel("Pool", { exact: true }).selectOption("payments");
  expect(new URL(page.url()).search).toBe("?pool=payments");
  expect(await table.getByText("demo-worker").count()).toBe(0);
  await row.getByRole("link", { name: "pay.out" }).click();
  await page.waitForURL(`**/jobs/${jobId}`);
  await page.context().close();
});

test("a silent worker is marked while it holds leases", async () => {
  const page = await dashboard.open("/workers");
  const row = page.getByRole("table", { name: "workers" }).getByRole("row").filter({ hasText: "lost-1" });
  await row.locator(".badge", { hasText: "silent" }).waitFor();
  await page.getByText("1 silent with leases").waitFor();
  await row.getByRole("link", { name: "explain worker lost-1" }).click();
  const panel = page.getByRole("dialog", { name: "Which jobs does this worker get?" });
  await panel.getByRole("link", { name: "held" }).waitFor();
  await panel.getByText(/silent for \d+ s/).waitFor();
  await page.context().close();
});

test("drains a pool and resumes it", async () => {
  const page = await dashboard.open("/workers", { width: 390, scheme: "dark" });
  const pools = page.getByRole("table", { name: "pools" });
  await pools.getByRole("button", { name: "Drain", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain", exact: true }).click();
  await pools.getByText("draining").waitFor();
  await expectAccessible(page);
  const draining = async () => (await dashboard.api.request("GET /pools", {})).items.map((pool) => pool.draining);
  expect(await draining()).toEqual([true]);
  await page.getByRole("link", { name: "explain pool payments" }).click();
  const explained = page.getByRole("dialog", { name: "Do the workers of this pool get jobs?" });
  await explained.getByRole("button", { name: "cordum pool resume payments" }).waitFor();
  await explained.getByText("ops", { exact: true }).waitFor();
  await expectAccessible(page);
  await explained.getByRole("link", { name: "pay-1" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "explain worker pay-1" }).click();
  const panel = page.getByRole("dialog", { name: "Which jobs does this worker get?" });
  await panel.getByText("blocked").waitFor();
  await panel.getByRole("button", { name: "cordum pool resume payments" }).waitFor();
  await page.keyboard.press("Escape");
  await pools.getByRole("button", { name: "Resume", exact: true }).click();
  await pools.getByText("open").waitFor();
  expect(await draining()).toEqual([false]);
  await page.context().close();
});

test("only keys of all tenants may drain; the request of others is refused", async () => {
  const key = await dashboard.keyOf("admin");
  const page = await dashboard.open("/workers", { key });
  await page.getByRole("table", { name: "pools" }).getByText("payments").waitFor();
  expect(await page.locator(".action").count()).toBe(0);
  const url = `${dashboard.url}/api/v1/pools/payments/drain`;
  expect((await page.context().request.post(url, { headers: { "x-api-key": key } })).status()).toBe(403);
  await page.context().close();
});
