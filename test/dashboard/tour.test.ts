// The tour of a demo: its buttons cause real incidents, which the other pages show.
import { afterAll, beforeAll, expect, test } from "vitest";
import { cordum } from "../cli/run.ts";
import { copied, Dashboard, expectAccessible } from "./harness.ts";

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start({ argv: ["--workflows", "examples/workflows"] });
});

afterAll(() => dashboard.close());

const breaker = async () => (await dashboard.api.status()).safety.breaker;

test("one click starts a ticket that waits for the approval of its refund", async () => {
  const page = await dashboard.open("/");
  const tour = page.getByRole("region", { name: "Tour" });
  await tour.getByText("demo", { exact: true }).waitFor();
  await expectAccessible(page);
  await tour.getByRole("button", { name: "Start a ticket", exact: true }).click();
  await tour.getByRole("link", { name: "Watch the run" }).waitFor();
  const { items } = await dashboard.api.request("GET /workflow-runs", { query: {} });
  const id = items.find(({ workflow_id }) => workflow_id === "ticket-triage")?.run_id ?? "";
  await tour.getByRole("link", { name: "Review the refund" }).click();
  await page.getByText('"amount": 120').waitFor();
  await page.getByText("approve-demo-approve").first().waitFor();
  await page.keyboard.press("a");
  await page.getByRole("dialog").getByLabel("Note").fill("the parcel is lost");
  await page.keyboard.press("Control+Enter");
  await page.getByText("approved refund.pay").waitFor();
  expect(await dashboard.api.runs.wait(id)).toMatchObject({ state: "SUCCEEDED", output: { category: "refund" } });
  await page.context().close();
});

test("one button stops the safety kernel: jobs wait, the breaker opens; started again, they are checked", async () => {
  const page = await dashboard.open("/", { width: 390, scheme: "dark" });
  await page.getByRole("button", { name: "Stop the safety kernel", exact: true }).click();
  await page.getByText("the safety kernel is unavailable").waitFor();
  const submit = () => dashboard.api.jobs.submit({ topic: "demo.echo", input: {} });
  const [job] = await Promise.all(Array.from({ length: 10 }, submit));
  const id = job?.job_id ?? "";
  await expect.poll(breaker).toBe("open");
  expect(await dashboard.api.jobs.get(id)).toMatchObject({
    state: "PENDING",
    wait: { retry_class: "safety_unavailable" },
  });
  await page.goto(`${dashboard.url}/jobs/${id}?explain=job:${id}`);
  await page
    .getByRole("dialog")
    .getByText(/stopped by the demo/)
    .first()
    .waitFor();
  await page.goto(dashboard.url);
  await expectAccessible(page);
  const tour = page.getByRole("region", { name: "Tour" });
  await tour.getByRole("button", { name: "Start the safety kernel", exact: true }).click();
  expect(await dashboard.api.jobs.wait(id, { timeoutMs: 60_000 })).toMatchObject({ state: "SUCCEEDED" });
  await expect.poll(breaker, { timeout: 60_000 }).toBe("closed");
  await page.getByRole("button", { name: "Stop the safety kernel", exact: true }).waitFor();
  await expect.poll(() => page.getByText("the safety kernel is unavailable").count(), { timeout: 10_000 }).toBe(0);
  const { items } = await dashboard.api.request("GET /audit", { query: { action: "demo kernel stopped" } });
  expect(items).toMatchObject([{ who_name: "ops" }]);
  await page.context().close();
});

test("one button makes a lock hot: its retries are in the waves, and the run ends", async () => {
  const page = await dashboard.open("/");
  expect(await copied(page, "Make a lock hot", "CLI")).toBe("cordum demo hot-lock");
  await page.getByRole("button", { name: "Make a lock hot", exact: true }).click();
  await page.getByRole("link", { name: "Watch the waves" }).waitFor();
  expect(await page.getByRole("button", { name: "Make a lock hot", exact: true }).isDisabled()).toBe(true);
  const { hot_lock: hot } = await dashboard.api.request("GET /demo", {});
  const retries = async () => {
    const { series } = await dashboard.api.request("GET /waves", { query: {} });
    return series.find((one) => one.class === "lock_busy")?.total ?? 0;
  };
  await expect.poll(retries, { timeout: 20_000 }).toBeGreaterThan(100);
  const ended = await dashboard.api.runs.wait(hot?.run_id ?? "", { timeoutMs: 60_000 });
  expect(ended).toMatchObject({ state: "SUCCEEDED" });
  expect((await dashboard.api.status()).dead_letters).toBe(0);
  await page.context().close();
});

test("only roles that operate all tenants get the tour, and requests of others are refused", async () => {
  for (const role of ["viewer", "admin"] as const) {
    const key = await dashboard.keyOf(role);
    const page = await dashboard.open("/", { key });
    await page.getByRole("heading", { name: "Now" }).waitFor();
    await page
      .getByText("Live workers")
      .or(page.getByText("Throughput"))
      .or(page.getByText("Backlog"))
      .first()
      .waitFor();
    expect(await page.getByRole("region", { name: "Tour" }).count()).toBe(0);
    const headers = { "x-api-key": key };
    const sent = await page
      .context()
      .request.post(`${dashboard.url}/api/v1/demo/kernel`, { headers, data: { stopped: true } });
    expect(sent.status()).toBe(403);
    await page.context().close();
  }
  expect((await dashboard.api.request("GET /demo", {})).kernel_stopped).toBe(false);
});

test("the same incidents have commands", async () => {
  const env = { CORDUM_URL: dashboard.url, CORDUM_API_KEY: await dashboard.keyOf("admin", "*") };
  for (const [command, state] of [
    ["stop-kernel", "stopped"],
    ["start-kernel", "answers"],
    ["status", "answers"],
  ] as const) {
    const { out, exitCode } = await cordum(["demo", command], env);
    expect([exitCode, out]).toEqual([0, expect.stringMatching(new RegExp(`safety kernel +${state}\\n`))]);
  }
});
