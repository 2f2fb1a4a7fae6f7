// Settings with their origin, the promises of the process, and findings.
import { afterAll, beforeAll, expect, test } from "vitest";
import { Dashboard, expectAccessible } from "./harness.ts";

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start({ env: { CORDUM_LIMITS_MAX_CONCURRENT_RUNS: "25" } });
  await dashboard.api.jobs.submit({ topic: "demo.broken", input: {} });
});

afterAll(() => dashboard.close());

test("L49: shows every setting with value, unit and origin; the filter is in the address", async () => {
  const page = await dashboard.open("/settings");
  const table = page.getByRole("table", { name: "settings" });
  await table.getByText("limits.max_concurrent_runs").first().waitFor();
  const { items } = await dashboard.api.request("GET /settings", {});
  expect(await table.getByRole("row").count()).toBe(items.length + 1);
  await expectAccessible(page);
  await page.getByLabel("Origin").selectOption("environment");
  const row = table.getByRole("row").filter({ hasText: "limits.max_concurrent_runs" });
  await row.getByText("25 runs").waitFor();
  await row.getByText("CORDUM_LIMITS_MAX_CONCURRENT_RUNS").waitFor();
  await page.getByLabel("Search").fill("ack_wait");
  await page.getByText("no settings match").waitFor();
  await page.getByLabel("Origin").selectOption("");
  await table.getByText("30 s (30,000 ms)").waitFor();
  await page.reload();
  await table.getByText("30 s (30,000 ms)").waitFor();
  expect(await table.getByRole("row").count()).toBe(2);
  await table.getByRole("link", { name: "explain setting bus.ack_wait_ms" }).click();
  const drawer = page.getByRole("dialog", { name: "Why does this setting have its value?" });
  await drawer.getByText("is the default: no file, variable or flag sets it").waitFor();
  await drawer.getByText("CORDUM_BUS_ACK_WAIT_MS").waitFor();
  await expectAccessible(page);
  await page.context().close();
});

test("shows durability, profile and findings", async () => {
  const page = await dashboard.open("/settings", { width: 390, scheme: "dark" });
  const { durability } = await dashboard.api.status();
  await page.getByText(durability.meaning).waitFor();
  await page.getByRole("table", { name: "findings" }).getByText("dead letter").first().waitFor();
  await expectAccessible(page);
  await page.context().close();
});

test("a key of one tenant reads no settings", async () => {
  const key = await dashboard.keyOf("admin");
  const page = await dashboard.open("/settings", { key });
  await page.getByText("only keys of all tenants read them").waitFor();
  expect(await page.getByText("CORDUM_").count()).toBe(0);
  const headers = { "x-api-key": key };
  expect((await page.context().request.get(`${dashboard.url}/api/v1/settings`, { headers })).status()).toBe(403);
  await page.context().close();
});
