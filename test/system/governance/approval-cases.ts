/** Approvals and tenant isolation. */
import { expect, test } from "vitest";
import type { Deployment } from "../deployments.ts";

export function approvalCases(deployment: () => Deployment): void {
  /** Submits a job that waits for an approval. */
  async function submitWaiting(): Promise<string> {
    const { apis, keys, prefixes } = deployment();
    const api = apis[0].as(keys.submitter);
    const id = await api.submit(`${prefixes[0]}.ask`, { amount: 5 });
    await api.until(`/jobs/${id}`, ({ body }) => body.state === "APPROVAL_REQUIRED");
    return id;
  }

  test("a job waits for its approval and succeeds after an approval at the other gateway", async () => {
    const { apis, keys, prefixes } = deployment();
    const answer = await apis[0]
      .as(keys.submitter)
      .post("/jobs", { topic: `${prefixes[0]}.ask`, input: { amount: 4 } });
    expect(answer).toMatchObject({
      status: 200,
      body: { state: "APPROVAL_REQUIRED", status: "approval_required", reason: "a human looks at these first" },
    });
    const id = answer.body.job_id;
    const { items } = (await apis[1].as(keys.bob).get("/approvals")).body;
    const shown = items.find((one: { job_id: string }) => one.job_id === id);
    expect(shown).toMatchObject({ rule_id: "ask-a-human", input: { amount: 4 } });
    const { job_hash, snapshot } = shown;
    const approved = await apis[1].as(keys.bob).post(`/approvals/${id}/approve`, { job_hash, snapshot, note: "fine" });
    expect(approved.status).toBe(200);
    const job = await apis[0].ended(id, "SUCCEEDED");
    expect(job.approval.decided_by).toBe(idOf(keys.bob));
    const { items: decisions } = (await apis[0].get(`/jobs/${id}/decisions`)).body;
    expect(decisions.map((line: { event: string }) => line.event)).toEqual(["approval_required", "approved"]);
  });

  test("one of two concurrent approvals wins, and the job runs once", async () => {
    const { apis, keys, workers } = deployment();
    const id = await submitWaiting();
    const approvers = [apis[0].as(keys.alice), apis[1].as(keys.bob)];
    const answers = await Promise.all(approvers.map((api) => api.post(`/approvals/${id}/approve`)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    expect(answers.find(({ status }) => status === 409)?.body.code).toBe("not_waiting");
    const winner = answers[0]?.status === 200 ? keys.alice : keys.bob;
    expect((await apis[0].ended(id, "SUCCEEDED")).approval.decided_by).toBe(idOf(winner));
    expect(workers.attempts.get(id)).toBe(1);
  });

  test("a rejected job ends with the reason and cannot be approved", async () => {
    const { apis, keys, workers } = deployment();
    const id = await submitWaiting();
    const rejected = await apis[0].as(keys.alice).post(`/approvals/${id}/reject`, { reason: "too expensive" });
    expect(rejected).toMatchObject({ status: 200, body: { state: "DENIED" } });
    expect((await apis[1].job(id)).error.message).toContain("too expensive");
    expect((await apis[1].as(keys.bob).post(`/approvals/${id}/approve`)).status).toBe(409);
    expect(workers.attempts.has(id)).toBe(false);
  });

  test("submitters cannot approve their own jobs, and the submitter role cannot approve", async () => {
    const { apis, keys, prefixes } = deployment();
    const alice = apis[0].as(keys.alice);
    const own = await alice.submit(`${prefixes[0]}.ask`);
    await alice.until(`/jobs/${own}`, ({ body }) => body.state === "APPROVAL_REQUIRED");
    expect(await alice.post(`/approvals/${own}/approve`)).toMatchObject({ status: 403, body: { code: "own_job" } });
    const submitter = apis[1].as(keys.submitter);
    expect(await submitter.post(`/approvals/${own}/approve`)).toMatchObject({
      status: 403,
      body: { code: "forbidden" },
    });
    expect((await apis[1].as(keys.bob).post(`/approvals/${own}/reject`, { reason: "over" })).status).toBe(200);
  });

  test("a key of another tenant can neither read nor change anything", async () => {
    const { apis, keys } = deployment();
    const id = await submitWaiting();
    for (const api of apis) {
      const foreign = api.as(keys.foreign);
      for (const list of ["/jobs", "/approvals", "/dlq", "/failopen/bypassed"]) {
        expect(await foreign.get(list)).toMatchObject({ status: 200, body: { items: [] } });
      }
      for (const path of [`/jobs/${id}`, `/jobs/${id}/explain`, `/jobs/${id}/decisions`]) {
        expect((await foreign.get(path)).status).toBe(404);
      }
      expect((await foreign.post(`/approvals/${id}/approve`)).status).toBe(404);
      expect((await foreign.post(`/jobs/${id}/cancel`)).status).toBe(404);
      const named = foreign.with({ "x-tenant-id": "default" });
      expect(await named.get("/jobs")).toMatchObject({ status: 403, body: { code: "tenant_forbidden" } });
      expect((await foreign.post("/policy/publish", { policy: "rules: []" })).status).toBe(403);
      expect((await api.as(`${keys.foreign}x`).get("/jobs")).status).toBe(401);
    }
    const log = JSON.stringify((await apis[0].as(keys.foreign).get("/audit")).body);
    expect(log).not.toContain(id);
    await apis[0].as(keys.bob).post(`/approvals/${id}/reject`, { reason: "over" });
  });
}

/** `cordum_<id>_<secret>`. */
const idOf = (key: string): string | undefined => key.split("_")[1];
