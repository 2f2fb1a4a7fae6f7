import { afterEach, describe, expect, test } from "vitest";
import type { Decision } from "../../../src/core/policy/decision.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

type Payload = Readonly<Record<string, unknown>>;
const JOBS = "/api/v1/jobs";
const APPROVALS = "/api/v1/approvals";

async function submit(body: Payload = {}, key?: string): Promise<Payload> {
  const answer = await gateway.call("POST", JOBS, { body: { topic: "demo.approve", input: { usd: 1 }, ...body }, key });
  expect(answer.statusCode).toBe(200);
  return answer.json<Payload>();
}

/** A policy that the test can change; submitters cannot approve their own jobs. */
function strict(): { current: Decision } {
  return { current: { effect: "require_approval", ruleId: "two-eyes", reason: "look", snapshot: "s1" } };
}

const openWith = (policy: { current: Decision }) =>
  openTestGateway({
    change: () => ({
      safety: {
        local: () => policy.current,
        check: async () => ({ kind: "decided", decision: policy.current }),
      },
    }),
  });

describe("approvals", () => {
  test("a job that requires approval is listed redacted, and runs once approved", async () => {
    gateway = await openTestGateway();
    const stop = await startWorker(gateway.world, {
      id: "w1",
      topics: ["demo.approve"],
      concurrency: 1,
      handle: async () => "done",
    });
    const submitted = await submit({ input: { usd: 1, password: "hunter2" }, labels: { team: "x" } });
    expect(submitted).toMatchObject({
      state: "APPROVAL_REQUIRED",
      status: "approval_required",
      reason: expect.stringContaining("requires approval"),
      rule_id: "approve-demo-approve",
    });
    const id = submitted.job_id;
    const listed = (await gateway.call("GET", APPROVALS)).json<{ items: Payload[] }>();
    expect(listed.items).toMatchObject([
      {
        job_id: id,
        topic: "demo.approve",
        tenant_id: "default",
        labels: { team: "x" },
        rule_id: "approve-demo-approve",
        submitted_by: "local",
        by_submitter: true,
        job_hash: expect.stringMatching(/^[0-9a-f]{32}$/),
        input: { usd: 1, password: "[redacted]" },
      },
    ]);
    const [{ job_hash, snapshot } = {}] = listed.items;
    const body = { note: "looks fine", job_hash, snapshot };
    const approved = await gateway.call("POST", `${APPROVALS}/${id}/approve`, { body });
    expect(approved.statusCode).toBe(200);
    expect(approved.json()).toMatchObject({ job_id: id, state: expect.stringMatching(/DISPATCHED|SCHEDULED/) });
    await gateway.ended(1);
    const job = (await gateway.call("GET", `${JOBS}/${id}`)).json<Payload>();
    expect(job).toMatchObject({
      state: "SUCCEEDED",
      approval: { decided_by: "local" },
      input: { password: "[redacted]" },
    });
    const again = await gateway.call("POST", `${APPROVALS}/${id}/approve`);
    expect(again.json()).toMatchObject({ status: 409, code: "not_waiting", state: "SUCCEEDED" });
    const decisions = (await gateway.call("GET", `${JOBS}/${id}/decisions`)).json<{ items: Payload[] }>();
    expect(decisions).toMatchObject({ safety: { decision: "REQUIRE_APPROVAL" }, approval: { decided_by: "local" } });
    expect(decisions.items.map(({ event, who, why }) => [event, who, why]).at(-1)).toEqual([
      "approved",
      "local",
      "looks fine",
    ]);
    await stop();
  });

  test("a rejection requires a reason, which a replayed submission returns", async () => {
    gateway = await openTestGateway();
    const id = (await submit({ idempotency_key: "k" })).job_id;
    expect((await gateway.call("POST", `${APPROVALS}/${id}/reject`)).json()).toMatchObject({ code: "invalid_request" });
    const refused = await gateway.call("POST", `${APPROVALS}/${id}/reject`, { body: { reason: "too much" } });
    expect(refused.json()).toEqual({ job_id: id, id, state: "DENIED" });
    const body = { topic: "demo.approve", input: { usd: 1 }, idempotency_key: "k" };
    const again = await gateway.call("POST", JOBS, { body });
    expect(again.json()).toMatchObject({ status: 403, code: "denied", job_id: id, detail: "too much" });
  });

  test("submitters cannot approve their own jobs; viewers cannot approve at all", async () => {
    gateway = await openWith(strict());
    const [sam, alice, viewer] = await Promise.all([
      gateway.keyOf("default", "operator"),
      gateway.keyOf("default", "operator"),
      gateway.keyOf("default", "viewer"),
    ]);
    const id = (await submit({}, sam.key)).job_id;
    const approve = (key: string) => gateway.call("POST", `${APPROVALS}/${id}/approve`, { key });
    expect((await approve(sam.key)).json()).toMatchObject({ status: 403, code: "own_job" });
    expect((await approve(viewer.key)).json()).toMatchObject({ status: 403, code: "forbidden" });
    expect((await approve(alice.key)).statusCode).toBe(200);
    const job = (await gateway.call("GET", `${JOBS}/${id}`, { key: viewer.key })).json();
    expect(job).toMatchObject({ submitted_by: sam.id, approval: { decided_by: alice.id } });
  });

  test("job and explanation name the key that decided, when, and its note", async () => {
    gateway = await openWith(strict());
    const created = await gateway.call("POST", "/api/v1/keys", {
      body: { tenant: "*", role: "admin", name: "night shift" },
    });
    const { key, id: keyId } = created.json<{ key: string; id: string }>();
    const sam = await gateway.keyOf("default", "operator");
    const [first, second] = [(await submit({}, sam.key)).job_id, (await submit({}, sam.key)).job_id];
    await gateway.call("POST", `${APPROVALS}/${first}/approve`, { key, body: { note: "checked with ada" } });
    await gateway.call("POST", `${APPROVALS}/${second}/reject`, { key, body: { reason: "too much" } });
    for (const [id, decision, note] of [
      [first, "approved", "checked with ada"],
      [second, "rejected", "too much"],
    ]) {
      const approval = {
        decision,
        note,
        decided_by: keyId,
        decided_by_name: "night shift",
        decided_at: expect.any(String),
      };
      expect((await gateway.call("GET", `${JOBS}/${id}`, { key })).json()).toMatchObject({ approval });
      expect((await gateway.call("GET", `${JOBS}/${id}/explain`, { key })).json()).toMatchObject({ approval });
    }
  });

  test("submit says that no key can approve, why, and what to do, until one can", async () => {
    gateway = await openWith(strict());
    const byToken = await submit();
    expect(byToken).toMatchObject({
      submitter_can_approve: false,
      no_approver: {
        detail: expect.stringMatching(/submitters cannot approve their own jobs.*by_submitter: true.*`two-eyes`/),
        ways: [{ command: expect.stringContaining("key create --tenant '*' --role admin") }, {}],
      },
    });
    const refused = await gateway.call("POST", `${APPROVALS}/${byToken.job_id}/approve`);
    expect(refused.json()).toMatchObject({ code: "own_job", detail: expect.stringContaining("by_submitter: true") });
    await gateway.close();

    gateway = await openWith(strict());
    const sam = await gateway.keyOf("acme", "operator");
    // Neither a key without the right nor an expired or foreign one helps.
    await gateway.keyOf("acme", "submitter");
    await gateway.keyOf("acme", "operator", 1);
    await gateway.keyOf("other", "admin");
    const alone = await submit({}, sam.key);
    expect(alone.no_approver).toMatchObject({
      ways: [{ command: "cordum key create --tenant acme --role operator --name NAME" }, {}],
    });
    expect(JSON.stringify(alone.no_approver)).not.toContain("other");
  });

  test.each([
    ["acme", "a second key of the tenant"],
    ["*", "a key of all tenants"],
  ])("submit names no missing approver with a key of %s: %s", async (tenant) => {
    gateway = await openWith(strict());
    const sam = await gateway.keyOf("acme", "operator");
    await gateway.keyOf(tenant, "admin");
    expect(await submit({}, sam.key)).not.toHaveProperty("no_approver");
  });

  test("an approval of the own job that the rule allows is marked in the audit log", async () => {
    gateway = await openTestGateway();
    const submitted = await submit();
    expect(submitted).toMatchObject({ submitter_can_approve: true });
    expect(submitted).not.toHaveProperty("no_approver");
    const approved = await gateway.call("POST", `${APPROVALS}/${submitted.job_id}/approve`);
    expect(approved.statusCode).toBe(200);
    for (;;) {
      const { items } = (await gateway.call("GET", "/api/v1/audit")).json<{ items: Payload[] }>();
      const entry = items.find(({ kind, what }) => kind === "approval" && what === "approved");
      if (entry === undefined) continue;
      expect(entry).toMatchObject({ who: "local", facts: { job: submitted.job_id, by_submitter: true } });
      break;
    }
  });

  test("L34: a changed policy voids the approval, and the response has the new state", async () => {
    const policy = strict();
    gateway = await openWith(policy);
    const id = (await submit()).job_id;
    const alice = await gateway.keyOf("default", "operator");
    const approve = (body: object = {}) => gateway.call("POST", `${APPROVALS}/${id}/approve`, { key: alice.key, body });
    expect((await approve({ job_hash: "other" })).json()).toMatchObject({ status: 409, code: "approval_void" });
    policy.current = { effect: "deny", ruleId: "stop", reason: "not any more", snapshot: "s2" };
    expect((await approve()).json()).toMatchObject({
      status: 409,
      code: "approval_void",
      state: "DENIED",
      detail: expect.stringContaining("the policy has changed"),
    });
    expect((await approve()).json()).toMatchObject({ code: "not_waiting", state: "DENIED" });
  });

  test("approvals of another tenant are not found", async () => {
    gateway = await openTestGateway();
    const id = (await submit()).job_id;
    for (const [path, body] of [
      ["approve", {}],
      ["reject", { reason: "no" }],
    ] as const) {
      const answer = await gateway.call("POST", `${APPROVALS}/${id}/${path}`, { tenant: "acme", body });
      expect(answer.json()).toMatchObject({ status: 404, code: "job_not_found" });
    }
    expect((await gateway.call("GET", APPROVALS, { tenant: "acme" })).json()).toEqual({ items: [], next_cursor: null });
  });
});
