// Schedules: created, changed, paused, started, backfilled and deleted from the browser.
import { afterAll, beforeAll, expect, test } from "vitest";
import { copied, Dashboard, expectAccessible } from "./harness.ts";

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start();
  await dashboard.api.workflows.apply({ id: "report", steps: { one: { topic: "demo.echo", input: 1 } } } as never);
});

afterAll(() => dashboard.close());

const get = (id: string) => dashboard.api.request("GET /schedules/{id}", { path: { id } });

test("creates a schedule, with the problems of the control plane in the dialog", async () => {
  const page = await dashboard.open("/schedules", { expected: [/status of 400/] });
  await page.getByText("no schedules").waitFor();
  await page.getByRole("button", { name: "Create a schedule …" }).click();
  const dialog = page.getByRole("dialog");
  const create = dialog.getByRole("button", { name: "Create", exact: true });
  expect(await create.isDisabled()).toBe(true);
  await dialog.getByLabel("Id").fill("nightly");
  await dialog.getByLabel("Workflow").fill("report");
  await dialog.getByRole("textbox", { name: /^Expression/ }).fill("61 9 * * *");
  await dialog.getByLabel("Time zone").fill("Europe/Berlin");
  await dialog.getByLabel("Input of each run").fill('{ "n": ');
  expect(await create.isDisabled()).toBe(true);
  await dialog.getByLabel("Input of each run").fill('{ "n": 1 }');
  await expectAccessible(page);
  const command = await copied(page, "Create", "CLI");
  expect(command).toMatch(/^printf %s '\{"id":"nightly",.*\}' \| cordum schedule apply -$/);
  await create.click();
  await dialog
    .getByText(/minute/i)
    .last()
    .waitFor();
  await dialog.getByRole("textbox", { name: /^Expression/ }).fill("30 3 * * *");
  await dialog.getByLabel("Jitter").fill("90");
  await create.click();
  await page.waitForURL("**/schedules/nightly");
  await page.getByText("30 3 * * * (Europe/Berlin)").waitFor();
  expect(await page.getByRole("table", { name: "next starts" }).getByRole("row").count()).toBe(6);
  await expectAccessible(page);
  expect(await get("nightly")).toMatchObject({ cron: "30 3 * * *", jitter_ms: 90_000, input: { n: 1 } });
  await page.context().close();
});

test("edits, pauses, explains, resumes, starts and deletes a schedule", async () => {
  const body = { id: "hourly", workflow_id: "report", every: "1h", input: {} };
  await dashboard.api.request("POST /schedules", { body });
  const page = await dashboard.open("/schedules/hourly", { width: 390, scheme: "dark" });
  await page.getByRole("button", { name: "Edit …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Every").fill("2h");
  await dialog.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("every 2h").waitFor();
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await dialog.getByLabel("Reason").fill("month end");
  await dialog.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByText("none while it is paused").waitFor();
  await page.getByRole("link", { name: "explain schedule hourly" }).click();
  await page.getByRole("dialog", { name: "Why is this schedule here?" }).getByText("schedule resume hourly").waitFor();
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Start now", exact: true }).click();
  await dialog.getByRole("button", { name: "Start now", exact: true }).click();
  const starts = page.getByRole("table", { name: "last starts" });
  await starts.getByRole("link").first().waitFor();
  const [start] = (await get("hourly")).last_starts;
  expect(start).toMatchObject({ cause: "trigger", slot: null });
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await dialog.getByRole("button", { name: "Resume", exact: true }).click();
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL("**/schedules");
  await expect(get("hourly")).rejects.toMatchObject({ status: 404 });
  await page.context().close();
});

test("backfills the past slots of a range, and shows the progress", async () => {
  const body = { id: "daily", workflow_id: "report", cron: "0 0 * * *", time_zone: "UTC", overlap: "allow", input: {} };
  await dashboard.api.request("POST /schedules", { body: body as never });
  const page = await dashboard.open("/schedules/daily");
  await page.getByRole("button", { name: "Backfill …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("First slot").fill("2026-01-05T12:00");
  await dialog.getByLabel("Last slot").fill("2026-01-01T12:00");
  expect(await dialog.getByRole("button", { name: "Start backfill", exact: true }).isDisabled()).toBe(true);
  await dialog.getByLabel("First slot").fill("2026-01-01T12:00");
  await dialog.getByLabel("Last slot").fill("2026-01-05T12:00");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Start backfill", exact: true }).click();
  await page.getByText("of 4 slots handled").waitFor();
  await expectAccessible(page);
  const slots = async () => (await get("daily")).last_starts.map(({ slot }) => slot?.slice(0, 10)).sort();
  const expected = ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05"];
  await expect.poll(slots, { timeout: 20_000 }).toEqual(expected);
  await page.getByRole("table", { name: "last starts" }).getByText("backfill").nth(3).waitFor();
  await page.context().close();
});

test("a viewer sees schedules and no actions; its request is refused", async () => {
  const key = await dashboard.keyOf("viewer");
  const page = await dashboard.open("/schedules", { key });
  await page.getByRole("link", { name: "nightly", exact: true }).click();
  await page.getByText("30 3 * * * (Europe/Berlin)").waitFor();
  expect(await page.locator(".action").count()).toBe(0);
  expect(await page.getByRole("button", { name: /…$/ }).count()).toBe(0);
  const headers = { "x-api-key": key };
  const url = `${dashboard.url}/api/v1/schedules/nightly/pause`;
  expect((await page.context().request.post(url, { headers, data: {} })).status()).toBe(403);
  await page.context().close();
});
