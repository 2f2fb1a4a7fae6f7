// The audit log: search, one entry with its hash, verification, export.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Dashboard, expectAccessible } from "./harness.ts";

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start();
  for (const id of ["refund-1", "refund-2"]) {
    await dashboard.api.jobs.submit({ job_id: id, topic: "demo.approve", input: { id } });
  }
  await dashboard.api.request("POST /approvals/{id}/reject", { path: { id: "refund-1" }, body: { reason: "no" } });
  await dashboard.api.jobs.submit({ topic: "demo.echo", input: 1 });
});

afterAll(() => dashboard.close());

test("L49: finds entries by job, actor and action; the filter is in the address", async () => {
  const page = await dashboard.open("/audit");
  await page.getByText("rejected").first().waitFor();
  await expectAccessible(page);
  await page.getByLabel("Job", { exact: true }).fill("refund-1");
  await page.getByText("2 entries").waitFor();
  expect(new URL(page.url()).searchParams.get("job")).toBe("refund-1");
  await page.getByLabel("Action or kind").fill("rejected");
  await page.getByText("1 entry").waitFor();
  await page.reload();
  await page.getByText("1 entry").waitFor();
  expect(await page.getByLabel("Job", { exact: true }).inputValue()).toBe("refund-1");
  await page.getByLabel("Action or kind").fill("approved");
  await page.getByText("no entries match").waitFor();
  await page.goto(`${dashboard.url}/audit?actor=ops&action=approval`);
  await page.getByText("1 entry").waitFor();
  await page.context().close();
});

test("shows one entry by its address, with its hash computed in the browser", async () => {
  const { items } = await dashboard.api.request("GET /audit", { query: { action: "rejected" } });
  const [entry] = items;
  const page = await dashboard.open(`/audit?entry=${entry?.index}`, { width: 390, scheme: "dark" });
  const drawer = page.getByRole("dialog", { name: `Entry ${entry?.index}` });
  await drawer.getByText("The hash matches this entry").waitFor();
  await drawer.getByRole("link", { name: "refund-1" }).waitFor();
  expect(await drawer.innerText()).toContain(entry?.prev);
  await expectAccessible(page);
  await drawer.getByRole("link", { name: "Older" }).click();
  await page.getByRole("dialog", { name: `Entry ${(entry?.index ?? 0) - 1}` }).waitFor();
  const changed = { items: [{ ...entry, facts: { job: "refund-9" } }], next_cursor: null };
  await page.route("**/api/v1/audit?index=*", (route) => route.fulfill({ json: changed }));
  await page.reload();
  await page.getByText("The hash does not match").waitFor();
  await page.context().close();
});

test("verifies the chain, and against a saved head", async () => {
  const page = await dashboard.open("/audit");
  await page.getByRole("button", { name: "Verify …" }).click();
  const dialog = page.getByRole("dialog", { name: "Verify the log" });
  await dialog.getByRole("button", { name: "Verify", exact: true }).click();
  await dialog.getByText("The log is intact").waitFor();
  const { entries, head } = await dashboard.api.request("GET /audit/verify", { query: {} });
  expect(await dialog.innerText()).toContain(head);
  const saved = dialog.getByLabel("A saved head or checkpoint");
  await saved.fill("abc");
  expect(await dialog.getByRole("button", { name: "Verify", exact: true }).isDisabled()).toBe(true);
  await saved.fill(JSON.stringify({ head: head.replaceAll(/[0-9a-f]/g, "0"), entries }));
  await dialog.getByRole("button", { name: "Verify", exact: true }).click();
  await dialog.getByText("The log is broken").waitFor();
  await expectAccessible(page);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    dialog.getByRole("button", { name: "Download signed checkpoint" }).click(),
  ]);
  expect(JSON.parse(readFileSync(await file.path(), "utf8"))).toMatchObject({ tenant: "default", head });
  await page.context().close();
});

test("exports the entries of the filter", async () => {
  const page = await dashboard.open("/audit?action=approval");
  await page.getByText("1 entry").waitFor();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export", exact: true }).click(),
  ]);
  const lines = readFileSync(await file.path(), "utf8")
    .trim()
    .split("\n");
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ kind: "approval", facts: { job: "refund-1" } }]);
  await page.context().close();
});

test("a viewer is not offered the audit log, and its request is refused", async () => {
  const key = await dashboard.keyOf("viewer");
  const page = await dashboard.open("/audit", { key, expected: [/status of 403/] });
  await page.getByText("could not load entries: insufficient permissions").waitFor();
  expect(await page.getByRole("navigation", { name: "pages" }).getByText("Audit").count()).toBe(0);
  expect(await page.getByRole("button", { name: /Verify|Export/ }).count()).toBe(0);
  await page.context().close();
});
