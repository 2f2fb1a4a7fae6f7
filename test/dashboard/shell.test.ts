// The frame around all pages: sign-in, navigation, filters, live updates.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Dashboard, expectAccessible } from "./harness.ts";

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
    const page = await dashboard.open("/jobs", { key: null });
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(await page.locator("body").innerText()).not.toMatch(/\d/);
    await expectAccessible(page);
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
    await expectAccessible(page);
    await page.context().close();
  });
});

describe("states of data", () => {
  test("L52: a failed query is not shown as an empty list", async () => {
    const page = await dashboard.open("/", { expected: [/status of 500/] });
    const problem = { title: "store unavailable", detail: "try again", code: "internal", status: 500 };
    await page.route("**/api/v1/jobs?*", (route) => route.fulfill({ status: 500, json: problem }));
    await page.getByRole("link", { name: "Jobs" }).click();
    await page.getByText("could not load jobs: store unavailable").waitFor();
    expect(await page.getByText("no jobs match").count()).toBe(0);
    await page.unroute("**/api/v1/jobs?*");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("30 jobs").waitFor();
    await page.context().close();
  });
});
