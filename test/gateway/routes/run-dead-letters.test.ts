import { afterEach, expect, test } from "vitest";
import { settingsFrom } from "../../../src/config/config.ts";
import { permanent } from "../../../src/core/retry/intent.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";
import { applied, cel, type Json, OPEN, runIs, started } from "../workflow-fixtures.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const post = async (url: string, body?: object) => (await gateway.call("POST", url, { body })).json<Json>();

test("retrying the dead letter of a step reopens its run if a slot is free and the run exists", async () => {
  gateway = await openTestGateway({ settings: settingsFrom({ "limits.max_concurrent_runs": 1 }) });
  let isBroken = true;
  const handle = async () => {
    if (isBroken) throw permanent(new Error("broken"));
    return "mended";
  };
  await startWorker(gateway.world, { id: "w", topics: ["demo.part"], concurrency: 1, handle });
  await applied(gateway, { id: "part", steps: { part: { topic: "demo.part" } } });
  await applied(gateway, OPEN);
  const runId = await started(gateway, "part");
  expect(await runIs(gateway, runId, "FAILED")).toMatchObject({
    error: { message: expect.stringContaining("broken") },
  });
  const retry = `/api/v1/dlq/${runId}:part@1/retry`;

  const other = await started(gateway, "open");
  expect(await post(retry)).toMatchObject({ status: 429, code: "too_many_runs", current: 1, limit: 1 });
  await post(`/api/v1/workflow-runs/${other}/cancel`);
  isBroken = false;
  expect(await post(retry)).toMatchObject({ job_id: `${runId}:part@1` });
  expect(await runIs(gateway, runId, "SUCCEEDED")).toMatchObject({ output: { part: "mended" }, error: null });

  isBroken = true;
  const lost = await started(gateway, "part");
  await runIs(gateway, lost, "FAILED");
  await gateway.call("DELETE", `/api/v1/workflow-runs/${lost}`);
  expect(await post(`/api/v1/dlq/${lost}:part@1/retry`)).toMatchObject({ status: 409, code: "run_went_on" });
});

test.each([
  [256, 400],
  [262_144, 20_000],
])("inline limit %i: a run payload of %i bytes is readable by pointer, by its own tenant only", async (max, size) => {
  gateway = await openTestGateway({ settings: settingsFrom({ "limits.inline_bytes_max": max }) });
  const input = { text: "x".repeat(size), password: "hunter2hunter2" };
  const copy = { type: "transform", input: { text: cel("input.text"), password: cel("input.password") } };
  const later = { ...copy, depends_on: ["wait"] };
  const steps = { copy, wait: { type: "delay", delay_sec: 0 }, later };
  await applied(gateway, { id: "large", steps, output: cel("steps.copy.output") });
  const runId = await started(gateway, "large", { input });
  const run = await runIs(gateway, runId, "SUCCEEDED");
  const shown = { text: input.text, password: "[redacted]" };
  expect(run).toMatchObject({ input: shown, output: input, steps: { copy: { output: shown, output_at: null } } });
  const viewer = await gateway.keyOf("default", "viewer");
  const other = await gateway.keyOf("other", "admin");
  for (const ptr of [`ctx:${runId}`, `res:${runId}`, `res:${runId}:copy@1`, `res:${runId}:later@1`]) {
    const read = (key: string) => gateway.call("GET", `/api/v1/memory?ptr=${encodeURIComponent(ptr)}`, { key });
    const response = await read(viewer.key);
    expect(response.json(), ptr).toMatchObject({ key: ptr, json: shown });
    expect(response.body).not.toContain("hunter2");
    expect((await read(other.key)).statusCode).toBe(404);
  }
});
