import { afterEach, expect, test } from "vitest";
import { settingsFrom } from "../../../src/config/config.ts";
import { startOutcomeResponse } from "../../../src/gateway/routes/run-start.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";
import { applied, echoes, type Json, OPEN, ORDER, runIs, started } from "../workflow-fixtures.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const get = async (url: string) => (await gateway.call("GET", url)).json<Json>();
const items = async (url: string) => (await get(url)).items as readonly Json[];

test("starts a run, executes its steps, and returns it with outputs", async () => {
  gateway = await openTestGateway();
  await echoes(gateway, ["demo.price", "demo.pack"]);
  await applied(gateway, ORDER);
  const input = { items: ["a", "b", "c"], password: "hunter2hunter2" };
  const body = { input, labels: { team: "blue" }, actor_id: "ann", priority: "critical" };
  const response = await gateway.call("POST", "/api/v1/workflows/order/runs", { body });
  expect(response.statusCode, response.body).toBe(200);
  const { run_id: runId } = response.json<{ run_id: string }>();
  expect(response.json()).toMatchObject({ workflow_id: "order", replayed: false });

  const run = await runIs(gateway, runId, "SUCCEEDED");
  expect(run).toMatchObject({
    run_id: runId,
    workflow_id: "order",
    version: 1,
    tenant_id: "default",
    input: { items: ["a", "b", "c"], password: "[redacted]" },
    labels: { team: "blue" },
    actor_id: "ann",
    priority: "critical",
    submitted_by: "local",
    error: null,
    parent: null,
    rerun_of: null,
    lock: { holder: "test", fence: expect.any(Number), waited_ms: expect.any(Number), attempts: expect.any(Number) },
  });
  for (const name of ["created_at", "updated_at", "deadline"] as const) {
    expect(new Date(String(run[name])).toISOString()).toBe(run[name]);
  }
  const steps = run.steps as Readonly<Record<string, Json>>;
  expect(Object.keys(steps)).toEqual(["price", "pack"]);
  expect(steps).toMatchObject({ price: { depends_on: [] }, pack: { depends_on: ["price"] } });
  expect(steps.price).toMatchObject({ state: "SUCCEEDED", type: "worker", job_id: `${runId}:price@1`, why: null });
  expect(steps.price).toMatchObject({ attempt: 1, worker_id: expect.any(String), sub_run_id: null });
  expect(steps.price?.output).toEqual({ got: { items: ["a", "b", "c"], password: "[redacted]" } });
  expect(steps.pack).toMatchObject({
    state: "SUCCEEDED",
    output: null,
    output_at: `/api/v1/workflow-runs/${runId}/steps/pack/children`,
    children: { count: 3, spawned: 3, open: 0, succeeded: 3, failed: 0, cancelled: 0 },
  });
  expect(run.output).toEqual({ packed: [{ got: "a" }, { got: "b" }, { got: "c" }] });

  const children = await get(String(steps.pack?.output_at));
  expect((children.items as Json[]).map(({ index, result }) => [index, result])).toEqual([
    [0, { got: "a" }],
    [1, { got: "b" }],
    [2, { got: "c" }],
  ]);
  expect(await get(`/api/v1/workflow-runs/${runId}/steps/pac/children`)).toMatchObject({ code: "step_not_found" });
});

test("L54: lists by state and workflow omit payloads; timeline and children are paged", async () => {
  gateway = await openTestGateway();
  await echoes(gateway, ["demo.price", "demo.pack"]);
  await applied(gateway, ORDER);
  await applied(gateway, OPEN);
  const done = await started(gateway, "order", { input: { items: [1, 2, 3] } });
  const open = await started(gateway, "open");
  await runIs(gateway, done, "SUCCEEDED");

  expect((await items("/api/v1/workflow-runs")).map((run) => run.run_id).toSorted()).toEqual([done, open].toSorted());
  const [listed] = await items("/api/v1/workflow-runs?state=succeeded");
  expect(listed).toMatchObject({ run_id: done, state: "SUCCEEDED", step_counts: { SUCCEEDED: 2 } });
  expect(listed).not.toHaveProperty("input");
  expect(listed).not.toHaveProperty("steps");
  expect(await items("/api/v1/workflows/open/runs")).toMatchObject([{ run_id: open, state: "RUNNING" }]);
  expect(await get("/api/v1/workflow-runs?state=DONE")).toMatchObject({ status: 400, code: "invalid_request" });
  expect(await get("/api/v1/workflows/nothing/runs")).toMatchObject({ status: 404, code: "workflow_not_found" });

  const lines: Json[] = [];
  for (let cursor: unknown = ""; cursor !== null; ) {
    const page = await get(`/api/v1/workflow-runs/${done}/timeline?limit=2${cursor ? `&cursor=${cursor}` : ""}`);
    lines.push(...(page.items as Json[]));
    cursor = page.next_cursor;
  }
  expect(lines[0]).toMatchObject({ event: "run_started", who: "local" });
  expect(lines.at(-1)).toMatchObject({ event: "run_succeeded" });
  const seqs = lines.map((line) => Number(line.seq));
  expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
  expect(new Set(seqs).size).toBe(seqs.length);
  const stolen = (await get(`/api/v1/workflow-runs/${done}/timeline?limit=1`)).next_cursor;
  expect(await get(`/api/v1/workflow-runs/${open}/timeline?cursor=${stolen}`)).toMatchObject({
    code: "invalid_cursor",
  });

  const first = await get(`/api/v1/workflow-runs/${done}/steps/pack/children?limit=2`);
  expect((first.items as Json[]).map(({ index }) => index)).toEqual([0, 1]);
  const rest = await get(`/api/v1/workflow-runs/${done}/steps/pack/children?limit=2&cursor=${first.next_cursor}`);
  expect((rest.items as Json[]).map(({ index }) => index)).toEqual([2]);
});

test("lists unstarted steps as pending, and explains what the run waits for", async () => {
  gateway = await openTestGateway();
  const steps = { work: { topic: "demo.unserved" }, after: { type: "transform", depends_on: ["work"], input: 1 } };
  await applied(gateway, { id: "slow", steps });
  const runId = await started(gateway, "slow");
  const run = await get(`/api/v1/workflow-runs/${runId}`);
  expect(run.steps).toMatchObject({
    work: { state: "RUNNING", type: "worker", output: null, started_at: expect.any(String), ended_at: null },
    after: { state: "PENDING", type: "transform", job_id: null, started_at: null },
  });
  const explained = await get(`/api/v1/workflow-runs/${runId}/explain`);
  expect(explained).toMatchObject({ run_id: runId, state: "RUNNING" });
  const [wait] = (explained.waits as Json[]).filter(({ step_id }) => step_id === "work");
  expect(wait).toMatchObject({ job_id: `${runId}:work@1` });
  expect(String(wait?.reason).length).toBeGreaterThan(5);
  expect(await items(`/api/v1/workflow-runs/${runId}/steps/after/children`)).toEqual([]);
});

test("an idempotency key in header or body replays the run; another body is rejected", async () => {
  gateway = await openTestGateway();
  await applied(gateway, OPEN);
  const start = async (body: object, key?: string) =>
    gateway.app.inject({
      method: "POST",
      url: "/api/v1/workflows/open/runs",
      headers: key === undefined ? {} : { "idempotency-key": key },
      payload: body,
    });
  const first = (await start({ input: { n: 1 } }, "k1")).json<Json>();
  expect(first).toMatchObject({ replayed: false });
  expect((await start({ input: { n: 1 } }, "k1")).json()).toMatchObject({ run_id: first.run_id, replayed: true });
  const inBody = { input: { n: 1 }, idempotency_key: "k1" };
  expect((await start(inBody)).json()).toMatchObject({ run_id: first.run_id, replayed: true });
  const other = await start({ input: { n: 2 } }, "k1");
  expect(other.json()).toMatchObject({ status: 422, code: "idempotency_conflict", run_id: first.run_id });
  expect((await start(inBody, "k2")).json()).toMatchObject({ status: 400 });
  expect((await start({}, "k".repeat(300))).json()).toMatchObject({ status: 400 });
  expect(await items("/api/v1/workflow-runs")).toHaveLength(1);
});

test("rejects an input that does not match the schema, and unknown fields", async () => {
  gateway = await openTestGateway();
  const input_schema = { type: "object", required: ["id"], properties: { id: { type: "integer" } } };
  await applied(gateway, { ...OPEN, input_schema });
  const refused = async (body: object) => (await gateway.call("POST", "/api/v1/workflows/open/runs", { body })).json();
  const wrong = await refused({ input: { id: "seven" } });
  expect(wrong).toMatchObject({ status: 400, code: "invalid_run" });
  expect(JSON.stringify(wrong.problems)).toContain("id");
  const forged = { input: { id: 1 }, labels: { safety_bypassed: "true" } };
  expect(await refused(forged)).toMatchObject({ status: 400, code: "invalid_run" });
  expect(await refused({ input: { id: 1 }, actor_id: "a b" })).toMatchObject({ status: 400, code: "invalid_run" });
  expect(await refused({ inputs: {} })).toMatchObject({ status: 400, code: "invalid_run" });
  expect(await refused({ input: { id: 1 }, version: 9 })).toMatchObject({ status: 404, code: "workflow_not_found" });
  expect(await items("/api/v1/workflow-runs")).toEqual([]);
});

test("a 429 names the sub-workflows that are queued for the free slots", () => {
  const request = { org: "acme", workflowId: "w", version: null };
  const outcome = { kind: "full", current: 1, limit: 2, waiting: 1 } as const;
  expect(() => startOutcomeResponse(outcome, request)).toThrow(
    expect.objectContaining({
      code: "too_many_runs",
      message: expect.stringContaining("1 sub-workflow is queued for the free slots"),
      facts: { current: 1, limit: 2, waiting: 1 },
    }),
  );
});

test("a subworkflow step has the id of its run", async () => {
  gateway = await openTestGateway();
  await applied(gateway, OPEN);
  await applied(gateway, { id: "above", steps: { sub: { type: "subworkflow", workflow: OPEN.id } } });
  const { run_id: runId } = (await gateway.call("POST", "/api/v1/workflows/above/runs", { body: {} })).json<Json>();
  const shown = async () => ((await get(`/api/v1/workflow-runs/${runId}`)).steps as Record<string, Json>).sub;
  await expect.poll(async () => (await shown())?.sub_run_id).toEqual(expect.any(String));
  const sub = await shown();
  expect(sub).toMatchObject({ state: "RUNNING", attempt: 1, worker_id: null });
  expect(await get(`/api/v1/workflow-runs/${sub?.sub_run_id}`)).toMatchObject({
    parent: { run_id: runId },
    priority: "batch",
  });
});

test("L26: ten concurrent starts at a limit of two give two runs and eight jittered 429s", async () => {
  gateway = await openTestGateway({ settings: settingsFrom({ "limits.max_concurrent_runs": 2 }) });
  await applied(gateway, OPEN);
  const starts = Array.from({ length: 10 }, () => gateway.call("POST", "/api/v1/workflows/open/runs", { body: {} }));
  const responses = await Promise.all(starts);
  const refused = responses.filter(({ statusCode }) => statusCode === 429);
  expect(responses.filter(({ statusCode }) => statusCode === 200)).toHaveLength(2);
  expect(refused).toHaveLength(8);
  for (const response of refused) {
    const problem = response.json<{ retry_after_ms: number }>();
    expect(problem).toMatchObject({ code: "too_many_runs", status: 429, retryable: true, current: 2, limit: 2 });
    expect(problem).toMatchObject({ error: expect.stringContaining("max_concurrent_runs") });
    expect(Number(response.headers["retry-after"])).toBe(Math.ceil(problem.retry_after_ms / 1_000));
  }
  expect(new Set(refused.map((response) => response.json<Json>().retry_after_ms)).size).toBeGreaterThan(1);
  expect(await get("/api/v1/status")).toMatchObject({ runs: { open: 2, by_tenant: { default: 2 } } });
  const { key } = await gateway.keyOf("default", "viewer");
  const own = (await gateway.call("GET", "/api/v1/status", { key })).json();
  expect(own.runs).toEqual({ open: 2, limit: 2 });
});

test("L26: a busy admission lock is a 503 (strategy `polled`)", async () => {
  const settings = { "admission.strategy": "polled", "admission.polled.max_wait_ms": 1 };
  gateway = await openTestGateway({ settings: settingsFrom(settings) });
  await applied(gateway, OPEN);
  const key = "cordum:wf:run:admission:default";
  const held = await gateway.world.locks.acquire({ key, org: "default", ttlMs: 60_000, waitMs: 0, owner: "test" });
  const response = await gateway.call("POST", "/api/v1/workflows/open/runs", { body: {} });
  expect(response.json()).toMatchObject({
    status: 503,
    code: "gate_unavailable",
    error: "workflow concurrency gate unavailable",
    retryable: true,
    retry_after_ms: expect.any(Number),
    current: 0,
    limit: 10,
  });
  expect(Number(response.headers["retry-after"])).toBeGreaterThan(0);
  if (held.kind === "held") await held.lease.release();
  expect((await gateway.call("POST", "/api/v1/workflows/open/runs", { body: {} })).statusCode).toBe(200);
});

test("shows a loop with its iteration, and lists the jobs of its steps by iteration", async () => {
  gateway = await openTestGateway();
  await echoes(gateway, ["demo.price"]);
  const each = { topic: "demo.price", for_each: "[1, 2]", input: "${item * iteration}" };
  const one = { topic: "demo.price", input: "${iteration}", depends_on: ["each"] };
  const loop = { type: "loop", steps: { each, one }, until: "iteration == 2", max_iterations: 3, timeout_sec: 60 };
  await applied(gateway, { id: "loops", steps: { loop } });
  const runId = await started(gateway, "loops");
  const run = await runIs(gateway, runId, "SUCCEEDED");
  expect(run.output).toEqual({ loop: { one: { got: 2 } } });
  expect(run.steps).toMatchObject({
    loop: { type: "loop", iteration: 2, max_iterations: 3, depends_on: [] },
    each: { loop: "loop", depends_on: ["loop"], children: { count: 2, succeeded: 2 } },
    one: { loop: "loop", job_id: `${runId}:one@2`, depends_on: ["loop", "each"] },
  });
  const listed = async (step: string, query = "") =>
    (await items(`/api/v1/workflow-runs/${runId}/steps/${step}/children${query}`)).map(
      ({ index, iteration, result }) => [index, iteration, result],
    );
  expect(await listed("one")).toEqual([1, 2].map((iteration) => [null, iteration, { got: iteration }]));
  expect(await listed("each")).toEqual([0, 1].map((index) => [index, 2, { got: (index + 1) * 2 }]));
  expect(await listed("each", "?iteration=1")).toEqual([0, 1].map((index) => [index, 1, { got: index + 1 }]));
  expect(await get(`/api/v1/workflow-runs/${runId}/steps/each/children?iteration=0`)).toMatchObject({ status: 400 });
});
