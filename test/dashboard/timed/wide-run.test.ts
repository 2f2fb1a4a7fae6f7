// A run with a list of 10,000 items: its plan and its virtual table of children.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Dashboard, longestTasksMs } from "../harness.ts";

const CHILDREN = 10_000;
const TASK_MS_MAX = 50;

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start();
  await dashboard.api.workflows.apply({
    id: "wide",
    steps: {
      list: { type: "transform", input: { count: "${size(input.items)}" } },
      each: { topic: "demo.echo", depends_on: ["list"], for_each: "${input.items}", input: { n: "${item}" } },
      after: { topic: "demo.echo", depends_on: ["each"], input: {} },
    },
  } as never);
});

afterAll(() => dashboard?.close());

const node = (page: Page, step: string) => page.locator(`.plan a[data-step="${step}"]`);

test("L53: a run with 10,000 children is one node with counts, without long tasks", async () => {
  const input = { items: Array.from({ length: CHILDREN }, (_, n) => n) };
  const { run_id } = await dashboard.api.runs.start("wide", { input });
  const page = await dashboard.open("/runs");
  const longest = await longestTasksMs(page, async () => {
    await page.getByRole("link", { name: run_id, exact: true }).click();
    await node(page, "each").waitFor();
    expect(await page.locator(".plan a.node").count()).toBe(3);
    await node(page, "each").click();
    const rows = page.getByRole("region", { name: "items" });
    await rows.getByRole("row").nth(5).waitFor();
    for (let screen = 0; screen < 20; screen++) await rows.evaluate((element) => element.scrollBy(0, 2_000));
    await rows.getByText("succeeded").first().waitFor();
    await node(page, "each")
      .getByText(/^[2-9]\d{3}\/10,000/)
      .waitFor();
    expect(await rows.getByRole("row").count()).toBeLessThan(60);
  });
  expect(longest).toHaveLength(5);
  expect(longest[0]).toBeLessThan(TASK_MS_MAX);
  await page.context().close();
});
