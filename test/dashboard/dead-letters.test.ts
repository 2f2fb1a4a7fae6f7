// Dead letters: causes, one of them, and bulk operations on what the server selects.
import { afterAll, beforeAll, expect, test } from "vitest";
import { seedDeadLetters } from "./data/seed.ts";
import { Dashboard, expectAccessible } from "./harness.ts";
import { createKeys, type TestKeys } from "./keys.ts";

const LETTERS = 5_000;
const SOON = { timeout: 30_000 };
let dashboard: Dashboard;
let keys: TestKeys;
let viewer: string;

beforeAll(async () => {
  dashboard = await Dashboard.start({ seed: (dir) => seedDeadLetters(dir, LETTERS) });
  keys = await createKeys(dashboard);
  viewer = await keys.create({ tenant: "default", role: "viewer" });
});

afterAll(() => dashboard.close());

/** Thousands of retries, beside other tests. */
const WHOLE = { timeout: 120_000 };

test("L50: retries 5,000 dead letters of a filter at a pace, paused, and resumed after a reload", async () => {
  const page = await dashboard.open("/dead-letters", { key: keys.root });
  await page.getByRole("link", { name: "Error: price list not found" }).click();
  await page.waitForURL(/fingerprint=/);
  await page.getByText("100 of 5,000 dead letters loaded").waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Retry …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("5,000, counted at").waitFor();
  expect(await dialog.getByRole("table", { name: "sample" }).getByText("price list not found").count()).toBe(5);
  await expectAccessible(page);
  // Dead-lettered after the count: not part of the operation.
  await keys.api.jobs.submit({ job_id: "later", topic: "demo.broken", input: {} });
  await expect.poll(async () => (await keys.api.status()).dead_letters, SOON).toBe(LETTERS + 1);
  await dialog.getByLabel("Pace").selectOption("1000");
  await dialog.getByRole("button", { name: "Retry 5,000" }).click();
  await page
    .getByRole("status")
    .getByText(/^[1-9][\d,]* of 5,000/)
    .waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText(": paused").waitFor();
  // The page on its way ends; then nothing changes.
  const left = async () => (await keys.api.status()).dead_letters;
  const seen: number[] = [];
  await expect.poll(async () => seen.push(await left()) > 1 && seen.at(-1) === seen.at(-2), SOON).toBe(true);
  expect(seen.at(-1)).toBeGreaterThan(1);
  expect(seen.at(-1)).toBeLessThan(LETTERS);
  await page.reload();
  await page.getByText(": paused").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByText("5,000 of 5,000").waitFor(WHOLE);
  await expect.poll(left, SOON).toBe(1);
  const { items } = await keys.api.request("GET /audit", { query: { limit: 200, system: true } });
  expect(items.filter(({ what }) => what === "bulk retry").map(({ facts }) => facts.matched)).toEqual([LETTERS]);
  const succeeded = () => keys.api.request("GET /jobs", { query: { state: "SUCCEEDED", limit: 1, count: true } });
  await expect.poll(async () => (await succeeded()).total?.count, WHOLE).toBe(LETTERS);
  await page.context().close();
});

test("edits the input of a dead letter and runs it again", async () => {
  const page = await dashboard.open("/dead-letters/later", { key: keys.root });
  await page.getByText("permanent demo failure").first().waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Edit and retry" }).click();
  const input = page.getByRole("dialog").getByLabel("Input, as JSON");
  await input.fill('{ "n": ');
  expect(await page.getByRole("button", { name: "Submit as a new job", exact: true }).isDisabled()).toBe(true);
  await input.fill('{ "password": "[redacted]" }');
  await page.getByText("replace each [redacted] with its value").waitFor();
  await input.fill('{ "corrected": true }');
  await page.getByRole("button", { name: "Submit as a new job", exact: true }).click();
  await page.waitForURL(/\/jobs\//);
  const id = decodeURIComponent(new URL(page.url()).pathname.slice("/jobs/".length));
  expect(id).not.toBe("later");
  expect(await keys.api.jobs.get(id)).toMatchObject({ topic: "demo.broken", input: { corrected: true } });
  await expect(keys.api.deadLetters.get("later")).rejects.toMatchObject({ status: 404 });
  await page.context().close();
});

test("L49: filters are in the address, and a viewer gets no actions", async () => {
  const path = "/dead-letters?view=list&topic=demo.broken&reason=permanent";
  const page = await dashboard.open(path, { key: viewer, width: 390, scheme: "dark" });
  await page.getByText("1 dead letter").waitFor();
  expect(await page.getByLabel("Topic").inputValue()).toBe("demo.broken");
  expect(await page.getByRole("button", { name: /Retry|Drop/ }).count()).toBe(0);
  await expectAccessible(page);
  await page.getByLabel("Reason").selectOption("timeout");
  await page.getByText("no dead letters match").waitFor();
  await page.goBack();
  await page.getByText("1 dead letter").waitFor();
  const headers = { "x-api-key": viewer };
  const data = { action: "drop" };
  const sent = await page.context().request.post(`${dashboard.url}/api/v1/dlq/bulk`, { headers, data });
  expect(sent.status()).toBe(403);
  await page.context().close();
});
