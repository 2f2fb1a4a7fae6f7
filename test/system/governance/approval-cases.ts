/** What people may do about jobs, and what others may not see. */
import { expect, test } from "vitest";
import type { Setup } from "../deployments.ts";

export function peopleCases(setup: () => Setup): void {
  /** Submitted by somebody who may not approve it. */
  async function waiting(): Promise<string> {
    const { doors, keys, prefixes } = setup();
    const door = doors[0].as(keys.submitter);
    const id = await door.submit(`${prefixes[0]}.ask`, { amount: 5 });
    await door.until(`/jobs/${id}`, ({ body }) => body.state === "APPROVAL_REQUIRED");
    return id;
  }

  test("a job that needs approval says so, waits, and finishes after it was given through the other way in", async () => {
    const { doors, keys, prefixes } = setup();
    const answer = await doors[0]
      .as(keys.submitter)
      .post("/jobs", { topic: `${prefixes[0]}.ask`, input: { amount: 4 } });
    expect(answer).toMatchObject({
      status: 200,
      body: { state: "APPROVAL_REQUIRED", status: "approval_required", reason: "a human looks at these first" },
    });
    const id = answer.body.job_id;
    const { items } = (await doors[1].as(keys.bob).get("/approvals")).body;
    const shown = items.find((one: { job_id: string }) => one.job_id === id);
    expect(shown).toMatchObject({ rule_id: "ask-a-human", input: { amount: 4 } });
    const { job_hash, snapshot } = shown;
    const approved = await doors[1].as(keys.bob).post(`/approvals/${id}/approve`, { job_hash, snapshot, note: "fine" });
    expect(approved.status).toBe(200);
    const job = await doors[0].ended(id, "SUCCEEDED");
    expect(job.approval.decided_by).toBe(idOf(keys.bob));
    const { items: decisions } = (await doors[0].get(`/jobs/${id}/decisions`)).body;
    expect(decisions.map((line: { event: string }) => line.event)).toEqual(["approval_required", "approved"]);
  });

  test("of two who approve at once one does; the job runs once", async () => {
    const { doors, keys, workers } = setup();
    const id = await waiting();
    const people = [doors[0].as(keys.alice), doors[1].as(keys.bob)];
    const answers = await Promise.all(people.map((door) => door.post(`/approvals/${id}/approve`)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    expect(answers.find(({ status }) => status === 409)?.body.code).toBe("not_waiting");
    const winner = answers[0]?.status === 200 ? keys.alice : keys.bob;
    expect((await doors[0].ended(id, "SUCCEEDED")).approval.decided_by).toBe(idOf(winner));
    expect(workers.attempts.get(id)).toBe(1);
  });

  test("a refused job ends, says why, and cannot be approved any more", async () => {
    const { doors, keys, workers } = setup();
    const id = await waiting();
    const rejected = await doors[0].as(keys.alice).post(`/approvals/${id}/reject`, { reason: "too expensive" });
    expect(rejected).toMatchObject({ status: 200, body: { state: "DENIED" } });
    expect((await doors[1].job(id)).error.message).toContain("too expensive");
    expect((await doors[1].as(keys.bob).post(`/approvals/${id}/approve`)).status).toBe(409);
    expect(workers.attempts.has(id)).toBe(false);
  });

  test("whoever asked for it may not approve it, and a submitter approves nothing", async () => {
    const { doors, keys, prefixes } = setup();
    const alice = doors[0].as(keys.alice);
    const own = await alice.submit(`${prefixes[0]}.ask`);
    await alice.until(`/jobs/${own}`, ({ body }) => body.state === "APPROVAL_REQUIRED");
    expect(await alice.post(`/approvals/${own}/approve`)).toMatchObject({ status: 403, body: { code: "own_job" } });
    const submitter = doors[1].as(keys.submitter);
    expect(await submitter.post(`/approvals/${own}/approve`)).toMatchObject({
      status: 403,
      body: { code: "forbidden" },
    });
    expect((await doors[1].as(keys.bob).post(`/approvals/${own}/reject`, { reason: "over" })).status).toBe(200);
  });

  test("a key of another tenant sees and does nothing here", async () => {
    const { doors, keys } = setup();
    const id = await waiting();
    for (const door of doors) {
      const foreign = door.as(keys.foreign);
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
      expect((await door.as(`${keys.foreign}x`).get("/jobs")).status).toBe(401);
    }
    const log = JSON.stringify((await doors[0].as(keys.foreign).get("/audit")).body);
    expect(log).not.toContain(id);
    await doors[0].as(keys.bob).post(`/approvals/${id}/reject`, { reason: "over" });
  });
}

/** `cordum_<id>_<secret>`. */
const idOf = (key: string): string | undefined => key.split("_")[1];
