import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";
import { applied, cel, type Json, OPEN, ORDER, started } from "../workflow-fixtures.ts";

let gateway: TestGateway;

beforeEach(async () => {
  gateway = await openTestGateway();
});
afterEach(() => gateway.close());

const get = async (url: string, tenant?: string) => (await gateway.call("GET", url, { tenant })).json<Json>();
const apply = async (body: object, tenant?: string) =>
  (await gateway.call("POST", "/api/v1/workflows", { body, tenant })).json<Json>();

describe("apply", () => {
  test("creates a workflow, then versions; an unchanged definition keeps the version", async () => {
    expect(await apply(ORDER)).toEqual({ workflow_id: "order", version: 1, created: true });
    const { steps, name, id, output } = ORDER;
    expect(await apply({ steps, output, name, id })).toEqual({ workflow_id: "order", version: 1, created: false });
    expect(await apply({ ...ORDER, name: "Another" })).toEqual({ workflow_id: "order", version: 2, created: true });

    expect(await get("/api/v1/workflows")).toMatchObject({
      items: [{ workflow_id: "order", version: 2, name: "Another", tenant_id: "default" }],
      next_cursor: null,
    });
    expect(await get("/api/v1/workflows/order")).toMatchObject({ version: 2, definition: { name: "Another" } });
    const first = await get("/api/v1/workflows/order?version=1");
    expect(first).toMatchObject({ workflow_id: "order", version: 1, created_by: "local", definition: ORDER });
    expect(new Date(String(first.created_at)).toISOString()).toBe(first.created_at);
    const versions = await get("/api/v1/workflows/order/versions");
    expect(versions).toMatchObject({ items: [{ version: 2 }, { version: 1 }], next_cursor: null });
    expect((await get("/api/v1/workflows/order/versions?limit=1")).next_cursor).toEqual(expect.any(String));
  });

  test("accepts YAML text in a field or as the body", async () => {
    const source = "id: order\nsteps:\n  price:\n    topic: demo.price\n";
    expect(await apply({ source, file: "order.yaml" })).toMatchObject({ workflow_id: "order", version: 1 });
    const response = await gateway.app.inject({
      method: "POST",
      url: "/api/v1/workflows",
      headers: { "content-type": "application/yaml" },
      payload: source,
    });
    expect(response.json()).toEqual({ workflow_id: "order", version: 1, created: false });
    const broken = await apply({ source: "id: order\nsteps:\n  price:\n    topik: demo.price\n", file: "order.yaml" });
    expect(broken).toMatchObject({ status: 400, code: "invalid_workflow" });
    expect(JSON.stringify(broken.problems)).toContain("topic");
  });

  test("reports all problems at once and stores nothing", async () => {
    const steps = { a: { topic: "t", depends_on: ["unknown"] }, b: { topic: "t", timeout_sec: -1 } };
    const refused = await apply({ id: "wrong", steps });
    expect(refused).toMatchObject({ status: 400, code: "invalid_workflow", retryable: false });
    expect((refused.problems as unknown[]).length).toBeGreaterThanOrEqual(2);
    expect(JSON.stringify(refused.problems)).toContain("unknown");
    expect(await apply({})).toMatchObject({ status: 400, code: "invalid_workflow" });
    expect(await apply({ source: 7 })).toMatchObject({ status: 400, code: "invalid_workflow" });
    expect((await get("/api/v1/workflows")).items).toEqual([]);
  });

  test("requires operator access; submitters can start runs", async () => {
    const [operator, submitter, viewer] = [
      await gateway.keyOf("acme", "operator"),
      await gateway.keyOf("acme", "submitter"),
      await gateway.keyOf("acme", "viewer"),
    ];
    const post = async (url: string, key: string, body: object) =>
      (await gateway.call("POST", url, { key, body })).statusCode;
    expect(await post("/api/v1/workflows", submitter.key, OPEN)).toBe(403);
    expect(await post("/api/v1/workflows", operator.key, OPEN)).toBe(200);
    expect(await post("/api/v1/workflows/open/runs", viewer.key, {})).toBe(403);
    expect(await post("/api/v1/workflows/open/runs", submitter.key, {})).toBe(200);
    expect(await post("/api/v1/workflows/open/dry-run", viewer.key, {})).toBe(200);
  });
});

test("workflow ids are scoped by tenant", async () => {
  await applied(gateway, { ...OPEN, name: "of acme" }, { tenant: "acme" });
  expect((await gateway.call("GET", "/api/v1/workflows/open", { tenant: "other" })).statusCode).toBe(404);
  await applied(gateway, { ...OPEN, name: "of other" }, { tenant: "other" });
  expect(await get("/api/v1/workflows/open", "acme")).toMatchObject({ version: 1, definition: { name: "of acme" } });
  expect(await get("/api/v1/workflows/open", "other")).toMatchObject({ version: 1, definition: { name: "of other" } });
  const runId = await started(gateway, "open", {}, { tenant: "acme" });
  expect((await get("/api/v1/workflows/open/runs", "other")).items).toEqual([]);
  expect((await get("/api/v1/workflows/open/runs", "acme")).items).toMatchObject([{ run_id: runId }]);
  const cancel = `/api/v1/workflows/open/runs/${runId}/cancel`;
  expect((await gateway.call("POST", cancel, { tenant: "other" })).json()).toMatchObject({ code: "run_not_found" });
  expect((await gateway.call("DELETE", "/api/v1/workflows/open", { tenant: "other" })).statusCode).toBe(200);
  expect((await gateway.call("GET", "/api/v1/workflows/open", { tenant: "acme" })).statusCode).toBe(200);
});

test("a deleted workflow starts no runs; its runs and versions are kept", async () => {
  await applied(gateway, OPEN);
  const runId = await started(gateway, "open");
  const gone = await gateway.call("DELETE", "/api/v1/workflows/open");
  expect(gone.json()).toEqual({ workflow_id: "open", deleted: true });
  for (const [method, url] of [
    ["GET", "/api/v1/workflows/open"],
    ["POST", "/api/v1/workflows/open/runs"],
    ["DELETE", "/api/v1/workflows/open"],
  ] as const) {
    expect((await gateway.call(method, url)).json(), url).toMatchObject({ status: 404, code: "workflow_not_found" });
  }
  expect((await get("/api/v1/workflows")).items).toEqual([]);
  expect(await get("/api/v1/workflows/open?version=1")).toMatchObject({ version: 1, definition: OPEN });
  expect(await get("/api/v1/workflows/open?version=2")).toMatchObject({ code: "workflow_not_found" });
  expect((await get("/api/v1/workflows/open/runs")).items).toMatchObject([{ run_id: runId }]);
  expect(await get(`/api/v1/workflow-runs/${runId}`)).toMatchObject({ state: "RUNNING", version: 1 });
});

test("a dry run returns inputs and policy decisions without side effects", async () => {
  const steps = {
    look: { topic: "demo.look", input: { id: cel("input.id"), password: cel("input.password") } },
    drop: { topic: "demo.forbidden", depends_on: ["look"], input: cel("steps.look.output") },
    note: { type: "transform", input: 1 },
  };
  await applied(gateway, { id: "risky", steps });
  const input = { id: 7, password: "hunter2hunter2" };
  const response = await gateway.call("POST", "/api/v1/workflows/risky/dry-run", { body: { input } });
  const dry = response.json<{ version: number; steps: readonly Json[] }>();
  expect(dry).toMatchObject({ workflow_id: "risky", version: 1 });
  const byId = Object.fromEntries(dry.steps.map((step) => [step.step_id, step]));
  expect(byId.look).toMatchObject({ type: "worker", topic: "demo.look", input: { id: 7, password: "[redacted]" } });
  expect(byId.look).toMatchObject({ input_known: true, decision: { decision: "ALLOW" }, depends_on: [] });
  expect(byId.drop).toMatchObject({ input_known: false, decision: { decision: "DENY" }, depends_on: ["look"] });
  expect(byId.note).toMatchObject({ type: "transform", topic: null, decision: null });
  expect(response.body).not.toContain("hunter2");
  expect((await get("/api/v1/jobs")).items).toEqual([]);
  expect((await get("/api/v1/workflow-runs")).items).toEqual([]);
  const unknown = await gateway.call("POST", "/api/v1/workflows/nothing/dry-run", { body: {} });
  expect(unknown.json()).toMatchObject({ status: 404, code: "workflow_not_found" });
});
