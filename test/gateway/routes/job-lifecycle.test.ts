import { afterEach, describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import type { Decision, PolicyRequest } from "../../../src/core/policy/decision.ts";
import { permanent } from "../../../src/core/retry/intent.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Payload = Readonly<Record<string, unknown>>;
const JOBS = "/api/v1/jobs";

const post = (path: string, body?: object, headers: Readonly<Record<string, string>> = {}) =>
  gateway.app.inject({ method: "POST", url: `/api/v1${path}`, headers, ...(body ? { payload: body } : {}) });
const get = async (path: string) => (await gateway.call("GET", `/api/v1${path}`)).json<Payload>();

async function submit(body: object = {}): Promise<string> {
  const response = await post("/jobs", { topic: "demo.echo", ...body });
  expect(response.statusCode).toBe(200);
  return String(response.json<Payload>().job_id);
}

describe("submit", () => {
  test("stores actor, pack, labels, the MCP call as labels, and the submitter", async () => {
    gateway = await openTestGateway();
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const body = {
      topic: "demo.echo",
      actor_id: "u1",
      actor_type: "human",
      pack_id: "p1",
      labels: { a: "b" },
      mcp: { server: "files", tool: "read" },
    };
    const { job_id } = (await post("/jobs", body, { traceparent })).json<Payload>();
    expect(await get(`/jobs/${job_id}`)).toMatchObject({
      actor_id: "u1",
      actor_type: "human",
      pack_id: "p1",
      submitted_by: "local",
      labels: { a: "b", "mcp.server": "files", "mcp.tool": "read" },
    });
  });

  test("rejects unknown fields with a suggestion", async () => {
    gateway = await openTestGateway();
    const response = await post("/jobs", { topic: "demo.echo", risktags: ["x"], mcp: { tol: "x" } });
    expect(response.json()).toMatchObject({ status: 400, code: "invalid_submission" });
    expect(response.body).toContain("did you mean `risk_tags`?");
    expect(response.body).toContain("did you mean `tool`?");
  });

  test("rejects a label that contradicts the MCP call", async () => {
    gateway = await openTestGateway();
    const body = { topic: "demo.echo", labels: { "mcp.tool": "read" }, mcp: { tool: "write" } };
    expect((await post("/jobs", body)).json()).toMatchObject({ status: 400, code: "invalid_submission" });
  });

  test("rejects a topic that no pool serves, and lists the pools", async () => {
    const pools = { agents: { topics: ["demo.*"], requires: [] } };
    gateway = await openTestGateway({ settings: { ...defaultSettings(), pools } });
    const response = await post("/jobs", { topic: "other.thing" });
    expect(response.json()).toMatchObject({
      status: 400,
      code: "invalid_submission",
      detail: "no pool serves topic `other.thing`; pools are `agents` (demo.*); see `pools.<name>.topics`",
      pools: { agents: ["demo.*"] },
    });
    await submit({ topic: "demo.echo" });
  });
});

describe("cancel", () => {
  test("ends a job once and records the caller", async () => {
    gateway = await openTestGateway();
    const id = await submit();
    const cancelled = await post(`/jobs/${id}/cancel`, { reason: "not needed" });
    expect(cancelled.json()).toEqual({ job_id: id, id, state: "CANCELLED" });
    const job = await get(`/jobs/${id}`);
    expect(job).toMatchObject({ state: "CANCELLED", waits_for: null, error: { message: "not needed" } });
    expect((job.history as Payload[]).at(-1)).toMatchObject({ event: "cancelled", who: "local" });
    const again = await post(`/jobs/${id}/cancel`);
    expect(again.json()).toMatchObject({ status: 409, code: "job_ended", state: "CANCELLED" });
    expect((await post("/jobs/unknown/cancel")).json()).toMatchObject({ status: 404, code: "job_not_found" });
    const foreign = await post(`/jobs/${id}/cancel`, {}, { "x-tenant-id": "acme" });
    expect(foreign.json()).toMatchObject({ code: "job_not_found" });
  });

  test("is allowed for submitters, not for viewers", async () => {
    gateway = await openTestGateway();
    const [submitter, viewer] = [await gateway.keyOf("default", "submitter"), await gateway.keyOf("default", "viewer")];
    const body = { topic: "demo.echo" };
    const { job_id } = (await gateway.call("POST", JOBS, { key: submitter.key, body })).json<Payload>();
    const cancel = (key: string) => gateway.call("POST", `${JOBS}/${job_id}/cancel`, { key });
    expect((await cancel(viewer.key)).statusCode).toBe(403);
    expect((await cancel(submitter.key)).statusCode).toBe(200);
  });
});

test("explain gives the wait reason, the facts and the command that unblocks the job", async () => {
  gateway = await openTestGateway();
  const id = await submit({ topic: "demo.approve" });
  const why = await get(`/jobs/${id}/explain`);
  expect(why).toMatchObject({
    job_id: id,
    state: "APPROVAL_REQUIRED",
    wait: { reason: "approval", policy: "rule `approve-demo-approve`", retry_class: null },
    facts: { window: { used: 0 }, backlog: { topic: 0 } },
  });
  expect((why.unblocks as Payload[])[0]).toEqual({ what: "approve it", command: `cordum approval approve ${id}` });
  expect(await get(`/jobs/${id}`)).toMatchObject({ waits_for: "approval" });
  expect(await get("/jobs/unknown/explain")).toMatchObject({ code: "job_not_found" });
});

describe("remediate", () => {
  const remediations = [
    { id: "dry-run", title: "do it without effect", addLabels: { dry: "yes" }, removeLabels: ["prod"] },
    { id: "read", title: "read only", replacementTopic: "demo.read" },
  ];
  const denied: Decision = { effect: "deny", ruleId: "no", reason: "no", snapshot: "s", remediations };
  const local = ({ topic, labels }: PolicyRequest): Decision =>
    topic === "demo.write" && labels.dry !== "yes" ? denied : { ...denied, effect: "allow", remediations: [] };
  const open = () =>
    openTestGateway({
      change: () => ({ safety: { local, check: async (request) => ({ kind: "decided", decision: local(request) }) } }),
    });

  test("resubmits a denied job with an offered remediation applied", async () => {
    gateway = await open();
    const body = { topic: "demo.write", input: { a: 1 }, labels: { prod: "1", team: "x" } };
    const refused = (await post("/jobs", body)).json<Payload>();
    expect(refused).toMatchObject({ status: 403, code: "denied", rule_id: "no", snapshot: "s" });
    expect(refused.remediations).toMatchObject([{ id: "dry-run" }, { id: "read", replacement_topic: "demo.read" }]);
    const path = `/jobs/${refused.job_id}/remediate`;
    const first = (await post(path, { remediation_id: "dry-run" })).json<Payload>();
    expect(await get(`/jobs/${first.job_id}`)).toMatchObject({
      topic: "demo.write",
      labels: { team: "x", dry: "yes" },
      input: { a: 1 },
      trace_id: refused.trace_id,
    });
    const again = (await post(path, { remediation_id: "dry-run" })).json<Payload>();
    expect(again).toMatchObject({ job_id: first.job_id, replayed: true });
    const read = (await post(path, { remediation_id: "read" })).json<Payload>();
    expect(await get(`/jobs/${read.job_id}`)).toMatchObject({ topic: "demo.read" });
    expect((await post(path, { remediation_id: "reed" })).json()).toMatchObject({ code: "remediation_not_found" });
    expect((await post(path)).json()).toMatchObject({
      code: "remediation_not_found",
      remediations: ["dry-run", "read"],
    });
    const other = await post(`/jobs/${first.job_id}/remediate`, { remediation_id: "read" });
    expect(other.json()).toMatchObject({ status: 409, code: "not_denied" });
  });
});

describe("dead letters", () => {
  test("retries one as the same job and deletes another", async () => {
    gateway = await openTestGateway();
    let isFixed = false;
    const stop = await startWorker(gateway.world, {
      id: "w1",
      topics: ["demo.echo"],
      concurrency: 1,
      handle: async () => {
        if (!isFixed) throw permanent(new Error("broken"));
        return "done";
      },
    });
    const [one, two] = [await submit(), await submit()];
    await gateway.ended(2);
    isFixed = true;
    const retried = await post(`/dlq/${one}/retry`);
    expect(retried.statusCode).toBe(200);
    expect(retried.json()).toMatchObject({ job_id: one });
    await gateway.ended(3);
    expect(await get(`/jobs/${one}`)).toMatchObject({ state: "SUCCEEDED", result: "done", attempt: 2 });
    expect((await post(`/dlq/${one}/retry`)).json()).toMatchObject({ status: 404, code: "dead_letter_not_found" });
    const foreign = await gateway.call("DELETE", `/api/v1/dlq/${two}`, { tenant: "acme" });
    expect(foreign.statusCode).toBe(404);
    expect((await gateway.call("DELETE", `/api/v1/dlq/${two}`)).json()).toEqual({ id: two, dropped: true });
    expect(await get("/dlq")).toEqual({ items: [], next_cursor: null });
    await stop();
  });
});
