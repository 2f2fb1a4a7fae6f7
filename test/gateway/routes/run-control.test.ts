import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { settingsFrom } from "../../../src/config/config.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";
import { applied, echoes, type Json, OPEN, ORDER, runIs, runUntil, SIGNED, started } from "../workflow-fixtures.ts";

let gateway: TestGateway;

beforeEach(async () => {
  gateway = await openTestGateway({ settings: settingsFrom({ "run_lock.gateway_wait_ms": 0 }) });
});
afterEach(() => gateway.close());

const get = async (url: string) => (await gateway.call("GET", url)).json<Json>();
const post = async (url: string, body?: object, key?: string) =>
  (await gateway.call("POST", url, { body, key })).json<Json>();
const control = (runId: string, what: string, body?: object) => post(`/api/v1/workflow-runs/${runId}/${what}`, body);

describe("run control", () => {
  test("pauses, resumes and cancels idempotently; a finished run is a 409", async () => {
    await applied(gateway, OPEN);
    const runId = await started(gateway, "open");
    expect(await control(runId, "pause", { reason: "lunch" })).toEqual({ run_id: runId, state: "PAUSED" });
    expect(await control(runId, "pause")).toEqual({ run_id: runId, state: "PAUSED" });
    expect(await control(runId, "resume")).toEqual({ run_id: runId, state: "RUNNING" });
    const open = await gateway.call("DELETE", `/api/v1/workflow-runs/${runId}`);
    expect(open.json()).toMatchObject({ status: 409, code: "run_open" });
    expect(await control(runId, "rerun", { from_step: "work" })).toMatchObject({ status: 409, code: "run_open" });

    expect(await control(runId, "cancel", { reason: "not wanted" })).toEqual({ run_id: runId, state: "CANCELLED" });
    expect(await control(runId, "cancel")).toMatchObject({ status: 409, code: "run_ended", state: "CANCELLED" });
    expect(await control(runId, "pause")).toMatchObject({ status: 409, code: "run_ended" });
    const { items } = await get(`/api/v1/workflow-runs/${runId}/timeline`);
    const told = (items as Json[]).map(({ event, who, why }) => [event, who, why]);
    expect(told).toContainEqual(["run_paused", "local", "lunch"]);
    expect(await get(`/api/v1/jobs/${runId}:work@1`)).toMatchObject({ state: "CANCELLED" });

    const gone = await gateway.call("DELETE", `/api/v1/workflow-runs/${runId}`);
    expect(gone.json()).toEqual({ run_id: runId, deleted: true });
    expect(await get(`/api/v1/workflow-runs/${runId}`)).toMatchObject({ status: 404, code: "run_not_found" });
    expect(await control(runId, "cancel")).toMatchObject({ status: 404, code: "run_not_found" });
  });

  test("cancels by workflow and run id; another workflow is not found", async () => {
    await applied(gateway, OPEN);
    await applied(gateway, SIGNED);
    const runId = await started(gateway, "open");
    const wrong = await post(`/api/v1/workflows/signed/runs/${runId}/cancel`);
    expect(wrong).toMatchObject({ status: 404, code: "run_not_found" });
    const right = await post(`/api/v1/workflows/open/runs/${runId}/cancel`);
    expect(right).toEqual({ run_id: runId, state: "CANCELLED" });
  });

  test("only an operator leaves completed steps as they are, or cancels a compensation", async () => {
    await echoes(gateway, ["demo.book"]);
    await applied(gateway, {
      id: "trip",
      steps: {
        book: { topic: "demo.book", compensate: { topic: "demo.unserved" } },
        work: { topic: "demo.unserved", depends_on: ["book"] },
      },
    });
    const runId = await started(gateway, "trip");
    await runUntil(gateway, runId, ({ steps }) => (steps as Record<string, Json>).work?.job_id !== undefined);
    const [submitter, operator] = await Promise.all(
      (["submitter", "operator"] as const).map(async (role) => (await gateway.keyOf("default", role)).key),
    );
    const cancel = (body: object, key?: string) => post(`/api/v1/workflow-runs/${runId}/cancel`, body, key);
    const forbidden = { status: 403, code: "forbidden" };
    expect(await cancel({ compensate: false }, submitter)).toMatchObject(forbidden);
    expect(await cancel({}, submitter)).toMatchObject({ state: "ENDING" });
    const undo = `/api/v1/jobs/${runId}:book.undo@1/cancel`;
    expect(await post(undo, {}, submitter)).toMatchObject(forbidden);
    expect(await cancel({ compensate: false }, submitter)).toMatchObject(forbidden);
    expect(await post(undo, {}, operator)).toMatchObject({ state: "CANCELLED" });
  });

  test("reruns from a step with the earlier results; a dry run starts nothing", async () => {
    await echoes(gateway, ["demo.price", "demo.pack"]);
    await applied(gateway, ORDER);
    const runId = await started(gateway, "order", { input: { items: [1] } });
    await runIs(gateway, runId, "SUCCEEDED");
    expect(await control(runId, "rerun", { from_step: "pak" })).toMatchObject({
      status: 404,
      code: "step_not_found",
      error: expect.stringContaining("`pack`"),
    });
    const dry = await control(runId, "rerun", { from_step: "pack", dry_run: true });
    expect(dry).toMatchObject({ dry_run: true, rerun_of: runId, from_step: "pack", workflow_id: "order", version: 1 });
    expect((dry.steps as Json[]).map(({ step_id }) => step_id)).toEqual(["pack"]);
    expect((await get("/api/v1/workflow-runs")).items).toHaveLength(1);

    const again = await control(runId, "rerun", { from_step: "pack", idempotency_key: "k" });
    expect(again).toMatchObject({ workflow_id: "order", version: 1, replayed: false, rerun_of: runId });
    const replay = await control(runId, "rerun", { from_step: "pack", idempotency_key: "k" });
    expect(replay).toMatchObject({ run_id: again.run_id, replayed: true });
    const run = await runIs(gateway, String(again.run_id), "SUCCEEDED");
    expect(run).toMatchObject({
      rerun_of: { run_id: runId, from_step: "pack" },
      steps: { price: { state: "SUCCEEDED" } },
    });
    expect(run.output).toEqual({ packed: [{ got: 1 }] });
  });

  test("a run takes events: delivered, kept, repeated, refused; audited with the key that sent them", async () => {
    const ask = { type: "wait", event: "answer", correlate: "input.ticket", timeout_sec: 60 };
    const after = { type: "wait", event: "done", timeout_sec: 60, depends_on: ["ask"] };
    await applied(gateway, { id: "asks", steps: { ask, after } });
    const runId = await started(gateway, "asks", { input: { ticket: 7 } });
    expect((await get(`/api/v1/workflow-runs/${runId}`)).steps).toMatchObject({
      ask: { type: "wait", state: "RUNNING", awaits: { event: "answer", correlation_key: "7" }, job_id: null },
    });
    const submitter = await gateway.keyOf("default", "submitter");
    const viewer = await gateway.keyOf("default", "viewer");
    const send = (body: object, key = submitter.key) => post(`/api/v1/workflow-runs/${runId}/events`, body, key);
    const kept = { run_id: runId, outcome: "kept", step_id: null };
    expect(await send({ name: "done", data: 1 })).toEqual(kept);
    const answer = { name: "answer", data: { text: "yes" }, correlation_key: 7, event_id: "e-1" };
    expect(await send(answer, viewer.key)).toMatchObject({ status: 403, code: "forbidden" });
    expect(await send(answer)).toEqual({ run_id: runId, outcome: "delivered", step_id: "ask" });
    expect(await send(answer)).toEqual({ run_id: runId, outcome: "duplicate", step_id: null });
    const { key: operator } = await gateway.keyOf("default", "operator");
    const run = await runUntil(gateway, runId, ({ state }) => state === "SUCCEEDED", { key: operator });
    expect(run.output).toEqual({ after: 1 });
    expect(await send({ name: "done" })).toMatchObject({ status: 409, code: "run_ended", state: "SUCCEEDED" });
    expect(await send({ name: "a b" })).toMatchObject({ status: 400, code: "invalid_request" });
    expect(await send({ name: "x", data: "y".repeat(300_000) })).toMatchObject({ status: 413, code: "body_too_large" });
    const unknown = await post("/api/v1/workflow-runs/none/events", { name: "x" }, submitter.key);
    expect(unknown).toMatchObject({ status: 404, code: "run_not_found" });
    // Entries reach the log with the next pass of the audit chain.
    await expect
      .poll(async () => {
        const page = (await gateway.call("GET", "/api/v1/audit", { key: operator })).json<{ items: readonly Json[] }>();
        return page.items.filter(({ what }) => what === "event");
      })
      .toMatchObject(
        ["answer", "done"].map((event) => ({ who: submitter.id, facts: { run: runId, workflow: "asks", event } })),
      );
  });

  test("beyond the limit of kept events a run refuses more with 429", async () => {
    await applied(gateway, OPEN);
    const runId = await started(gateway, "open");
    const send = () => control(runId, "events", { name: "early" });
    const answers = await Promise.all(Array.from({ length: 101 }, send));
    expect(answers.filter(({ outcome }) => outcome === "kept")).toHaveLength(100);
    expect(answers.find(({ code }) => code !== undefined)).toMatchObject({ status: 429, code: "event_limit" });
  });

  test("approval steps are approved like jobs", async () => {
    await applied(gateway, SIGNED);
    const { key } = await gateway.keyOf("default", "operator");
    const runId = await started(gateway, "signed", { input: { what: "the lease" } }, { key });
    const { items } = (await gateway.call("GET", "/api/v1/approvals", { key })).json<{ items: readonly Json[] }>();
    expect(items).toMatchObject([{ job_id: `${runId}:sign@1`, labels: { run_id: runId, workflow_id: "signed" } }]);
    const other = await gateway.keyOf("default", "operator");
    const approve = `/api/v1/approvals/${runId}:sign@1/approve`;
    expect(await post(approve, { note: "fine" }, other.key)).toMatchObject({ state: "SUCCEEDED" });
    const run = await runUntil(gateway, runId, ({ state }) => state === "SUCCEEDED", { key });
    expect(run.output).toEqual({ done: { by: other.id } });
  });
});

describe("while the run lock is held", () => {
  const hold = async (runId: string) => {
    const request = { key: `cordum:wf:run:lock:${runId}`, org: "default", ttlMs: 60_000, waitMs: 0, owner: "test" };
    const held = await gateway.world.locks.acquire(request);
    if (held.kind !== "held") throw new Error("not held");
    return held.lease;
  };
  const expectBusy = async (url: string, body?: object) => {
    const response = await gateway.call("POST", url, { body });
    expect(response.json(), url).toMatchObject({ status: 503, code: "lock_busy", retryable: true });
    expect(Number(response.headers["retry-after"]), url).toBeGreaterThan(0);
  };

  test("control and approval are a 503 until the lock is released", async () => {
    await applied(gateway, SIGNED);
    const runId = await started(gateway, "signed", { input: { what: "it" } });
    const lease = await hold(runId);
    const job = `${runId}:sign@1`;
    for (const what of ["cancel", "pause"]) await expectBusy(`/api/v1/workflow-runs/${runId}/${what}`);
    await expectBusy(`/api/v1/approvals/${job}/reject`, { reason: "no" });
    await expectBusy(`/api/v1/jobs/${job}/cancel`);
    await lease.release();
    expect(await post(`/api/v1/approvals/${job}/reject`, { reason: "no" })).toMatchObject({ state: "DENIED" });
    await runIs(gateway, runId, "FAILED");
  });

  test("L17: a disconnected client does not abort the cancel; the lock is released", async () => {
    await gateway.close();
    gateway = await openTestGateway({ settings: settingsFrom({ "run_lock.gateway_wait_ms": 60_000 }) });
    await applied(gateway, OPEN);
    const runId = await started(gateway, "open");
    const lease = await hold(runId);
    const { hostname: host, port } = new URL(await gateway.server.listen("127.0.0.1", 0));
    const hungUp = new Promise((resolve) => {
      gateway.app.server.once("connection", (peer: Socket) => peer.once("close", resolve));
    });
    const socket = connect({ host, port: Number(port) });
    socket.write(`POST /api/v1/workflow-runs/${runId}/cancel HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 0\r\n\r\n`);
    const locks = async () => (await get("/api/v1/locks")).items as readonly Json[];
    await until(async () => (await locks())[0]?.waiters === 1);
    socket.destroy();
    await hungUp;
    expect(await locks()).toMatchObject([{ holder: "test", waiters: 1 }]);
    await lease.release();
    await runIs(gateway, runId, "CANCELLED");
    await until(async () => (await locks()).length === 0);
  });

  test("an HTTP worker gets a 503 for its result and keeps its lease", async () => {
    await applied(gateway, OPEN);
    const runId = await started(gateway, "open");
    const leased = await post("/api/v1/worker/lease", {
      worker_id: "w",
      topics: ["demo.unserved"],
      max: 1,
      wait_ms: 5_000,
    });
    const [job] = leased.jobs as readonly Json[];
    const lease = await hold(runId);
    const complete = `/api/v1/worker/jobs/${job?.job_id}/complete`;
    const result = { lease_id: job?.lease_id, result: 7 };
    await expectBusy(complete, result);
    await expectBusy(`/api/v1/worker/jobs/${job?.job_id}/fail`, {
      lease_id: job?.lease_id,
      error: "no",
      retryable: false,
    });
    await lease.release();
    expect(await post(complete, result)).toMatchObject({ state: "SUCCEEDED" });
    expect(await runIs(gateway, runId, "SUCCEEDED")).toMatchObject({ output: { work: 7 } });
  });
});

/** Polls after each turn of the event loop. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}
