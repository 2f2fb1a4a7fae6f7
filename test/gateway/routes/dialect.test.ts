/** Names that other clients of the API use. */
import { afterEach, describe, expect, test } from "vitest";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { wireJobId } from "../../../src/core/model/job-id.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Body = Readonly<Record<string, unknown>>;
const submit = async (body: object, options: { key?: string; tenant?: string } = {}) =>
  (await gateway.call("POST", "/api/v1/jobs", { ...options, body: { topic: "demo.far", ...body } })).json<Body>();

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

test("an approval accepts `reason`", async () => {
  gateway = await openTestGateway();
  const { job_id } = await submit({ topic: "demo.approve" });
  const body = { reason: "checked by hand" };
  expect((await gateway.call("POST", `/api/v1/approvals/${job_id}/approve`, { body })).statusCode).toBe(200);
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
    expect((await gateway.call("GET", "/api/v1/jobs?trace_id=t1&state=FAILED")).statusCode).toBe(400);
    expect((await gateway.call("GET", "/api/v1/jobs?trace_id=t1", { tenant: "acme" })).json()).toMatchObject({
      items: [],
    });
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
