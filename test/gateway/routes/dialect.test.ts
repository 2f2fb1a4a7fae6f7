/** Names that other clients of the API use. */
import { afterEach, describe, expect, test } from "vitest";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { wireJobId } from "../../../src/core/model/job-id.ts";
import { openWorkPacket } from "../../../src/engine/packets.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Body = Readonly<Record<string, unknown>>;
const submit = async (body: object, options: { key?: string; tenant?: string } = {}) =>
  (await gateway.call("POST", "/api/v1/jobs", { ...options, body: { topic: "demo.far", ...body } })).json<Body>();

const stored = async (id: unknown): Promise<Job> => {
  const found = await gateway.world.store.load<Job>(JOBS, String(id));
  if (!found) throw new Error(`no job ${id}`);
  return found.value;
};

describe("submit", () => {
  test.each(["tenant_id", "org_id"])("`%s` names the tenant for a key of `*`", async (name) => {
    gateway = await openTestGateway();
    const { job_id, id } = await submit({ [name]: "acme" });
    expect(id).toBe(job_id);
    expect((await gateway.call("GET", `/api/v1/jobs/${job_id}`, { tenant: "acme" })).json()).toMatchObject({ id });
    expect(await submit({ [name]: "acme" }, { tenant: "other" })).toMatchObject({ status: 400 });
    expect(await submit({ tenant_id: "acme", org_id: "other" })).toMatchObject({ status: 400 });
    expect(await submit({ [name]: "a/b" })).toMatchObject({ status: 400 });
  });

  test("a key of a tenant can name its own only", async () => {
    gateway = await openTestGateway();
    const { key } = await gateway.keyOf("acme", "submitter");
    expect(await submit({ tenant_id: "acme" }, { key })).toHaveProperty("job_id");
    expect(await submit({ tenant_id: "other" }, { key })).toMatchObject({ status: 403, code: "tenant_forbidden" });
    expect(await submit({ org_id: "*" }, { key })).toMatchObject({ status: 400 });
  });

  test("limits and memory reach the worker and the job", async () => {
    gateway = await openTestGateway();
    const tokens = { max_input_tokens: 10, max_output_tokens: 20, max_total_tokens: 30 };
    const { job_id } = await submit({ ...tokens, deadline_ms: 60_000, memory_id: "m1" });
    const budget = { ...tokens, deadline_ms: 60_000 };
    const shown = (await gateway.call("GET", `/api/v1/jobs/${job_id}`)).json();
    expect(shown).toMatchObject({ memory_id: "m1", budget });
    const job = (await gateway.world.store.load<Job>(JOBS, wireJobId("default", String(job_id))))?.value;
    expect(job?.details).toMatchObject({ memoryId: "m1", budget: { deadlineMs: 60_000, maxTotalTokens: 30 } });
    expect((job?.deadlineMs ?? 0) - (job?.createdMs ?? 0)).toBe(60_000);
    const body = { worker_id: "w", topics: ["demo.far"], wait_ms: 5_000 };
    const leased = (await gateway.call("POST", "/api/v1/worker/lease", { body })).json<{ jobs: Body[] }>();
    expect(leased.jobs[0]).toMatchObject({ memory_id: "m1", budget });
  });
});

describe("every request field of the wire protocol", () => {
  const FIELDS = {
    adapter_id: "gpt",
    env: { LOCALE: "de", camelCase: "kept" },
    parent_job_id: "p",
    workflow_id: "wf",
    step_index: 3,
    memory_id: "m1",
    context_hints: { max_input_tokens: 9, allow_summarization: true, allow_retrieval: true, tags: ["x"] },
    budget: { max_input_tokens: 1, max_output_tokens: 2, max_total_tokens: 3, deadline_ms: 60_000 },
    compensation: { topic: "undo", env: { A: "1" }, budget: { deadline_ms: 5 }, meta: { risk_tags: ["net"] } },
  };

  test("is accepted over HTTP, leased to a worker and shown on the job", async () => {
    gateway = await openTestGateway();
    const claims = { actor_id: "ann", principal_id: "bob", idempotency_key: "once" };
    const { job_id } = await submit({ ...FIELDS, ...claims });
    expect((await gateway.call("GET", `/api/v1/jobs/${job_id}`)).json()).toMatchObject({ ...FIELDS, ...claims });
    const body = { worker_id: "w", topics: ["demo.far"], wait_ms: 5_000 };
    const leased = (await gateway.call("POST", "/api/v1/worker/lease", { body })).json<{ jobs: Body[] }>();
    expect(leased.jobs[0]).toMatchObject({
      job_id,
      id: job_id,
      principal_id: "bob",
      idempotency_key: "once",
      ...FIELDS,
    });
    const packet = openWorkPacket("c1", await stored(job_id), "key");
    expect(packet.body).toMatchObject({
      principalId: "bob",
      meta: { actorId: "ann", idempotencyKey: "once" },
      adapterId: "gpt",
      env: FIELDS.env,
      parentJobId: "p",
      workflowId: "wf",
      stepIndex: 3,
      memoryId: "m1",
      contextHints: { maxInputTokens: 9, allowSummarization: true, allowRetrieval: true, tags: ["x"] },
      budget: { maxInputTokens: 1, maxOutputTokens: 2, maxTotalTokens: 3, deadlineMs: 60_000 },
      compensation: { topic: "undo", env: { A: "1" }, budget: { deadlineMs: 5 }, meta: { riskTags: ["net"] } },
    });
  });

  test("of a principal that is the actor is the actor", async () => {
    gateway = await openTestGateway();
    const { job_id } = await submit({ principal_id: "bob" });
    expect(await stored(job_id)).toMatchObject({ actorId: "bob" });
    expect(await stored(job_id)).not.toHaveProperty("details");
    expect(openWorkPacket("c1", await stored(job_id), "key").body).toMatchObject({
      principalId: "bob",
      meta: { actorId: "bob" },
    });
  });

  test("reaches the worker of a prompt, whose input also names the adapter", async () => {
    gateway = await openTestGateway();
    const { job_id } = await submit({ prompt: "hello", adapter_id: "gpt", allow_retrieval: true, tags: ["x"] });
    expect((await gateway.call("GET", `/api/v1/jobs/${job_id}`)).json()).toMatchObject({
      input: { prompt: "hello", adapter_id: "gpt" },
      adapter_id: "gpt",
      context_hints: { allow_retrieval: true, tags: ["x"] },
    });
  });

  test.each([
    [{ budget: { deadline_ms: 5 }, deadline_ms: 6 }, "`budget.deadline_ms` and `deadline_ms` differ"],
    [{ env: { run_id: "r" } }, "`run_id` is reserved"],
    [{ budget: { deadline_ms: -1 } }, "budget.deadline_ms"],
    [{ budget: { deadlines: 1 } }, "budget.deadlines"],
    [{ compensation: { context_ptr: "redis://cordum:x" } }, "`compensation.context_ptr`"],
  ])("that is invalid is refused by its name: %#", async (fields, text) => {
    gateway = await openTestGateway();
    expect(await submit(fields)).toMatchObject({ status: 400, detail: expect.stringContaining(text) });
  });

  test("may be zero, as clients send unset fields", async () => {
    gateway = await openTestGateway();
    const zeros = { deadline_ms: 0, max_input_tokens: 0, max_output_tokens: 0, max_total_tokens: 0 };
    const { job_id } = await submit(zeros);
    expect((await gateway.call("GET", `/api/v1/jobs/${job_id}`)).json()).not.toHaveProperty("budget");
  });
});

describe("optional result fields of an HTTP worker are shown on the job", () => {
  const lease = async () => {
    const body = { worker_id: "w", topics: ["demo.far"], wait_ms: 5_000 };
    const leased = (await gateway.call("POST", "/api/v1/worker/lease", { body })).json<{ jobs: Body[] }>();
    return leased.jobs[0]?.lease_id;
  };
  const end = (job_id: unknown, how: string, body: object) =>
    gateway.call("POST", `/api/v1/worker/jobs/${job_id}/${how}`, { body });

  test("after success", async () => {
    gateway = await openTestGateway();
    const { job_id } = await submit({});
    const fields = { execution_ms: 12, artifact_ptrs: ["s3://bucket/a"] };
    const body = { lease_id: await lease(), result: 1, ...fields };
    expect((await end(job_id, "complete", body)).statusCode).toBe(200);
    const shown = (await gateway.call("GET", `/api/v1/jobs/${job_id}`)).json();
    expect(shown).toMatchObject({ state: "SUCCEEDED", result: 1, ...fields });
  });

  test.each([
    ["resource_exhausted", "RESOURCE_EXHAUSTED"],
    [201, "RESOURCE_EXHAUSTED"],
    [1_234, "1234"],
  ])("after a failure with code %s", async (error_code_enum, shownCode) => {
    gateway = await openTestGateway();
    const { job_id } = await submit({});
    const fields = { execution_ms: 0, artifact_ptrs: ["s3://bucket/log"], error_code: "quota" };
    const body = { lease_id: await lease(), error: "no", retryable: false, error_code_enum, ...fields };
    expect((await end(job_id, "fail", { ...body, error_code_enum: "no such code" })).statusCode).toBe(400);
    expect((await end(job_id, "fail", body)).statusCode).toBe(200);
    const shown = (await gateway.call("GET", `/api/v1/jobs/${job_id}`)).json();
    expect(shown).toMatchObject({ state: "FAILED", ...fields, error_code_enum: shownCode });
  });
});

test("an approval accepts `reason`", async () => {
  gateway = await openTestGateway();
  const { job_id } = await submit({ topic: "demo.approve" });
  const body = { reason: "checked by hand" };
  const listed = (await gateway.call("GET", "/api/v1/approvals")).json<{ items: Body[] }>();
  expect(listed.items).toMatchObject([{ id: job_id, job_id }]);
  const approved = await gateway.call("POST", `/api/v1/approvals/${job_id}/approve`, { body });
  expect(approved.statusCode).toBe(200);
  expect(approved.json()).toMatchObject({ id: job_id, job_id });
  const { history } = (await gateway.call("GET", `/api/v1/jobs/${job_id}`)).json<{ history: Body[] }>();
  expect(history.find(({ event }) => event === "approved")).toMatchObject({ why: "checked by hand" });
});

describe("list", () => {
  test("by `trace_id`, over several pages, including the job whose id it is", async () => {
    gateway = await openTestGateway();
    await submit({ job_id: "t1" });
    for (const at of [1, 2, 3]) await submit({ job_id: `j${at}`, trace_id: "t1" });
    await submit({ job_id: "other" });
    const ids: unknown[] = [];
    for (let path: string | null = "/api/v1/jobs?trace_id=t1&limit=2"; path !== null; ) {
      const page: { items: Body[]; next_cursor: string | null } = (await gateway.call("GET", path)).json();
      ids.push(...page.items.map(({ id }) => id));
      path = page.next_cursor === null ? null : `/api/v1/jobs?trace_id=t1&limit=2&cursor=${page.next_cursor}`;
    }
    expect(ids).toEqual(["t1", "j3", "j2", "j1"]);
    const list = async (filter: string) =>
      (await gateway.call("GET", `/api/v1/jobs?trace_id=t1&${filter}`)).json<{ items: Body[] }>().items.length;
    expect([await list("state=SCHEDULED"), await list("state=FAILED"), await list("topic=demo.far")]).toEqual([
      4, 0, 4,
    ]);
    expect((await gateway.call("GET", "/api/v1/jobs?trace_id=t1", { tenant: "acme" })).json()).toMatchObject({
      items: [],
    });
  });

  test("by `topic` and time of the last update, over pages that hold fewer matches than jobs", async () => {
    gateway = await openTestGateway();
    for (let at = 0; at < 12; at++)
      await submit({ job_id: `j${at}`, topic: at % 3 === 0 ? "job.demo.far" : "demo.other" });
    // A final state: a waiting job is dispatched from time to time, although there is no worker.
    for (let at = 0; at < 12; at += 3) await gateway.call("POST", `/api/v1/jobs/j${at}/cancel`);
    const all = async (filter: string, limit = 200): Promise<readonly unknown[]> => {
      const ids: unknown[] = [];
      let cursor = "";
      for (let pages = 0; pages < 20; pages++) {
        const path = `/api/v1/jobs?${filter}&limit=${limit}${cursor}`;
        const page = (await gateway.call("GET", path)).json<{ items: Body[]; next_cursor: string | null }>();
        expect(page.items.length).toBeLessThanOrEqual(limit);
        ids.push(...page.items.map(({ id }) => id));
        if (page.next_cursor === null) return ids;
        cursor = `&cursor=${page.next_cursor}`;
      }
      throw new Error("no last page");
    };
    for (const limit of [1, 2, 3, 4, 5]) {
      expect(await all(`updated_after=1000000000&topic=demo.far`, limit)).toEqual(["j9", "j6", "j3", "j0"]);
      expect(await all("topic=demo.far", limit)).toEqual(["j9", "j6", "j3", "j0"]);
      expect(await all("topic=job.demo.far&state=CANCELLED", limit)).toEqual(["j9", "j6", "j3", "j0"]);
    }
    expect(await all("topic=demo")).toEqual([]);
    const updatedMs = (await stored("j6")).updatedMs;
    const iso = (ms: number) => new Date(ms).toISOString();
    await gateway.call("POST", "/api/v1/jobs/j1/cancel");
    const cancelledMs = (await stored("j1")).updatedMs;
    expect(await all(`updated_after=${iso(cancelledMs - 1)}`)).toContain("j1");
    for (const unit of [iso(cancelledMs), `${cancelledMs}`, `${cancelledMs * 1_000}`]) {
      expect(await all(`updated_after=${unit}`)).not.toContain("j1");
    }
    expect(await all(`updated_after=${updatedMs - 1}&updated_before=${updatedMs + 1}`)).toContain("j6");
    expect(await all(`updated_before=${updatedMs}`)).not.toContain("j6");
    expect(await all("updated_before=1000000000")).toEqual([]);
    for (const bad of ["updated_after=soon", "updated_before=2030-13-01", "updated_after="]) {
      expect((await gateway.call("GET", `/api/v1/jobs?${bad}`)).statusCode).toBe(400);
    }
    const first = (await gateway.call("GET", "/api/v1/jobs?topic=demo.far&limit=1")).json<{ next_cursor: string }>();
    const other = `/api/v1/jobs?topic=demo.other&limit=1&cursor=${first.next_cursor}`;
    expect((await gateway.call("GET", other)).statusCode).toBe(400);
  });

  test("by a rare time of the last update reads a bounded number of jobs per request", async () => {
    let read = 0;
    gateway = await openTestGateway({
      change: (world) => ({
        store: new Proxy(world.store, {
          get: (target, name) => {
            const member = Reflect.get(target, name) as unknown;
            if (name !== "list" || typeof member !== "function")
              return typeof member === "function" ? member.bind(target) : member;
            return async (...args: unknown[]) => {
              const page = (await member.apply(target, args)) as { items: unknown[] };
              read += page.items.length;
              return page;
            };
          },
        }),
      }),
    });
    await submit({ job_id: "rare" });
    await gateway.call("POST", "/api/v1/jobs/rare/cancel");
    const { updatedMs } = await stored("rare");
    const path = `/api/v1/jobs?updated_before=${updatedMs + 1}`;
    await expect.poll(() => Date.now()).toBeGreaterThan(updatedMs + 1);
    for (let at = 0; at < 1_100; at += 100) {
      await Promise.all(Array.from({ length: 100 }, (_, nth) => submit({ job_id: `j${at + nth}` })));
    }
    const first = (await gateway.call("GET", path)).json<{ items: Body[]; next_cursor: string }>();
    expect(first).toMatchObject({ items: [], next_cursor: expect.any(String) });
    expect(read).toBeLessThanOrEqual(1_000);
    const second = (await gateway.call("GET", `${path}&cursor=${first.next_cursor}`)).json();
    expect(second).toMatchObject({ items: [{ id: "rare" }], next_cursor: null });
  });

  test("by `tenant`", async () => {
    gateway = await openTestGateway();
    await submit({ job_id: "mine", tenant_id: "acme" });
    const { key } = await gateway.keyOf("acme", "viewer");
    const list = (tenant: string, options = {}) => gateway.call("GET", `/api/v1/jobs?tenant=${tenant}`, options);
    expect((await list("acme", { key })).json()).toMatchObject({ items: [{ id: "mine", tenant_id: "acme" }] });
    expect((await list("other", { key })).statusCode).toBe(403);
  });
});

test("`/health` is served like `/healthz`", async () => {
  gateway = await openTestGateway();
  expect((await gateway.call("GET", "/health")).json()).toEqual({ alive: true });
});

test("the OpenAPI document has servers and the empty response of a lease", async () => {
  gateway = await openTestGateway();
  const document = (await gateway.call("GET", "/api/v1/openapi.json")).json();
  expect(document.servers).toMatchObject([{ url: "/" }]);
  expect(document.paths["/api/v1/worker/lease"].post.responses).toHaveProperty("204");
});
