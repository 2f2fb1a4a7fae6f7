// What holds for every page of the registry, new ones included: accessible in both themes, no horizontal overflow, no actions for
// viewers, shortcuts, deep links, an idle main thread.
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { isAllowed } from "../../src/gateway/auth/access.ts";
import { ROUTES } from "../../src/gateway/server.ts";
import { Dashboard, expectAccessible } from "./harness.ts";
import { NAV_ENTRIES, PATHS } from "./registry.ts";

const WIDTHS = [390, 640, 1_000, 1_440, 2_560];
const IDLE_MS = 60_000;
const BUSY_SHARE_MAX = 0.01;
const SOON = { timeout: 10_000 };

/** The id of a record for each page with a parameter. A new page needs one. */
const SAMPLES: Readonly<Record<string, (api: Client) => Promise<string>>> = {
  "/jobs/:id": async (api) => (await api.jobs.submit({ topic: "demo.approve", input: { amount: 5 } })).job_id,
  "/runs/:id": async (api) => (await api.runs.start("approval-first", { input: { what: "refund" } })).run_id,
  "/dead-letters/:id": async (api) => {
    const { job_id } = await api.jobs.submit({ topic: "demo.broken", input: { order: "A-1" } });
    await api.jobs.wait(job_id);
    return job_id;
  },
  "/schedules/:id": async (api) => {
    const body = { id: "hourly", workflow_id: "approval-first", every: "1h", input: { what: "report" } };
    return (await api.request("POST /schedules", { body })).id;
  },
  "/rollouts/:id": async (api) =>
    (await api.request("POST /rollouts", { body: { class: "no_worker", policy: "fixed:1s", share: 0.1 } })).id,
};

/** Buttons that change nothing. */
const READING = ["Try"];

let dashboard: Dashboard;
let viewer: string;
let targets: readonly PromiseSettledResult<string>[];

beforeAll(async () => {
  dashboard = await Dashboard.start({ argv: ["--workflows", "examples/workflows"] });
  const { api } = dashboard;
  for (const topic of ["demo.echo", "demo.flaky", "demo.slow"]) await api.jobs.submit({ topic, input: { topic } });
  targets = await Promise.allSettled(PATHS.map((path) => targetOf(api, path)));
  viewer = await dashboard.keyOf("viewer", "*");
});

afterAll(() => dashboard?.close());

function target(at: number): string {
  const found = targets[at];
  if (found?.status === "fulfilled") return found.value;
  throw found?.reason;
}

async function targetOf(api: Client, path: string): Promise<string> {
  if (!path.includes(":")) return path;
  const sample = SAMPLES[path];
  if (sample === undefined) throw new Error(`add a sample of \`${path}\` to SAMPLES`);
  return path.replace(/:\w+/, encodeURIComponent(await sample(api)));
}

/** Its content is there. */
async function settled(page: Page): Promise<void> {
  await page.getByRole("heading", { level: 1 }).waitFor();
  await expect.poll(() => page.locator("main .loading").count(), SOON).toBe(0);
}

/** The page, and each of its tabs. */
async function* viewsOf(page: Page): AsyncGenerator<string> {
  yield page.url();
  for (const link of await page.locator(".tabs a").all()) {
    if ((await link.getAttribute("aria-current")) !== null) continue;
    await link.click();
    await settled(page);
    yield page.url();
  }
}

const overflowPx = (page: Page) =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

describe.each(PATHS.map((path, at) => [path, at] as const))("%s", (_, at) => {
  test("is accessible in both themes, fits every width, lists shortcuts, survives a reload, and is idle", async () => {
    const page = await dashboard.open(target(at));
    await settled(page);
    expect(await page.locator("main .state.failed").count(), "failed").toBe(0);
    for await (const url of viewsOf(page)) {
      await expectAccessible(page);
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        expect(await overflowPx(page), `${url} at ${width} px`).toBe(0);
      }
    }
    const title = await page.getByRole("heading", { level: 1 }).innerText();
    const url = page.url();
    await page.reload();
    await settled(page);
    expect([page.url(), await page.getByRole("heading", { level: 1 }).innerText()]).toEqual([url, title]);
    await page.keyboard.press("?");
    const shortcuts = page.getByRole("dialog", { name: "Keyboard shortcuts" });
    for (const { text } of NAV_ENTRIES) await shortcuts.getByText(`go to ${text}`, { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.evaluate(FRAMES), SOON).toEqual({ requested: 0, animations: 0 });
    expect(await busyShare(page), "share of time that the main thread is busy").toBeLessThan(BUSY_SHARE_MAX);
    await page.context().close();
  });

  test("shows no actions to a viewer", async () => {
    const page = await dashboard.open(target(at), { key: viewer, expected: [/status of 403/] });
    await settled(page);
    for await (const url of viewsOf(page)) {
      const found = await page.locator("main :is(.action, button.main, button.danger)").allInnerTexts();
      expect(
        found.filter((name) => !READING.includes(name.trim())),
        url,
      ).toEqual([]);
    }
    await page.context().close();
  });
});

/** The frames that the page requests within two frames, and its running animations. */
const FRAMES = `new Promise((resolve) => {
  const original = window.requestAnimationFrame;
  let requested = 0;
  window.requestAnimationFrame = (run) => {
    requested++;
    return original.call(window, run);
  };
  const end = () => {
    window.requestAnimationFrame = original;
    resolve({ requested, animations: document.getAnimations().filter((one) => one.playState === "running").length });
  };
  original.call(window, () => original.call(window, end));
})`;

/** Of a minute of virtual time, which passes at once: the cost of timers and polls. */
async function busyShare(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const busyS = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name: string) => metrics.find((metric) => metric.name === name)?.value ?? Number.NaN;
    return of("ScriptDuration") + of("LayoutDuration") + of("RecalcStyleDuration");
  };
  const before = await busyS();
  const passed = new Promise<void>((done) => session.once("Emulation.virtualTimeBudgetExpired", () => done()));
  await session.send("Emulation.setVirtualTimePolicy", { policy: "advance", budget: IDLE_MS });
  await passed;
  return ((await busyS()) - before) / (IDLE_MS / 1_000);
}

test("every request that a viewer may not send is refused", async () => {
  const page = await dashboard.open("/", { key: viewer });
  const principal = { id: "v", org: "*", role: "viewer", caller: { role: "viewer" } } as const;
  const refused = ROUTES.filter((route) => !isAllowed(principal, route));
  expect(refused.length).toBeGreaterThan(40);
  const headers = { origin: dashboard.url, "x-cordum-csrf": "1" };
  for (const { method, path } of refused) {
    const url = `${dashboard.url}${path.replace(/:\w+/g, "x")}`;
    const response = await page
      .context()
      .request.fetch(url, { method, headers, data: method === "GET" ? undefined : {} });
    expect([response.status(), (await response.json()).code], `${method} ${path}`).toEqual([403, "forbidden"]);
  }
  await page.context().close();
});

test("a deep link opens a record, its tab and its explanation", async () => {
  const { job_id } = await dashboard.api.jobs.submit({ topic: "demo.approve", input: { amount: 7 } });
  const page = await dashboard.open(`/jobs?topic=demo.approve&explain=${encodeURIComponent(`job:${job_id}`)}`);
  await page.getByRole("dialog", { name: "Why is this job here?" }).getByRole("link", { name: job_id }).waitFor();
  expect(await page.getByLabel("Topic").inputValue()).toBe("demo.approve");
  await page.context().close();
});
