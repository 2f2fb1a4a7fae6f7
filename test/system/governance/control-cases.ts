/** Operator controls: policies, fail-open leases, the kill switch, restarts, and the audit log. */
import { expect, test } from "vitest";
import type { Answer, Api } from "../api.ts";
import { type Deployment, POLICY } from "../deployments.ts";

export function controlCases(deployment: () => Deployment): void {
  test("a published policy is in force in all processes", async () => {
    const { apis, prefixes } = deployment();
    const policy = POLICY.replace(
      "rules:\n",
      "rules:\n  - {id: new-one, match: {topics: ['*.fresh']}, decision: deny, reason: new}\n",
    );
    const published = await apis[1].post("/policy/publish", { policy, name: "with one more rule" });
    expect(published).toMatchObject({ status: 200, body: { changed: true } });
    const { snapshot, previous } = published.body;
    expect(snapshot).not.toBe(previous);
    for (const api of apis) {
      await api.until("/policy/rules", ({ body }) => body.snapshot === snapshot);
      const question = { topic: "any.fresh" };
      const isNew = async () => (await api.post("/policy/evaluate", question)).body.snapshot === snapshot;
      while (!(await isNew()));
      expect((await api.post("/policy/evaluate", question)).body).toMatchObject({ rule_id: "new-one", snapshot });
    }
    const topic = `${prefixes[0]}.echo`;
    const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => apis[n % 2 === 0 ? 0 : 1].submit(topic, n)));
    const jobs = await Promise.all(ids.map((id) => apis[0].ended(id, "SUCCEEDED")));
    expect(new Set(jobs.map((job) => job.safety.snapshot))).toEqual(new Set([snapshot]));
    expect((await apis[0].post("/jobs", { topic: "http.fresh" })).body).toMatchObject({
      rule_id: "new-one",
      snapshot,
    });
  });

  test("jobs wait during a kernel outage and are bypassed, labelled and listed only under a fail-open lease", async () => {
    const outage = await deployment().isolateKernel();
    const { api } = outage;
    const topic = `${outage.prefix}.echo`;
    outage.begin();
    const waiting = await Promise.all([1, 2, 3, 4, 5].map((n) => api.submit(topic, n)));
    for (const id of waiting) await untilWaitReason(api, id, "safety_unavailable");
    const reason = "the kernel is being repaired, ticket 12";
    const opened = await api.post("/failopen", { scope: "default", reason, minutes: 5 });
    expect(opened).toMatchObject({ status: 200, body: { state: "in_force", reason } });
    const lease = opened.body.id;
    for (const id of waiting) {
      const job = await api.ended(id, "SUCCEEDED");
      expect(job.labels).toMatchObject({ safety_bypassed: "true", safety_bypass_reason: expect.any(String) });
      expect(job).toMatchObject({ bypass: { lease_id: lease }, safety: { bypassed: true, rule_id: null } });
      expect(job.result.labels.safety_bypassed).toBe("true");
    }
    const listed = (await api.get("/failopen/bypassed")).body.items;
    expect(listed.map((one: { job_id: string }) => one.job_id).toSorted()).toEqual(waiting.toSorted());

    expect((await api.post(`/failopen/${lease}/close`)).body).toMatchObject({ state: "ended" });
    const after = await Promise.all([6, 7, 8].map((n) => api.submit(topic, n)));
    for (const id of after) await untilWaitReason(api, id, "safety_unavailable");
    outage.end();
    for (const id of after) {
      const job = await api.ended(id, "SUCCEEDED");
      expect(job).toMatchObject({ bypass: null, safety: { bypassed: false, rule_id: "fine" } });
      expect(job.labels).not.toHaveProperty("safety_bypassed");
    }
    expect((await api.get("/failopen/bypassed")).body.items).toHaveLength(5);
    const reviewed = await api.post(`/failopen/bypassed/${waiting[0]}/review`, { note: "looked at it" });
    expect(reviewed.body).toMatchObject({ note: "looked at it", verdict: { rule_id: "fine" } });
    expect((await api.get("/failopen/bypassed")).body.items).toHaveLength(4);
    const { items } = (await api.get("/audit?limit=200")).body;
    const lines = items
      .filter(({ kind }: { kind: string }) => kind === "fail_open")
      .map(({ what }: { what: string }) => what);
    expect(lines).toEqual(expect.arrayContaining(["opened", "closed"]));
  });

  test("an engaged kill switch blocks dispatch in all processes until it is released", async () => {
    const { apis, keys, prefixes } = deployment();
    const request = { scope: "default", reason: "unexpected behaviour" };
    expect(await apis[0].as(keys.submitter).post("/kill", request)).toMatchObject({ status: 403 });
    expect(await apis[0].post("/kill", request)).toMatchObject({ status: 200, body: { already: false } });
    for (const api of apis) await api.until("/status", ({ body }) => body.kill.length === 1);
    const ids = await Promise.all([0, 1, 2, 3].map((n) => apis[n % 2 === 0 ? 0 : 1].submit(`${prefixes[0]}.echo`, n)));
    for (const id of ids)
      expect((await untilWaitReason(apis[1], id, "killed")).body.sentence).toContain(request.reason);
    expect(await apis[1].post("/kill/release", { scope: "default" })).toMatchObject({ body: { released: true } });
    for (const id of ids) expect(await apis[0].ended(id, "SUCCEEDED")).toMatchObject({ attempt: 1 });
  });

  test("a rolling restart with SIGTERM under load loses no accepted job", async () => {
    const { apis, keys, prefixes, restartAll } = deployment();
    const topic = `${prefixes[0]}.echo`;
    const load = new Load(
      apis.map((api) => api.as(keys.submitter)),
      topic,
    );
    await load.accepted(20);
    expect(new Set(await restartAll())).toEqual(new Set([0]));
    await load.accepted(20);
    const ids = await load.stop();
    expect(ids.length).toBeGreaterThanOrEqual(40);
    for (const id of ids) await apis[0].ended(id, "SUCCEEDED");
    for (const state of ["PENDING", "SCHEDULED", "DISPATCHED", "RUNNING", "FAILED", "TIMEOUT"]) {
      const { items } = (await apis[1].get(`/jobs?state=${state}&limit=200`)).body;
      expect(items.filter((job: { topic: string }) => job.topic === topic)).toEqual([]);
    }
  });

  test("audit verify passes, and finds the index of an entry changed in the store", async () => {
    const { apis, keys, tamper } = deployment();
    for (const chain of ["", "?system=true"]) {
      const { body } = await apis[0].get(`/audit/verify${chain}`);
      expect(body).toMatchObject({ ok: true, problem: null });
      expect(body.entries).toBeGreaterThan(4);
    }
    // Newest first, so the first entries (the keys) are on the last page.
    const kinds = new Set<string>();
    for (let cursor: string | null = ""; cursor !== null; ) {
      const { body } = await apis[1].as(keys.alice).get(`/audit?limit=200${cursor && `&cursor=${cursor}`}`);
      for (const { kind } of body.items) kinds.add(kind);
      cursor = body.next_cursor;
    }
    expect([...kinds]).toEqual(expect.arrayContaining(["decision", "key", "approval", "cancel", "dead_letter"]));
    await tamper();
    for (const api of apis) {
      expect((await api.get("/audit/verify")).body).toMatchObject({ ok: false, entries: 3, problem: { index: 3 } });
    }
  });
}

async function untilWaitReason(api: Api, id: string, reason: string): Promise<Answer> {
  return api.until(`/jobs/${id}/explain`, ({ body }) => body.wait?.reason === reason);
}

/** Clients that submit jobs one after another, each with an idempotency key and retries until it is accepted. */
class Load {
  readonly #doors: readonly Api[];
  readonly #topic: string;
  readonly #ids: string[] = [];
  readonly #running: readonly Promise<void>[];
  #waiting: (() => void)[] = [];
  #isStopping = false;

  constructor(apis: readonly Api[], topic: string) {
    this.#doors = apis;
    this.#topic = topic;
    this.#running = [0, 1].map((client) => this.#run(client));
  }

  async accepted(more: number): Promise<void> {
    const target = this.#ids.length + more;
    while (this.#ids.length < target) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async stop(): Promise<readonly string[]> {
    this.#isStopping = true;
    await Promise.all(this.#running);
    return this.#ids;
  }

  async #run(client: number): Promise<void> {
    for (let n = 0; !this.#isStopping; n++) {
      this.#ids.push(await this.#submit(client, `load-${client}-${n}`));
      for (const wake of this.#waiting.splice(0)) wake();
    }
  }

  async #submit(client: number, key: string): Promise<string> {
    for (let tries = client; ; tries++) {
      const api = this.#doors[tries % this.#doors.length];
      const answer = await api
        ?.with({ "idempotency-key": key })
        .post("/jobs", { topic: this.#topic, input: key })
        .catch(() => null);
      if (answer?.status === 200) return answer.body.job_id;
      if (answer && answer.status < 500) throw new Error(`submit failed: ${JSON.stringify(answer)}`);
      // A short backoff leaves the CPU to the restarting process.
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
