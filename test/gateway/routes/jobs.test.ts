import { afterEach, describe, expect, test } from "vitest";
import { permanent } from "../../../src/core/retry/intent.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Payload = Readonly<Record<string, unknown>>;

function post(body: unknown, headers: Readonly<Record<string, string>> = {}) {
  const payload = JSON.stringify(body);
  return gateway.app.inject({ method: "POST", url: "/api/v1/jobs", payload, headers: { ...JSON_TYPE, ...headers } });
}

function get(path: string, headers: Readonly<Record<string, string>> = {}) {
  return gateway.app.inject({ method: "GET", url: `/api/v1${path}`, headers });
}

const JSON_TYPE = { "content-type": "application/json" };

describe("POST /jobs", () => {
  test("runs a job and returns the result of the worker", async () => {
    gateway = await openTestGateway();
    const stop = await startWorker(gateway.world, {
      id: "w1",
      topics: ["demo.echo"],
      concurrency: 1,
      handle: async (item) => ({ echo: item.input }),
    });
    const submitted = await post({ topic: "demo.echo", input: { n: 1 }, labels: { a: "b" }, risk_tags: ["x"] });
    expect(submitted.statusCode).toBe(200);
    const { job_id, trace_id } = submitted.json<Payload>();
    await gateway.ended(1);
    const job = (await get(`/jobs/${job_id}`)).json<Payload>();
    expect(job).toMatchObject({
      job_id,
      trace_id,
      state: "SUCCEEDED",
      topic: "demo.echo",
      tenant_id: "default",
      attempt: 1,
      wait: null,
      safety: { decision: "ALLOW", rule_id: "allow-the-rest", bypassed: false },
      labels: { a: "b" },
      risk_tags: ["x"],
      input: { n: 1 },
      result: { echo: { n: 1 } },
      error: null,
    });
    expect(job.history).toHaveLength(1);
    await stop();
  });

  test("converts a prompt to the input format of the wire protocol", async () => {
    gateway = await openTestGateway();
    const { job_id } = (await post({ topic: "demo.echo", prompt: "hi", context: { k: 1 } })).json<Payload>();
    const job = (await get(`/jobs/${job_id}`)).json<Payload>();
    expect(job.input).toEqual({
      prompt: "hi",
      adapter_id: null,
      priority: "batch",
      topic: "demo.echo",
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      tenant_id: "default",
      context: { k: 1 },
    });
  });

  test("stores a large input in the blob store and returns it", async () => {
    const { defaultSettings } = await import("../../../src/config/config.ts");
    const settings = {
      ...defaultSettings(),
      limits: { ...defaultSettings().limits, inlineBytesMax: 10, concurrentJobsMax: null, concurrentRunsMax: 10 },
    };
    gateway = await openTestGateway({ settings });
    const input = { text: "x".repeat(1_000) };
    const { job_id } = (await post({ topic: "demo.echo", input })).json<Payload>();
    expect((await get(`/jobs/${job_id}`)).json<Payload>().input).toEqual(input);
  });

  test("a denied job is a 403 with rule and reason, also when replayed", async () => {
    gateway = await openTestGateway();
    const first = await post({ topic: "demo.forbidden" }, { "idempotency-key": "k" });
    const second = await post({ topic: "demo.forbidden" }, { "idempotency-key": "k" });
    for (const response of [first, second]) {
      expect(response.statusCode).toBe(403);
      expect(response.json()).toMatchObject({ code: "denied", rule_id: "deny-demo-forbidden", state: "DENIED" });
    }
    const { job_id } = first.json<Payload>();
    expect(second.json<Payload>().job_id).toBe(job_id);
    expect((await get(`/jobs/${job_id}`)).json()).toMatchObject({ state: "DENIED", safety: { decision: "DENY" } });
  });

  test.each([
    ["no topic", {}, "invalid_submission"],
    ["an invalid topic", { topic: "demo.*" }, "invalid_submission"],
    ["an array", [1], "invalid_submission"],
    ["invalid labels", { topic: "a", labels: { n: 1 } }, "invalid_submission"],
    ["invalid risk tags, by their API name", { topic: "a", risk_tags: "x" }, "`risk_tags`"],
  ])("rejects %s", async (_, body, expected) => {
    gateway = await openTestGateway();
    const response = await post(body);
    expect(response.statusCode).toBe(400);
    expect(response.headers["content-type"]).toContain("application/problem+json");
    expect(response.body).toContain(expected);
    const { error, code, status, detail, title, type, retryable } = response.json<Payload>();
    expect({ code, status, retryable }).toEqual({ code: "invalid_submission", status: 400, retryable: false });
    expect(error).toBe(detail);
    expect(type).toBe("urn:cordum:error:invalid_submission");
    expect(title).not.toBe("");
  });

  test("distinguishes empty, malformed, oversized and non-JSON bodies", async () => {
    gateway = await openTestGateway();
    const send = (payload: string, type = "application/json") =>
      gateway.app.inject({ method: "POST", url: "/api/v1/jobs", payload, headers: { "content-type": type } });
    expect((await send("")).json()).toMatchObject({ code: "invalid_submission" });
    expect((await send("{")).json()).toMatchObject({ code: "invalid_request", status: 400 });
    expect((await send(`{"topic":"a","input":"${"x".repeat(70_000)}"}`)).json()).toMatchObject({
      code: "body_too_large",
    });
    expect((await send("topic=a", "application/x-www-form-urlencoded")).json()).toMatchObject({
      code: "unsupported_media_type",
      status: 415,
    });
    expect((await send('{"topic":"demo.echo"}', "application/json; charset=utf-8")).statusCode).toBe(200);
  });
});

describe("idempotency", () => {
  test("concurrent submissions with one key and body create one job", async () => {
    gateway = await openTestGateway();
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        index % 2 === 0
          ? post({ topic: "demo.echo", input: 1 }, { "idempotency-key": "k1" })
          : post({ input: 1, idempotency_key: "k1", topic: "demo.echo" }),
      ),
    );
    expect(new Set(responses.map((response) => response.statusCode))).toEqual(new Set([200]));
    expect(new Set(responses.map((response) => response.json<Payload>().job_id)).size).toBe(1);
    expect(responses.filter((response) => response.json<Payload>().replayed === false)).toHaveLength(1);
    expect((await get("/jobs")).json<{ items: unknown[] }>().items).toHaveLength(1);
  });

  test("a key with another body is a 422 that names the existing job", async () => {
    gateway = await openTestGateway();
    const { job_id } = (await post({ topic: "demo.echo", input: 1 }, { "idempotency-key": "k" })).json<Payload>();
    const response = await post({ topic: "demo.echo", input: 2 }, { "idempotency-key": "k" });
    expect(response.statusCode).toBe(422);
    expect(response.json()).toMatchObject({ code: "idempotency_conflict", job_id, retryable: false });
  });

  test("a repeated prompt is a replay", async () => {
    gateway = await openTestGateway();
    const send = () => post({ topic: "demo.echo", prompt: "hi" }, { "idempotency-key": "k" });
    const first = (await send()).json<Payload>();
    expect((await send()).json()).toMatchObject({ job_id: first.job_id, replayed: true });
    const other = await post({ topic: "demo.echo", prompt: "ho" }, { "idempotency-key": "k" });
    expect(other.statusCode).toBe(422);
  });

  test("keys are scoped by tenant (L22)", async () => {
    gateway = await openTestGateway();
    const send = (tenant: string) => post({ topic: "demo.echo" }, { "idempotency-key": "k", "x-tenant-id": tenant });
    const [one, other] = [await send("default"), await send("acme")];
    expect(one.json<Payload>().job_id).not.toBe(other.json<Payload>().job_id);
    expect(other.json()).toMatchObject({ replayed: false });
  });

  test("rejects different keys in header and body", async () => {
    gateway = await openTestGateway();
    const response = await post({ topic: "demo.echo", idempotency_key: "a" }, { "idempotency-key": "b" });
    expect(response.json()).toMatchObject({ status: 400, code: "invalid_request" });
  });
});

describe("lists", () => {
  interface Page {
    readonly items: readonly { readonly job_id: string; readonly state: string }[];
    readonly next_cursor: string | null;
  }

  const submit = async (count: number) => {
    const responses = await Promise.all(Array.from({ length: count }, () => post({ topic: "demo.echo" })));
    return responses.map((response) => response.json<{ job_id: string }>().job_id);
  };

  test("pages neither repeat nor skip items while jobs are added (L40)", async () => {
    gateway = await openTestGateway();
    const first = await submit(25);
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page: Page = (await get(`/jobs?limit=10${cursor === null ? "" : `&cursor=${cursor}`}`)).json<Page>();
      expect(page.items.length).toBeGreaterThan(0);
      seen.push(...page.items.map((item) => item.job_id));
      cursor = page.next_cursor;
      if (cursor !== null) await submit(3);
    } while (cursor !== null);
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.toSorted()).toEqual(first.toSorted());
  });

  test("filters by state, case-insensitively", async () => {
    gateway = await openTestGateway();
    await submit(3);
    await post({ topic: "demo.forbidden" });
    const denied = (await get("/jobs?state=denied&limit=1")).json<Page>();
    expect(denied.items.map((item) => item.state)).toEqual(["DENIED"]);
    expect((await get("/jobs?state=FAILED")).json()).toEqual({ items: [], next_cursor: null });
    expect((await get("/jobs?state=DENYED")).json<Payload>().detail).toContain("did you mean `DENIED`?");
  });

  test.each(["limit=0", "limit=201", "limit=x", "limit=1&limit=2", "cursor=nonsense", "cursor="])(
    "?%s is refused",
    async (query) => {
      gateway = await openTestGateway();
      expect((await get(`/jobs?${query}`)).statusCode).toBe(400);
    },
  );

  test("rejects a cursor of another list", async () => {
    gateway = await openTestGateway();
    await submit(3);
    const { next_cursor } = (await get("/jobs?limit=1")).json<Page>();
    expect((await get(`/jobs?limit=1&cursor=${next_cursor}`)).statusCode).toBe(200);
    const other = await get(`/jobs?limit=1&cursor=${next_cursor}`, { "x-tenant-id": "acme" });
    expect(other.json()).toMatchObject({ code: "invalid_cursor", status: 400 });
  });

  test("a tenant sees only its own jobs", async () => {
    gateway = await openTestGateway();
    const [id] = await submit(1);
    expect((await get("/jobs", { "x-tenant-id": "acme" })).json<Page>().items).toEqual([]);
    expect((await get(`/jobs/${id}`, { "x-cordum-tenant": "acme" })).json()).toMatchObject({ code: "job_not_found" });
    expect((await get(`/jobs/${id}`)).statusCode).toBe(200);
  });
});

describe("dead letters", () => {
  test("a permanent failure is dead-lettered with its reason and input", async () => {
    gateway = await openTestGateway();
    const stop = await startWorker(gateway.world, {
      id: "w1",
      topics: ["demo.broken"],
      concurrency: 1,
      handle: async () => {
        throw permanent(new Error("cannot be done"));
      },
    });
    const { job_id } = (await post({ topic: "demo.broken", input: { keep: "me" } })).json<Payload>();
    await gateway.ended(1);
    const { items } = (await get("/dlq")).json<{ items: Payload[] }>();
    expect(items).toMatchObject([{ job_id, topic: "demo.broken", reason: "permanent", tenant_id: "default" }]);
    const letter = (await get(`/dlq/${items[0]?.id}`)).json<Payload>();
    expect(letter).toMatchObject({ input: { keep: "me" }, error: { message: "cannot be done" } });
    expect((await get(`/dlq/${items[0]?.id}`, { "x-tenant-id": "acme" })).statusCode).toBe(404);
    expect((await get("/dlq/unknown")).json()).toMatchObject({ code: "dead_letter_not_found", status: 404 });
    await stop();
  });
});
