// API keys: created with the secret shown once, and revoked.
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient } from "../../src/worlds/client-sdk.ts";
import { Dashboard, expectAccessible } from "./harness.ts";

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start();
});

afterAll(() => dashboard.close());

test("creates a key, shows its secret once, and revokes it", async () => {
  const page = await dashboard.open("/keys");
  await page.getByText("1 key").waitFor();
  await page.getByRole("button", { name: "Create a key …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("ci");
  await dialog.getByLabel("Role").selectOption("submitter");
  await dialog.getByLabel("Valid for").selectOption("1 day");
  await dialog.getByLabel("Owner").fill("ci@example.org");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  const secret = await dialog.getByRole("textbox", { name: "key", exact: true }).inputValue();
  expect(secret).toMatch(/^cordum_/);
  await expectAccessible(page);
  const ci = createClient({ url: dashboard.url, apiKey: secret });
  await ci.jobs.submit({ topic: "demo.echo", input: {} });
  await dialog.getByRole("button", { name: "I have stored it" }).click();
  await page.getByText("2 keys").waitFor();
  await page.getByText("ci@example.org").waitFor();
  expect(await page.content()).not.toContain(secret);
  await expectAccessible(page);
  const row = page.getByRole("row").filter({ hasText: "ci@example.org" });
  await page.reload();
  await row.getByTitle("in the audit log").waitFor();
  await row.getByRole("link", { name: /^explain key/ }).click();
  const panel = page.getByRole("dialog", { name: "What may this key do?" });
  await panel.getByText("read, submit", { exact: true }).waitFor();
  await panel.getByText("by ops").waitFor();
  await panel.getByText(/cordum key create --tenant default --role submitter/).waitFor();
  expect(await panel.getByText("no recorded use").count()).toBe(0);
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await row.getByRole("button", { name: "Revoke", exact: true }).click();
  await page.getByRole("dialog", { name: "Revoke ci?" }).getByRole("button", { name: "Revoke", exact: true }).click();
  await row.getByText("revoked").first().waitFor();
  expect(await row.getByRole("button", { name: "Revoke", exact: true }).count()).toBe(0);
  await expect
    .poll(() =>
      ci.jobs
        .list()
        .next()
        .then(
          () => 200,
          ({ status }) => status,
        ),
    )
    .toBe(401);
  await page.context().close();
});

test("a key of one tenant creates keys of that tenant only", async () => {
  const key = await dashboard.keyOf("admin", "acme");
  const page = await dashboard.open("/keys", { key, width: 390, scheme: "dark" });
  await page.getByText("1 key").waitFor();
  await page.getByRole("button", { name: "Create a key …" }).click();
  const dialog = page.getByRole("dialog");
  expect(await dialog.getByLabel("Tenant").count()).toBe(0);
  await dialog.getByRole("button", { name: "Create", exact: true }).click();
  await dialog.getByRole("button", { name: "I have stored it" }).click();
  await page.getByText("2 keys").waitFor();
  const { items } = await dashboard.api.request("GET /keys", { query: {} });
  expect(items.filter(({ tenant }) => tenant === "acme").map(({ role }) => role)).toEqual(["operator", "admin"]);
  await page.context().close();
});

test("operators and viewers are not offered keys, and their requests are refused", async () => {
  for (const role of ["operator", "viewer"] as const) {
    const key = await dashboard.keyOf(role);
    const page = await dashboard.open("/keys", { key, expected: [/status of 403/] });
    await page.getByText("could not load keys: insufficient permissions").waitFor();
    expect(await page.getByRole("button", { name: /Create|Revoke/ }).count()).toBe(0);
    expect(await page.getByRole("navigation", { name: "pages" }).getByText("Keys").count()).toBe(0);
    const headers = { "x-api-key": key };
    const sent = await page
      .context()
      .request.post(`${dashboard.url}/api/v1/keys`, { headers, data: { role: "admin" } });
    expect(sent.status()).toBe(403);
    await page.context().close();
  }
});
