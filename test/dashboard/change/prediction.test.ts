// The prediction of a rollout: from contention that a control plane has recorded, beside what the rollout then measures.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../../../src/client/client.ts";
import { createClient } from "../../../src/worlds/client-sdk.ts";
import { startUp, tokenHeader } from "../../cli/run.ts";
import { Dashboard, expectAccessible } from "../harness.ts";

/** A result that meets a held lock is retried: it neither waits for the lock nor joins the commit of its holder. */
const LOCK_BUSY = { CORDUM_RUN_LOCK_ENGINE_WAIT_MS: "0", CORDUM_RUN_LOCK_COALESCE: "false" };
const RUNS = 16;
const ITEMS = 8;

let dashboard: Dashboard;

beforeAll(async () => {
  dashboard = await Dashboard.start({ seed: recordContention, env: LOCK_BUSY });
}, 120_000);

afterAll(() => dashboard?.close());

/** A control plane writes what it has recorded when it stops. */
async function recordContention(dir: string): Promise<void> {
  const up = startUp(["--demo", "--port", "0", "--data", dir], LOCK_BUSY, ["dist/main.js"]);
  try {
    const url = await up.url;
    await work(createClient({ url, apiKey: tokenHeader(url)["x-api-key"] ?? "" }));
  } finally {
    up.child.kill("SIGTERM");
    await up.ended;
  }
}

/** Runs whose results meet at the lock of their run. */
async function work(api: Client): Promise<void> {
  const each = { topic: "demo.echo", for_each: "${input.items}", input: "${item}" };
  await api.request("POST /workflows", { body: { id: "price-items", steps: { each } } as never });
  const input = { items: Array.from({ length: ITEMS }, (_, n) => n) };
  for (let done = 0; done < RUNS; done += 8) {
    const started = await Promise.all(Array.from({ length: 8 }, () => api.runs.start("price-items", { input })));
    await Promise.all(started.map(({ run_id }) => api.runs.wait(run_id)));
  }
}

test("a rollout shows the prediction from recorded contention before its start, and beside its result", async () => {
  const { api } = dashboard;
  const { items } = await api.request("GET /contention", { query: {} });
  expect(items.length).toBeGreaterThan(0);
  const page = await dashboard.open("/rollouts?start=1");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Treatment value").fill("bounded:250ms:0.3");
  await dialog.getByLabel("Treatment share").fill("50%");
  await dialog.getByLabel("Horizon of a unit").fill("1s");
  await dialog.getByLabel("Gates").fill("lock_busy_retries<=1.5x");
  await dialog.getByRole("button", { name: "Preview" }).last().click();
  const predicted = dialog.getByRole("region", { name: "Prediction" });
  await predicted.getByText(/^from [\d,]+ recorded lock acquisitions/).waitFor();
  const valuesOf = async (name: string) => predicted.getByRole("row", { name }).getByRole("cell").allTextContents();
  for (const name of ["busy retries", "run lock wait p95", "result latency p95"]) {
    for (const value of await valuesOf(name)) expect([name, value]).toEqual([name, expect.stringMatching(/^[\d,.]+/)]);
  }
  const retries = await valuesOf("busy retries");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL(/\/rollouts\/R1$/);

  const arms = page.getByRole("region", { name: "arms, figures" });
  await arms.getByRole("columnheader", { name: "Predicted" }).waitFor();
  await page.getByText(/^Predicted at the start from [\d,]+ recorded lock acquisitions/).waitFor();
  await work(api);
  const row = arms.getByRole("row", { name: /^retries per unit/ });
  const measured = async () => (await row.getByRole("cell").allTextContents()).slice(0, 2);
  await expect.poll(async () => (await measured()).every((text) => /^\d/.test(text)), { timeout: 60_000 }).toBe(true);
  const { prediction, arms: judged } = await api.request("GET /rollouts/{id}", { path: { id: "R1" } });
  expect(judged.control.units + judged.treatment.units).toBeGreaterThan(0);
  // The same values as before the start.
  expect(prediction?.control.busy_retries).toBeGreaterThan(0);
  expect([prediction?.control, prediction?.treatment].map((one) => one?.busy_retries?.toLocaleString("en-US"))).toEqual(
    retries,
  );
  const [, , , beside] = await row.getByRole("cell").allTextContents();
  for (const value of retries) expect(beside).toContain(value);
  await expectAccessible(page);
  await page.context().close();
}, 120_000);
