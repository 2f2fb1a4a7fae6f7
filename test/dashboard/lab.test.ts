// Lab: experiments that run in a thread of the control plane, and a replay of recorded contention.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runRequest } from "../../src/lab/requests.ts";
import { seedContention } from "./data/seed.ts";
import { Dashboard, expectAccessible } from "./harness.ts";
import { createKeys, type TestKeys } from "./keys.ts";

let dashboard: Dashboard;
let keys: TestKeys;
let operator: string;

beforeAll(async () => {
  dashboard = await Dashboard.start({ seed: seedContention });
  keys = await createKeys(dashboard);
  operator = await keys.create({ tenant: "default", role: "operator" });
});

afterAll(() => dashboard.close());

const SMALL = "contenders=30&policies=baseline,default";

test("runs an experiment: the report has the figures of the command line", async () => {
  const page = await dashboard.open("/lab", { key: operator });
  await page.getByLabel("contenders").fill("30");
  await page.getByLabel("rows", { exact: true }).fill("baseline\ndefault");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const figures = page.getByRole("region", { name: "drain time and retries" });
  await figures.waitFor();
  const search = new URLSearchParams(new URL(page.url()).search);
  expect(Object.fromEntries(search)).toEqual({
    ...{ experiment: "lock-busy", contenders: "30", policies: "baseline,default", run: "1" },
  });
  const params = { contenders: "30", policies: ["baseline", "default"] };
  const report = await runRequest({ name: "lock-busy", params, records: [] });
  if ("kind" in report) throw new Error(report.detail);
  const [table] = report.tables;
  const expected = (table?.rows ?? []).flatMap((row) => row.map(({ text }) => text));
  expect(await figures.locator("tbody th, tbody td").allTextContents()).toEqual(expected);
  await page.getByText(report.findings[0]?.replaceAll("`", "") ?? "no finding").waitFor();
  await page.getByText("cordum lab lock-busy --seed 1 --seeds 1 --contenders 30").waitFor();
  expect(await page.locator(".chart").count()).toBe(3);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Table" }).last().click();
  await page.getByRole("region", { name: /values$/ }).waitFor();

  // The address is the request: a reload shows the same report.
  await page.reload();
  await figures.waitFor();
  await page.goBack();
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
  expect(await figures.count()).toBe(0);
  await page.context().close();
});

test("a rejected parameter is shown at its field", async () => {
  const page = await dashboard.open("/lab?experiment=lock-busy", { key: operator, expected: [/status of 400/] });
  const field = page.locator(".field", { hasText: "contenders" }).first();
  await field.getByRole("textbox").fill("0");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await field.getByRole("alert").getByText("give a whole number from 1 to 100000").waitFor();
  expect(await field.getByRole("textbox").getAttribute("aria-invalid")).toBe("true");
  await expectAccessible(page);
  await page.getByLabel("rows", { exact: true }).fill("fixed:never");
  await field.getByRole("textbox").fill("30");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".lab-rows").getByRole("alert").waitFor();
  await page.context().close();
});

test("the control plane answers while an experiment runs, and Stop ends it", async () => {
  const page = await dashboard.open("/lab?experiment=safety-outage&run=1", { key: operator, expected: [/ERR_/] });
  await page.getByText("running safety-outage").waitFor();
  for (let n = 0; n < 20; n++) expect((await fetch(`${dashboard.url}/healthz`)).status).toBe(200);
  await page.getByText("running safety-outage").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
  // The thread is free for the next one at once.
  await page.goto(`${dashboard.url}/lab?experiment=lock-busy&run=1&${SMALL}`);
  await page.getByRole("region", { name: "drain time and retries" }).waitFor({ timeout: 15_000 });
  await page.context().close();
});

test("replays the recorded contention under other policies", async () => {
  const page = await dashboard.open("/lab?experiment=replay", { key: keys.root, width: 390, scheme: "dark" });
  await page.getByLabel("rows", { exact: true }).fill("in_force\nbounded:500ms:0.3");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const figures = page.getByRole("region", { name: "retries and drain time" });
  await figures.waitFor();
  expect(await figures.locator("tbody th").allTextContents()).toEqual(["recorded", "in_force", "bounded:500ms:0.3"]);
  await expectAccessible(page);
  await page.context().close();
});

test("a viewer runs nothing, and a key of one tenant replays nothing", async () => {
  const viewer = await keys.create({ tenant: "default", role: "viewer" });
  const page = await dashboard.open("/lab?experiment=lock-busy&run=1", { key: viewer });
  await page.getByText("use a key of role operator").waitFor();
  expect(await page.getByRole("button", { name: "Run" }).count()).toBe(0);
  expect(await page.getByRole("navigation", { name: "pages" }).getByRole("link", { name: "Lab" }).count()).toBe(0);
  const statusOf = async (of: Page, path: string, key: string) =>
    (
      await of.context().request.post(`${dashboard.url}/api/v1${path}`, { headers: { "x-api-key": key }, data: {} })
    ).status();
  expect(await statusOf(page, "/lab/lock-busy", viewer)).toBe(403);
  expect(await statusOf(page, "/lab/replay", operator)).toBe(403);
  await page.context().close();
});
