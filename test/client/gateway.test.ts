import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "../../src/worlds/client-sdk.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;
let url: string;
let client: Client;

beforeAll(async () => {
  gateway = await openTestGateway();
  url = await gateway.app.listen({ host: "127.0.0.1", port: 0 });
  client = createClient({ url, apiKey: "" });
});

afterAll(() => gateway.close());

test("one key is one job; get, list, explain and cancel see it", async () => {
  const job = { topic: "demo.client", input: { text: "hello" } };
  const first = await client.jobs.submit(job, { idempotencyKey: "k1" });
  const second = await client.jobs.submit(job, { idempotencyKey: "k1" });
  expect(second).toMatchObject({ job_id: first.job_id, replayed: true });
  const listed: string[] = [];
  for await (const { job_id } of client.jobs.list({ topic: "demo.client", limit: 1 })) listed.push(job_id);
  expect(listed).toEqual([first.job_id]);
  expect(await client.jobs.explain(first.job_id)).toMatchObject({ job_id: first.job_id });
  const waiting = client.jobs.wait(first.job_id);
  await client.jobs.cancel(first.job_id, { reason: "test" });
  expect(await waiting).toMatchObject({ state: "CANCELLED" });
});

test("problems of the gateway have code, detail and request id", async () => {
  await expect(client.jobs.get("absent")).rejects.toMatchObject({
    code: "job_not_found",
    status: 404,
    requestId: expect.any(String),
  });
});

test("starts a run once and follows it to its end", async () => {
  const steps = { pause: { type: "delay", delay_sec: 0 } };
  await client.workflows.apply({ id: "short", steps });
  const { run_id } = await client.runs.start("short", {}, { idempotencyKey: "r1" });
  expect(await client.runs.start("short", {}, { idempotencyKey: "r1" })).toMatchObject({ run_id, replayed: true });
  const states: string[] = [];
  for await (const { state } of client.runs.watch(run_id)) states.push(state);
  expect(states.at(-1)).toBe("SUCCEEDED");
});
