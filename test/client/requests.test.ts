import { afterEach, describe, expect, test } from "vitest";
import { CordumError } from "../../src/worlds/client-sdk.ts";
import { clientOf, reply, type ScriptedGateway, serve } from "./scripted-gateway.ts";

let gateway: ScriptedGateway;

afterEach(() => gateway?.close());

const SUBMITTED = { job_id: "j1", id: "j1", trace_id: "t1", state: "PENDING", replayed: false };
const keys = () => gateway.received.map(({ headers }) => headers["idempotency-key"]);

describe("retries", () => {
  test("waits for the larger of Retry-After and retry_after_ms, and repeats the key", async () => {
    gateway = await serve((_, response) => {
      const problem = { code: "too_many_runs", title: "later", detail: "later", retryable: true };
      if (gateway.received.length === 1)
        reply(response, 429, { ...problem, retry_after_ms: 1_200 }, { "retry-after": "3" });
      else if (gateway.received.length === 2)
        reply(response, 503, { ...problem, retry_after_ms: 4_000 }, { "retry-after": "1" });
      else reply(response, 200, SUBMITTED);
    });
    const { client, delays } = clientOf(gateway.url);
    expect(await client.jobs.submit({ topic: "a.b" })).toEqual(SUBMITTED);
    expect(delays).toEqual([3_150, 4_200]);
    expect(new Set(keys()).size).toBe(1);
    expect(keys()[0]).toMatch(/^[\w-]{36}$/);
  });

  test("a connection reset after the request was accepted creates one job", async () => {
    const jobs = new Map<string, string>();
    gateway = await serve(({ headers }, response) => {
      const key = String(headers["idempotency-key"]);
      const replayed = jobs.has(key);
      if (!replayed) jobs.set(key, `j${jobs.size + 1}`);
      if (gateway.received.length === 1) response.destroy();
      else reply(response, 200, { ...SUBMITTED, job_id: jobs.get(key), replayed });
    });
    const { client } = clientOf(gateway.url);
    expect(await client.jobs.submit({ topic: "a.b" })).toMatchObject({ job_id: "j1", replayed: true });
    await client.jobs.submit({ topic: "a.b" });
    expect(jobs.size).toBe(2);
  });

  test("does not repeat a request without a key whose outcome is unknown", async () => {
    gateway = await serve((_, response) => response.destroy());
    const { client } = clientOf(gateway.url);
    await expect(client.jobs.cancel("j1")).rejects.toMatchObject({ code: "unreachable", status: null });
    expect(gateway.received).toHaveLength(1);
    await expect(client.jobs.get("j1")).rejects.toMatchObject({ code: "unreachable" });
    expect(gateway.received).toHaveLength(6);
  });

  test("repeats a request without a key if the response says that nothing was changed", async () => {
    gateway = await serve((_, response) => {
      if (gateway.received.length === 1) reply(response, 503, { code: "lock_busy", retryable: true });
      else if (gateway.received.length === 2) reply(response, 200, { run_id: "r1", state: "PAUSED" });
      else reply(response, 503, { code: "store_unavailable", retryable: true });
    });
    const { client } = clientOf(gateway.url);
    expect(await client.runs.pause("r1")).toMatchObject({ state: "PAUSED" });
    await expect(client.runs.pause("r1")).rejects.toMatchObject({ code: "store_unavailable" });
    expect(gateway.received).toHaveLength(3);
  });

  test("delays grow with jitter", async () => {
    gateway = await serve((_, response) => reply(response, 503, {}));
    const { client, delays } = clientOf(gateway.url);
    await expect(client.status()).rejects.toMatchObject({ code: "http_503", status: 503 });
    expect(delays).toEqual([150, 300, 600, 1_200]);
  });
});

describe("limits", () => {
  test("throws the error at once if its delay exceeds the deadline", async () => {
    gateway = await serve((_, response) => reply(response, 503, { code: "not_ready" }, { "retry-after": "90" }));
    const { client, delays } = clientOf(gateway.url);
    await expect(client.status()).rejects.toMatchObject({ code: "not_ready", retryAfterMs: 90_000 });
    expect(delays).toEqual([]);
  });

  test("a response that does not arrive ends with the deadline and keeps the key", async () => {
    const deadline = new AbortController();
    gateway = await serve(() => deadline.abort(new Error("time is up")));
    const timeout = (delayMs: number) => (delayMs === 5_000 ? deadline.signal : new AbortController().signal);
    const { client } = clientOf(gateway.url, { timeoutMs: 5_000, parts: { timeout } });
    const error = await client.jobs.submit({ topic: "a.b" }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(CordumError);
    expect(error).toMatchObject({ code: "deadline_exceeded", idempotencyKey: keys()[0] });
  });

  test("an aborted signal ends the attempt and the delay with its reason", async () => {
    const stop = new AbortController();
    gateway = await serve(() => stop.abort(new Error("stopped")));
    const { client } = clientOf(gateway.url);
    await expect(client.jobs.get("j1", { signal: stop.signal })).rejects.toThrow("stopped");
    await expect(client.jobs.get("j1", { signal: stop.signal })).rejects.toThrow("stopped");
    expect(gateway.received).toHaveLength(1);
  });
});

test("errors carry the problem and the request id", async () => {
  const problem = {
    code: "job_not_found",
    title: "job not found",
    detail: "check the id",
    retryable: false,
    job_id: "j",
  };
  gateway = await serve((_, response) => reply(response, 404, problem, { "x-request-id": "q1" }));
  const { client } = clientOf(gateway.url);
  const error = await client.jobs.get("j").catch((thrown: unknown) => thrown);
  const { code, title, detail } = problem;
  expect(error).toMatchObject({ code, title, detail, status: 404, requestId: "q1", problem });
  expect(String(error)).toBe("CordumError: job not found: check the id");
});

test("lists request the next page on demand, and encode ids", async () => {
  gateway = await serve(({ path }, response) => {
    const isFirst = !path.includes("cursor=");
    reply(response, 200, {
      items: isFirst ? [{ seq: 1 }, { seq: 2 }] : [{ seq: 3 }],
      next_cursor: isFirst ? "c&1" : null,
    });
  });
  const { client } = clientOf(gateway.url);
  const seen: unknown[] = [];
  for await (const line of client.runs.timeline("a/b")) {
    seen.push(line);
    expect(gateway.received).toHaveLength(seen.length < 3 ? 1 : 2);
  }
  expect(seen).toHaveLength(3);
  expect(gateway.received.map(({ path }) => path)).toEqual([
    "/workflow-runs/a%2Fb/timeline",
    "/workflow-runs/a%2Fb/timeline?cursor=c%261",
  ]);
});
