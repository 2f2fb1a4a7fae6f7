import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { copied, Dashboard, expectAccessible } from "./harness.ts";

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start({ argv: ["--workflows", "examples/workflows"] });
});

afterAll(() => dashboard.close());

const node = (page: Page, step: string) => page.locator(`.plan a[data-step="${step}"]`);

test("pending steps are drawn, the critical path is marked, and a step can be rerun", async () => {
  const input = { customer: "Ann", region: "eu", items: [{ sku: "a-1", count: 2 }] };
  const { run_id } = await dashboard.api.runs.start("every-step", { input });
  const page = await dashboard.open(`/runs/${run_id}`);
  await node(page, "pay").waitFor();
  await page.locator(".page-title .badge", { hasText: "succeeded" }).waitFor();
  const critical = await page.locator(".plan a.node.critical .node-id").allTextContents();
  expect(critical).toContain("pay");
  expect(critical).not.toContain("ask");
  await expectAccessible(page);
  await node(page, "pay").click();
  await page.getByRole("button", { name: "Rerun from here", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Rerun from here" }).click();
  await page.getByText("rerun of").waitFor();
  expect(page.url()).not.toContain(run_id);
  for (const view of ["Steps", "Input and output", "Timeline"]) {
    await page.getByRole("link", { name: view, exact: true }).click();
    await expectAccessible(page);
  }
  await page.context().close();
});

test("a run is paused, resumed and cancelled", async () => {
  const { run_id } = await dashboard.api.runs.start("approval-first", { input: { what: "test" } });
  const page = await dashboard.open(`/runs/${run_id}`);
  const state = (text: string) => page.locator(".page-title .badge", { hasText: text }).waitFor();
  const press = async (name: string) => {
    await page.locator(".page-actions").getByRole("button", { name, exact: true }).click();
    if (name !== "Resume") await page.getByRole("dialog").getByRole("button", { name, exact: true }).click();
  };
  await press("Pause");
  await state("paused");
  await press("Resume");
  await state("running");
  await press("Cancel");
  await state("cancelled");
  expect((await dashboard.api.runs.get(run_id)).state).toBe("CANCELLED");
  await page.context().close();
});

test("a run that is undone shows what was undone; it is stopped, and a failed compensation is retried", async () => {
  const undo = (topic: string) => ({ compensate: { topic } });
  await dashboard.api.workflows.apply({
    id: "saga",
    steps: {
      charge: { topic: "demo.echo", ...undo("demo.echo") },
      book: { topic: "demo.echo", depends_on: ["charge"], ...undo("ops.unserved") },
      seat: { topic: "demo.echo", depends_on: ["book"], ...undo("demo.broken") },
      mail: { topic: "demo.broken", depends_on: ["seat"] },
    },
  } as never);
  const { run_id } = await dashboard.api.runs.start("saga", { input: {} });
  const page = await dashboard.open(`/runs/${run_id}`);
  const section = page.getByRole("region", { name: "Compensation", exact: true });
  await section.getByText("0 of 3 steps undone; undoing book; 1 failed").waitFor();
  await node(page, "book").getByText("undoing").waitFor();
  await expectAccessible(page);
  await page.locator(".page-actions").getByRole("button", { name: "Stop undoing", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop undoing", exact: true }).click();
  await section.getByText("undoing book; 1 failed; stopped").waitFor();
  // The compensation that waits for a worker is given up.
  await dashboard.api.jobs.cancel(`${run_id}:book.undo@1`);
  await section.getByText("0 of 3 steps undone; 2 failed; stopped").waitFor();
  await page.locator(".page-title .badge", { hasText: "failed" }).waitFor();
  await section.getByText("not undone").first().waitFor();
  // The cancelled one has no dead letter.
  await section.getByRole("button", { name: "Retry", exact: true }).click();
  const history = async () => JSON.stringify((await dashboard.api.jobs.get(`${run_id}:seat.undo@1`)).history);
  await expect.poll(history).toContain("revived");
  await page.context().close();
});

test("the items of a list in a loop are listed by iteration", async () => {
  const each = { topic: "demo.echo", for_each: "${input.items}", input: { n: "${item}" } };
  const twice = { type: "loop", until: "iteration == 2", max_iterations: 5, timeout_sec: 600, steps: { each } };
  await dashboard.api.workflows.apply({ id: "twice", steps: { twice } } as never);
  const { run_id } = await dashboard.api.runs.start("twice", { input: { items: [1, 2, 3] } });
  const page = await dashboard.open(`/runs/${run_id}?step=each`);
  await page.locator(".page-title .badge", { hasText: "succeeded" }).waitFor();
  const iterations = page.getByLabel("Iteration", { exact: true });
  expect(await iterations.locator("option").allTextContents()).toEqual(["2 (current)", "1"]);
  const rows = page.getByRole("table", { name: "items" }).getByRole("row");
  const jobs = () =>
    rows.getByRole("link", { name: "explain job" }).evaluateAll((all) => all.map((one) => one.ariaLabel));
  await expect.poll(() => rows.count()).toBe(4);
  const current = await jobs();
  await iterations.selectOption("1");
  await page.waitForURL(/iteration=1/);
  await expect.poll(async () => (await jobs()).filter((job) => !current.includes(job)).length).toBe(3);
  await expectAccessible(page);
  await page.context().close();
});

test("an event is sent to a waiting run, and the earlier iterations of its loop are listed", async () => {
  const reply = { type: "wait", event: "customer.answered", depends_on: ["answer"], timeout_sec: 300 };
  const steps = { answer: { topic: "demo.echo" }, reply };
  const talk = { type: "loop", until: "iteration == 2", max_iterations: 5, timeout_sec: 600, steps };
  await dashboard.api.workflows.apply({ id: "chat", steps: { talk } } as never);
  const { run_id } = await dashboard.api.runs.start("chat", { input: {} });
  const page = await dashboard.open(`/runs/${run_id}?step=reply`);
  const dialog = page.getByRole("dialog", { name: "Send an event" });
  const step = page.getByRole("region", { name: "Step reply" });
  for (const text of ["it works", "thanks"]) {
    await step.getByText("customer.answered").waitFor();
    await page.getByRole("button", { name: "Send event …" }).click();
    expect(await dialog.getByLabel("Name").inputValue()).toBe("customer.answered");
    await dialog.getByLabel("Data").fill("{");
    expect(await dialog.getByRole("button", { name: "Send", exact: true }).isDisabled()).toBe(true);
    await dialog.getByLabel("Data").fill(`{"text":"${text}"}`);
    if (text === "thanks") {
      await expectAccessible(page);
      const command = `cordum run event ${run_id} customer.answered '{"text":"thanks"}'`;
      expect(await copied(page, "Send", "CLI")).toBe(command);
      expect(await copied(page, "Send", "curl")).toContain(`/workflow-runs/${run_id}/events`);
    }
    await dialog.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByText("step reply took the event").first().waitFor();
  }
  await page.locator(".page-title .badge", { hasText: "succeeded" }).waitFor();
  expect(await page.getByRole("button", { name: "Send event …" }).count()).toBe(0);
  await page.goto(`${dashboard.url}/runs/${run_id}?step=talk`);
  const rows = page.getByRole("table", { name: "iterations of answer" }).getByRole("row");
  await expect.poll(() => rows.count()).toBe(3);
  expect(await rows.nth(1).getByRole("cell").first().textContent()).toBe("1");
  await expectAccessible(page);
  await page.context().close();
});
