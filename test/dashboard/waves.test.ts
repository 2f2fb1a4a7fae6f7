// Waves: the retries of a hot run lock as they arrive, and the lock itself.
import { afterAll, beforeAll, expect, test } from "vitest";
import { Dashboard, expectAccessible } from "./harness.ts";

const RESULTS = 150;

let dashboard: Dashboard;

// The lock settings of the baseline: results of one run do not queue, and retry after a fixed delay.
beforeAll(async () => {
  dashboard = await Dashboard.start({
    env: {
      CORDUM_RUN_LOCK_ENGINE_WAIT_MS: "0",
      CORDUM_RUN_LOCK_COALESCE: "false",
      CORDUM_RETRY_LOCK_BUSY_POLICY: "fixed:500ms",
    },
  });
  await dashboard.api.workflows.apply({
    id: "wide",
    steps: { each: { topic: "demo.echo", for_each: "${input.items}", input: { n: "${item}" } } },
  } as never);
});

afterAll(() => dashboard.close());

test("nothing runs on the page without retries, and no figures are invented", async () => {
  const page = await dashboard.open("/waves");
  await page.getByText("no retries in the last minute").waitFor();
  await page.getByText("no lock is held or waited for").waitFor();
  expect(await page.locator(".chart").count()).toBe(0);
  await expectAccessible(page);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const scriptS = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "ScriptDuration")?.value ?? Number.NaN;
  };
  const before = await scriptS();
  await page.waitForTimeout(2_000);
  expect((await scriptS()) - before).toBeLessThan(0.04);
  await page.context().close();
});

test("shows a wave while the results of one run fail to get its lock", async () => {
  const page = await dashboard.open("/waves");
  await page.getByText("no retries in the last minute").waitFor();
  const input = { items: Array.from({ length: RESULTS }, (_, n) => n) };
  const { run_id } = await dashboard.api.runs.start("wide", { input });
  // Live, without a reload.
  const spread = page.getByRole("table", { name: "spread of lock_busy" });
  await spread.getByText("in waves").waitFor();
  const figures = async () => {
    const cells = await spread.getByRole("row").nth(1).getByRole("cell").allTextContents();
    const [total = 0, peak = 0, , ratio = 0, poisson = 0] = cells.slice(2).map((text) => Number(text.replace(",", "")));
    return { isComplete: total > RESULTS, hasPeak: peak > RESULTS / 5, isWave: ratio > 2 * poisson };
  };
  await expect.poll(figures, { timeout: 10_000 }).toEqual({ isComplete: true, hasPeak: true, isWave: true });
  const lock = page.getByRole("table", { name: "locks" }).getByRole("row").filter({ hasText: run_id });
  expect(Number((await lock.getByRole("cell").nth(4).innerText()).replaceAll(",", ""))).toBeGreaterThan(0);
  await expectAccessible(page);

  expect(await page.getByRole("link", { name: "Replay under other policies" }).count()).toBe(1);
  await lock.getByRole("link", { name: /^explain lock/ }).click();
  await page.getByRole("dialog", { name: "Why is this lock here?" }).getByText("retry.lock_busy.policy").waitFor();
  await expectAccessible(page);
  const deepLink = new URL(page.url());
  await page.keyboard.press("Escape");

  await page.keyboard.press("p");
  await page.getByText("paused at").waitFor();
  await page.getByRole("button", { name: "Table" }).first().click();
  const values = page.getByRole("region", { name: "Arrivals, values" });
  const shown = (await values.locator("td").allTextContents()).map(Number);
  expect(Math.max(...shown)).toBeGreaterThan(RESULTS / 5);
  expect(Math.min(...shown)).toBeGreaterThan(0);
  await page.keyboard.press("p");
  await page.getByText("every second").waitFor();

  await page.goto(deepLink.href);
  await page.getByRole("dialog", { name: "Why is this lock here?" }).waitFor();
  await dashboard.api.request("POST /workflow-runs/{id}/cancel", { path: { id: run_id }, body: {} });
  await page.context().close();
});

test("L49: the time shown is in the address", async () => {
  const page = await dashboard.open("/waves?window=5", { width: 390, scheme: "dark" });
  await page.getByRole("table", { name: "spread of lock_busy" }).waitFor();
  expect(await page.getByLabel("Time shown").inputValue()).toBe("5");
  await expectAccessible(page);
  await page.getByLabel("Time shown").selectOption("20");
  expect(new URL(page.url()).search).toBe("?window=20");
  await page.goBack();
  expect(await page.getByLabel("Time shown").inputValue()).toBe("5");
  await page.context().close();
});

test("a key of one tenant gets no link to the page, and its request is refused", async () => {
  const page = await dashboard.open("/waves", { key: await dashboard.keyOf("admin"), expected: [/status of 403/] });
  await page.getByText("could not load waves").waitFor();
  expect(await page.getByRole("navigation", { name: "pages" }).getByRole("link", { name: "Waves" }).count()).toBe(0);
  await page.context().close();
});
