// The dashboard on 1,000,000 jobs: rows, filters and counts without a scan, and bulk actions on what is filtered.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seedJobs } from "../data/seed-jobs.ts";
import { Dashboard, expectAccessible, longestTasksMs } from "../harness.ts";
import { NAV_ENTRIES } from "../registry.ts";

const JOBS = 1_000_000;
const ROWS_MS_MAX = 300;
const PAINT_MS_MAX = 1_000;
/** The machine may be busy with other work for a while; the dashboard may not. */
const ROUNDS_MAX = 3;
const SAMPLES = 20;

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start({ seed: (dir) => seedJobs(dir, JOBS) });
});

afterAll(() => dashboard?.close());

/** `timeTo(act, isShown)`: from the act until the frame that shows the result, in ms. */
const TIME_TO = `window.timeTo = (act, isShown) => new Promise((resolve) => {
  const startMs = performance.now();
  const look = () => (isShown() ? resolve(performance.now() - startMs) : requestAnimationFrame(look));
  act();
  requestAnimationFrame(look);
})`;
const ROWS = `[...document.querySelectorAll(".virtual [role=row]")]`;

async function p95(page: Page, step: (at: number) => string): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS_MAX && best >= ROWS_MS_MAX; round++) {
    const times: number[] = [];
    for (let at = 0; at < SAMPLES; at++) times.push(Number(await page.evaluate(step(at))));
    times.sort((a, b) => a - b);
    best = Math.min(best, times[Math.ceil(times.length * 0.95) - 1] ?? Number.NaN);
  }
  return best;
}

describe("1,000,000 jobs", () => {
  test("L51: shows the first rows within 300 ms", async () => {
    const page = await dashboard.open("/runs");
    await page.getByText("no runs match").waitFor();
    await page.evaluate(TIME_TO);
    const measured = await p95(
      page,
      () => `timeTo(() => document.querySelector('nav a[href="/jobs"]').click(), () => ${ROWS}.length > 8)
        .then(async (ms) => {
          await timeTo(() => document.querySelector('nav a[href="/runs"]').click(), () => ${ROWS}.length === 0);
          return ms;
        })`,
    );
    expect(measured).toBeLessThan(ROWS_MS_MAX);
    await page.context().close();
  });

  test("filters by state and topic within 300 ms, and counts without a scan", async () => {
    const page = await dashboard.open("/jobs");
    await page.getByText("of 10,000+ jobs loaded").waitFor();
    await page.evaluate(TIME_TO);
    const steps = [
      ["State", "FAILED", 1, "failed"],
      ["State", "CANCELLED", 1, "cancelled"],
      ["Topic", "mail", 2, "mail"],
      ["State", "SUCCEEDED", 1, "succeeded"],
      ["Topic", "ship", 2, "ship"],
      ["State", "FAILED", 1, "failed"],
      ["Topic", "pay", 2, "pay"],
    ] as const;
    const measured = await p95(page, (at) => {
      const [label, value, column, text] = steps[at % steps.length] ?? steps[0];
      return `timeTo(
        () => {
          const label = [...document.querySelectorAll("main label")].find((one) => one.textContent === "${label}");
          label.control.value = "${value}";
          label.control.dispatchEvent(new Event("change", { bubbles: true }));
        },
        () => ${ROWS}.length > 8 && ${ROWS}.every((row) => row.children[${column}]?.textContent === "${text}"),
      )`;
    });
    expect(measured).toBeLessThan(ROWS_MS_MAX);
    await page.context().close();
  });

  test("shows exact counts below the bound, and scrolls without long tasks", async () => {
    const page = await dashboard.open("/jobs?state=CANCELLED&topic=audit");
    await page.getByText("100 of 2,500 jobs loaded").waitFor();
    const rows = page.getByRole("region", { name: "jobs" });
    const [longest = Number.NaN] = await longestTasksMs(page, async () => {
      const foot = page.locator(".list-foot");
      const scroll = async () => {
        await rows.evaluate((element) => element.scrollBy(0, 4_000));
        // A count and its noun do not break.
        return (await foot.innerText()).trim().replace("\u00a0", " ");
      };
      await expect.poll(scroll, { timeout: 90_000, interval: 10 }).toBe("2,500 jobs");
    });
    expect(longest).toBeLessThan(50);
    expect(await rows.getByRole("row").count()).toBeLessThan(60);
    await page.context().close();
  });

  test("L49, L50: a bulk action means the filter on the screen, with count and sample first", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 12; n++) ids.push((await dashboard.api.jobs.submit({ topic: "far", input: { n } })).job_id);
    const page = await dashboard.open("/jobs?state=FAILED&topic=mail");
    await page.getByRole("button", { name: "Retry …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("state FAILED, topic mail").waitFor();
    // The exact count of an operation.
    await dialog.getByRole("button", { name: "Retry 12,500", exact: true }).waitFor();
    expect(await dialog.getByRole("table", { name: "sample" }).getByText("failed").count()).toBe(5);
    expect(await page.getByRole("button", { name: "Cancel …" }).count()).toBe(0);
    await page.keyboard.press("Escape");
    await page.getByLabel("State").selectOption("");
    await page.getByLabel("Topic").fill("far");
    await page.keyboard.press("Enter");
    await page.getByText("12 jobs").waitFor();
    await page.reload();
    await page.getByRole("button", { name: "Cancel …" }).click();
    await dialog.getByText("12, counted at").waitFor();
    await expectAccessible(page);
    // Submitted after the count: not part of the operation.
    const later = await dashboard.api.jobs.submit({ topic: "far", input: {} });
    await dialog.getByLabel("Pace").selectOption("200");
    await dialog.getByRole("button", { name: "Cancel 12", exact: true }).click();
    await page.getByText("12 of 12").waitFor();
    await expectAccessible(page);
    for (const id of ids) expect((await dashboard.api.jobs.get(id)).state).toBe("CANCELLED");
    expect((await dashboard.api.jobs.get(later.job_id)).state).not.toBe("CANCELLED");
    await page.getByRole("button", { name: "Close" }).click();
    await page.context().close();
  });

  test("paints every page for the first time within 1 s", async () => {
    for (const { path } of NAV_ENTRIES) {
      let best = Number.POSITIVE_INFINITY;
      for (let round = 0; round < ROUNDS_MAX && best >= PAINT_MS_MAX; round++) {
        const page = await dashboard.open(path);
        const paint = `new Promise((resolve) => new PerformanceObserver((list) => resolve(list.getEntries()[0].startTime))
          .observe({ type: "paint", buffered: true }))`;
        best = Math.min(best, Number(await page.evaluate(paint)));
        await page.context().close();
      }
      expect(best, path).toBeLessThan(PAINT_MS_MAX);
    }
  });
});
