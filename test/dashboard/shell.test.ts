// The frame around all pages: sign-in, roles, filters, states of data, live updates, shortcuts.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Dashboard, expectAccessible, startProxy } from "./harness.ts";

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start();
  await Promise.all(
    Array.from({ length: 30 }, (_, n) => dashboard.api.jobs.submit({ topic: "demo.echo", input: { n } })),
  );
});

afterAll(() => dashboard.close());

describe("sign-in", () => {
  test("L57: shows nothing of the control plane before sign-in", async () => {
    const page = await dashboard.open("/jobs?state=FAILED", { key: null, expected: [/status of 401/] });
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(await page.locator("body").innerText()).not.toMatch(/\d|FAILED|jobs/);
    await expectAccessible(page);
    await page.getByLabel("API key").fill("cordum_wrong_key");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("invalid API key").waitFor();
    await page.getByLabel("API key").fill(await dashboard.keyOf("viewer"));
    await page.getByRole("button", { name: "Sign in" }).click();
    // The page that was asked for.
    await page.getByText("no jobs match").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(await page.getByText("no jobs match").count()).toBe(0);
    await page.context().close();
  });

  test("the session is not readable by scripts", async () => {
    const page = await dashboard.open("/jobs");
    await page.getByText("30 jobs").waitFor();
    const readable = await page.evaluate(
      "JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }])",
    );
    expect(readable).not.toMatch(/cordum_\w/);
    const cookies = await page.context().cookies();
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: "Strict" }]);
    await page.context().close();
  });
});

describe("roles", () => {
  test("a viewer sees no actions, and its direct requests are refused", async () => {
    const { job_id } = await dashboard.api.jobs.submit({ topic: "demo.approve", input: {} });
    const path = `/jobs/${job_id}`;
    const operator = await dashboard.open(path, { key: await dashboard.keyOf("operator") });
    await operator.getByRole("button", { name: "Cancel", exact: true }).waitFor();
    await operator.context().close();
    const page = await dashboard.open(path, { key: await dashboard.keyOf("viewer"), expected: [/status of 403/] });
    await page.getByRole("heading", { name: "demo.approve" }).waitFor();
    expect(await page.locator(".action").count()).toBe(0);
    const status = await page.evaluate(async (url) => {
      const headers = { "content-type": "application/json", "x-cordum-csrf": "1" };
      return (await fetch(url, { method: "POST", headers, body: "{}" })).status;
    }, `/api/v1/jobs/${job_id}/cancel`);
    expect(status).toBe(403);
    await page.context().close();
  });
});

describe("filters", () => {
  test("L49: a reload and back keep the filter of the address", async () => {
    const page = await dashboard.open("/jobs?state=FAILED");
    await page.getByText("no jobs match").waitFor();
    expect(await page.getByLabel("State").inputValue()).toBe("FAILED");
    await page.getByLabel("State").selectOption("SUCCEEDED");
    await page.getByText("30 jobs").waitFor();
    await page.reload();
    await page.getByText("30 jobs").waitFor();
    expect(await page.getByLabel("State").inputValue()).toBe("SUCCEEDED");
    await page.goBack();
    await page.getByText("no jobs match").waitFor();
    expect(new URL(page.url()).search).toBe("?state=FAILED");
    await page.context().close();
  });
});

describe("states of data", () => {
  test("L52: a query that is on its way, or failed, is not shown as an empty list", async () => {
    const page = await dashboard.open("/runs", { expected: [/status of 500/] });
    await page.getByText("no runs match").waitFor();
    let answer = () => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route("**/api/v1/workflow-runs?*", async (route) => {
      await asked;
      await route.continue();
    });
    await page.getByLabel("State").selectOption("FAILED");
    await page.getByText("loading runs …").waitFor();
    expect(await page.getByText("no runs match").count()).toBe(0);
    answer();
    await page.getByText("no runs match").waitFor();
    const problem = { title: "internal error", detail: "see the log", code: "internal", status: 500 };
    await page.route("**/api/v1/jobs?*", (route) => route.fulfill({ status: 500, json: problem }));
    await page.getByRole("link", { name: "Jobs" }).click();
    await page.getByText("could not load jobs: internal error").waitFor();
    expect(await page.getByText("no jobs match").count()).toBe(0);
    await page.unroute("**/api/v1/jobs?*");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("link", { name: /^01/ }).first().waitFor();
    await page.context().close();
  });

  test("L56: after 10 s without a stream the page was marked as stale, and shows what it missed without a reload", async () => {
    const proxy = await startProxy(dashboard.url);
    const changed = await dashboard.api.jobs.submit({ topic: "demo.approve", input: {} });
    const page = await dashboard.open("/jobs?since=1h", { via: proxy.url, expected: [/ERR_/] });
    const row = (id: string) => page.getByRole("row", { name: id });
    await row(changed.job_id).getByText("approval required").waitFor();
    await page.locator(".live-mark", { hasText: "live" }).waitFor();
    await page.evaluate("window.isSamePage = true");
    proxy.cut();
    await page.locator(".stale", { hasText: /stale since \d\d:\d\d:\d\d/ }).waitFor();
    const { job_id: added } = await dashboard.api.jobs.submit({ topic: "demo.limited", input: {} });
    await dashboard.api.jobs.wait(added);
    await dashboard.api.approvals.reject(changed.job_id, { reason: "while the page is cut off" });
    await expect.poll(() => proxy.outageMs(), { timeout: 60_000 }).toBeGreaterThan(10_000);
    expect(await page.locator(".stale").count()).toBe(1);
    expect(await row(added).count()).toBe(0);
    await row(changed.job_id).getByText("approval required").waitFor();
    proxy.restore();
    await row(added).getByText("succeeded").waitFor();
    await row(changed.job_id).getByText("denied").waitFor();
    await page.locator(".live-mark", { hasText: "live" }).waitFor();
    expect(await page.locator(".stale").count()).toBe(0);
    expect(await page.evaluate("window.isSamePage")).toBe(true);
    await page.context().close();
    await proxy.close();
  });
});

test("`?` lists the keyboard shortcuts, and they work", async () => {
  const page = await dashboard.open("/runs");
  await page.getByText("no runs match").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).getByText("go to Jobs").waitFor();
  await expectAccessible(page);
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("j");
  await page.getByRole("link", { name: /^01/ }).first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("e");
  await page.getByRole("dialog", { name: "Why is this job here?" }).waitFor();
  expect(new URL(page.url()).search).toMatch(/^\?explain=job%3A/);
  await page.context().close();
});

test("L55: a job shows every attempt, newest first, with its error, its delay and what chose it", async () => {
  const { job_id } = await dashboard.api.jobs.submit({ topic: "demo.flaky", input: { order: "A-1" } });
  await dashboard.api.jobs.wait(job_id);
  const page = await dashboard.open(`/jobs/${job_id}`);
  const attempts = page.locator(".waterfall > li");
  await attempts.nth(2).waitFor();
  const texts = await attempts.allInnerTexts();
  const numbers = texts.flatMap((text) => /Attempt (\d)/.exec(text)?.[1] ?? []);
  expect(numbers).toEqual(["3", "2", "1"]);
  expect(texts[0]).not.toContain("then a delay");
  for (const [at, error] of ["demo failure of attempt 2", "demo failure of attempt 1"].entries()) {
    expect(texts[at + 1]).toContain(error);
    expect(texts[at + 1]).toMatch(/then a delay of .*, chosen by the worker/);
  }
  await page.getByRole("link", { name: "demo.flaky", exact: true }).waitFor();
  await page.context().close();
});
