// Three incidents at once: the first page names each, with the button that resolves it.
import { afterAll, beforeAll, expect, test } from "vitest";
import { seedDeadLetters } from "../data/seed.ts";
import { Dashboard, expectAccessible } from "../harness.ts";

const LETTERS = 5_000;
const SOON = { timeout: 60_000, interval: 500 };

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start({ seed: (dir) => seedDeadLetters(dir, LETTERS) });
});

afterAll(() => dashboard?.close());

test("names a hot lock, a stopped kernel and 5,000 dead letters, each with the button that resolves it", async () => {
  const { api, url } = dashboard;
  await api.request("POST /demo/lock", {});
  const attention = async () => (await api.request("GET /overview", {})).attention.map(({ kind }) => kind);
  await expect.poll(attention, SOON).toContain("lock_hot");
  await api.request("POST /demo/kernel", { body: { stopped: true } });
  await Promise.all(Array.from({ length: 10 }, () => api.jobs.submit({ topic: "demo.echo", input: {} })));
  await expect.poll(attention, SOON).toContain("safety_unavailable");

  const page = await dashboard.open("/", { width: 390, scheme: "dark" });
  const item = (text: RegExp) => page.getByRole("region", { name: "Needs attention" }).locator("li", { hasText: text });
  const [kernel, letters, lock] = [
    item(/the safety kernel is unavailable/),
    item(/unresolved dead letters: 5000/),
    item(/^caution\s*the lock .* is contended/),
  ];
  for (const one of [kernel, letters, lock]) await one.waitFor();
  await lock.getByRole("link", { name: "Spread the retries …" }).waitFor();
  await expectAccessible(page);

  await lock.getByRole("link", { name: "Show the lock" }).click();
  await page.getByRole("table", { name: "locks" }).getByRole("row").nth(1).waitFor();
  await page.goto(url);
  await letters.getByRole("link", { name: "Retry or drop …" }).click();
  await page
    .getByRole("row", { name: /price list not found/ })
    .getByRole("button", { name: "Retry …" })
    .click();
  await page.getByRole("dialog").getByText("5,000, counted at").waitFor();
  await page.goto(url);
  await kernel.getByRole("button", { name: "Start the safety kernel", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Start the safety kernel", exact: true }).click();
  await kernel.waitFor({ state: "detached", timeout: SOON.timeout });
  expect((await api.request("GET /demo", {})).kernel_stopped).toBe(false);
  await page.context().close();
}, 180_000);
