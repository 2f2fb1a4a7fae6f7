// Rollouts: started from the form, judged on real jobs of both arms, paused, promoted and rolled back.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Dashboard, expectAccessible } from "../harness.ts";
import { createKeys, type TestKeys } from "../keys.ts";

let dashboard: Dashboard;
let keys: TestKeys;

beforeAll(async () => {
  dashboard = await Dashboard.start();
  keys = await createKeys(dashboard);
});

afterAll(() => dashboard.close());

/** Far more than a proof needs. */
const JOBS_MAX = 2_000;

/** Each is a unit. 100 of the control arm set the scale; then each gate needs about 60 blocks of 4 units for its proof. */
async function submitJobs(count: number): Promise<void> {
  for (let done = 0; done < count; done += 50) {
    // At most 50 units of a second are measured.
    const second = new Promise((resolve) => setTimeout(resolve, 1_000));
    const batch = Array.from({ length: Math.min(50, count - done) }, (_, n) => ({ topic: "demo.echo", input: { n } }));
    await Promise.all([second, ...batch.map((job) => keys.api.jobs.submit(job))]);
  }
}

const act = async (page: Page, button: string, reason: string) => {
  await page.getByRole("button", { name: button, exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/Reason/).fill(reason);
  await dialog.getByRole("button", { name: button, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
};

const stateOf = async (id: string) => (await keys.api.request("GET /rollouts/{id}", { path: { id } })).state;

test("starts a rollout after showing what is wrong at each field, and what it would show", async () => {
  const page = await dashboard.open("/rollouts", { key: keys.root, expected: [/status of 400/] });
  await page.getByText("no rollouts yet").waitFor();
  await expectAccessible(page);
  await page.getByRole("link", { name: "Start a rollout" }).click();
  const dialog = page.getByRole("dialog");
  const preview = dialog.getByRole("button", { name: "Preview" }).last();
  await dialog.getByLabel("Treatment share").fill("a tenth");
  await preview.click();
  await dialog.getByText("give the value to try").waitFor();
  await dialog.getByText("give percentages").waitFor();
  expect(await dialog.getByLabel("Treatment share").getAttribute("aria-invalid")).toBe("true");
  await dialog.getByLabel("Treatment share").fill("100%");
  await dialog.getByLabel("Treatment value").fill("bounded:250ms:0.3");
  await preview.click();
  await dialog.getByRole("alert").getByText("leaves no control arm").waitFor();
  await expectAccessible(page);
  await dialog.getByLabel("Treatment share").fill("50%");
  await dialog.getByLabel("Horizon of a unit").fill("1s");
  await dialog.getByLabel("Gates").fill("job_result_latency_p95<2x");
  await preview.click();
  await dialog.getByRole("alert").getByText("column 23").waitFor();
  await dialog.getByLabel("Gates").fill("job_result_latency_p95<=2x\nlock_busy_retries<=1.0x");
  await dialog.getByLabel("Reason").fill("CHG-7");
  await preview.click();
  await dialog.getByText("bounded:500ms:0.3").waitFor();
  await dialog.getByRole("region", { name: "Prediction" }).waitFor();
  await dialog.getByRole("region", { name: "Smallest detectable effect", exact: true }).waitFor();
  expect((await keys.api.request("GET /rollouts", {})).items).toEqual([]);
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL(/\/rollouts\/R1$/);
  await page.getByText("No unit is judged yet").waitFor();
  expect(await keys.api.request("GET /rollouts/{id}", { path: { id: "R1" } })).toMatchObject({
    ...{ class: "lock_busy", policy: "bounded:250ms:0.3", shares: [0.5], horizon_ms: 1_000, reason: "CHG-7" },
  });
  await page.goto(`${dashboard.url}/rollouts?start=1`);
  await dialog.getByLabel("Treatment value").fill("fixed:1s");
  await preview.click();
  await dialog.getByRole("link", { name: "R1" }).waitFor();
  expect(await dialog.getByRole("button", { name: "Start", exact: true }).isDisabled()).toBe(true);
  await page.context().close();
});

test("shows both arms as they are judged, and pauses, promotes and rolls back", async () => {
  const page = await dashboard.open("/rollouts/R1", { key: keys.root });
  await page.getByText("No unit is judged yet").waitFor();
  await submitJobs(300);
  const arms = page.getByRole("region", { name: "arms, figures" });
  const units = async () => {
    const cells = await arms
      .getByRole("row", { name: /^units/ })
      .getByRole("cell")
      .allTextContents();
    return cells.slice(0, 2).map(Number);
  };
  // Without a reload.
  await expect.poll(async () => (await units()).every((count) => count > 100), { timeout: 60_000 }).toBe(true);
  const { arms: judged } = await keys.api.request("GET /rollouts/{id}", { path: { id: "R1" } });
  expect(await units()).toEqual([judged.control.units, judged.treatment.units]);
  await arms.getByRole("row", { name: /^result latency p95/ }).waitFor();
  await page.getByRole("region", { name: "gates, evidence" }).getByText("undecided").first().waitFor();
  await act(page, "Pause", "looking at it");
  await page.getByText("looking at it").first().waitFor();
  const { started_by: id, started_by_name: name } = await keys.api.request("GET /rollouts/{id}", {
    path: { id: "R1" },
  });
  await page.getByText(`by ${name}`).first().waitFor();
  expect(await page.getByText(`by ${id}`).count()).toBe(0);
  expect(await stateOf("R1")).toBe("paused");
  await page.getByRole("row", { name: /looking at it/ }).waitFor();
  await act(page, "Resume", "");
  await expect.poll(() => stateOf("R1")).toBe("running");
  for (let submitted = 300; submitted < JOBS_MAX && (await stateOf("R1")) === "running"; submitted += 400) {
    await submitJobs(400);
    const before = await units();
    await expect.poll(async () => String(await units()) !== String(before), { timeout: 30_000 }).toBe(true);
  }
  await page.getByText("Every gate is proved.").waitFor({ timeout: 30_000 });
  await expectAccessible(page);
  await act(page, "Promote", "proved");
  await page.getByText("is bounded:250ms:0.3 for all units").waitFor();
  await act(page, "Roll back", "second thoughts");
  await page.getByText("Rolled back to bounded:500ms:0.3").waitFor();
  expect(await page.getByRole("button", { name: /^(Pause|Promote|Roll back|End)/ }).count()).toBe(0);
  await page.context().close();
}, 180_000);

test("draws the figures over time, with a table of the same values", async () => {
  const page = await dashboard.open("/rollouts/R1", { key: keys.root, width: 390, scheme: "dark" });
  await page.getByLabel("Figure", { exact: true }).selectOption("latency");
  await page.waitForURL(/figure=latency/);
  const chart = page.getByRole("region", { name: "Arms over time" });
  await chart.locator("canvas").waitFor();
  await chart.getByRole("button", { name: "Table" }).click();
  const { series } = await keys.api.request("GET /rollouts/{id}", { path: { id: "R1" } });
  expect(await chart.getByRole("row").count()).toBe(series.length + 1);
  await expectAccessible(page);
  await page.goto(`${dashboard.url}/rollouts?explain=rollout:R1`);
  await page.getByRole("dialog").getByText("Rolled back to").waitFor();
  await expectAccessible(page);
  await page.context().close();
});

test("a viewer of all tenants sees no actions, and its direct requests are refused", async () => {
  await keys.api.request("POST /rollouts", { body: { class: "no_worker", policy: "fixed:1s", share: 0.2 } });
  const viewer = await keys.create({ tenant: "*", role: "viewer" });
  const page = await dashboard.open("/rollouts/R2", { key: viewer });
  await page.getByText("No unit is judged yet").waitFor();
  expect(await page.getByRole("button", { name: /Pause|Promote|Roll back|^End/ }).count()).toBe(0);
  expect(await page.getByText("History").count()).toBe(0);
  await page.goto(`${dashboard.url}/rollouts?start=1`);
  await page.getByRole("link", { name: "R2", exact: true }).waitFor();
  expect(await page.getByText("Start a rollout").count()).toBe(0);
  const request = (path: string, data: object) =>
    page.context().request.post(`${dashboard.url}/api/v1/rollouts${path}`, { headers: { "x-api-key": viewer }, data });
  for (const path of ["/R2/pause", "/R2/promote", "/R2/rollback", "/R2/end"]) {
    expect((await request(path, {})).status(), path).toBe(403);
  }
  expect((await request("/preview", { class: "no_worker", policy: "fixed:2s", share: 0.2 })).status()).toBe(403);
  await page.context().close();
});

test("a key of one tenant has no entry in the navigation, and reads why", async () => {
  const viewer = await keys.create({ tenant: "default", role: "viewer" });
  const page = await dashboard.open("/rollouts", { key: viewer, expected: [/status of 403/] });
  await page.getByText("could not load rollouts").waitFor();
  expect(await page.getByRole("navigation", { name: "pages" }).getByText("Rollouts").count()).toBe(0);
  await page.context().close();
});
