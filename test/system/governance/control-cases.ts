/** What operators pull at: the policy, a fail-open lease, the audit log, the processes themselves. */
import { expect, test } from "vitest";
import type { Answer, Api } from "../api.ts";
import { POLICY, type Setup } from "../deployments.ts";

export function leverCases(setup: () => Setup): void {
  test("a policy that one process was given is in force in all of them", async () => {
    const { doors, prefixes } = setup();
    const policy = POLICY.replace(
      "rules:\n",
      "rules:\n  - {id: new-one, match: {topics: ['*.fresh']}, decision: deny, reason: new}\n",
    );
    const published = await doors[1].post("/policy/publish", { policy, name: "with one more rule" });
    expect(published).toMatchObject({ status: 200, body: { changed: true } });
    const { snapshot, previous } = published.body;
    expect(snapshot).not.toBe(previous);
    for (const door of doors) {
      await door.until("/policy/rules", ({ body }) => body.snapshot === snapshot);
      const question = { topic: "any.fresh" };
      const isNew = async () => (await door.post("/policy/evaluate", question)).body.snapshot === snapshot;
      while (!(await isNew()));
      expect((await door.post("/policy/evaluate", question)).body).toMatchObject({ rule_id: "new-one", snapshot });
    }
    const topic = `${prefixes[0]}.echo`;
    const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => doors[n % 2 === 0 ? 0 : 1].submit(topic, n)));
    const jobs = await Promise.all(ids.map((id) => doors[0].ended(id, "SUCCEEDED")));
    expect(new Set(jobs.map((job) => job.safety.snapshot))).toEqual(new Set([snapshot]));
    expect((await doors[0].post("/jobs", { topic: "http.fresh" })).body).toMatchObject({
      rule_id: "new-one",
      snapshot,
    });
  });

  test("while the kernel does not answer jobs wait; under a lease they go, marked and listed; after it none does", async () => {
    const outage = await setup().outage();
    const { door } = outage;
    const topic = `${outage.prefix}.echo`;
    outage.begin();
    const waiting = await Promise.all([1, 2, 3, 4, 5].map((n) => door.submit(topic, n)));
    for (const id of waiting) await until(door, id, "safety_unavailable");
    const reason = "the kernel is being repaired, ticket 12";
    const opened = await door.post("/failopen", { scope: "default", reason, minutes: 5 });
    expect(opened).toMatchObject({ status: 200, body: { state: "in_force", reason } });
    const lease = opened.body.id;
    for (const id of waiting) {
      const job = await door.ended(id, "SUCCEEDED");
      expect(job.labels).toMatchObject({ safety_bypassed: "true", safety_bypass_reason: expect.any(String) });
      expect(job).toMatchObject({ bypass: { lease_id: lease }, safety: { bypassed: true, rule_id: null } });
      expect(job.result.labels.safety_bypassed).toBe("true");
    }
    const listed = (await door.get("/failopen/bypassed")).body.items;
    expect(listed.map((one: { job_id: string }) => one.job_id).toSorted()).toEqual(waiting.toSorted());

    expect((await door.post(`/failopen/${lease}/close`)).body).toMatchObject({ state: "ended" });
    const after = await Promise.all([6, 7, 8].map((n) => door.submit(topic, n)));
    for (const id of after) await until(door, id, "safety_unavailable");
    outage.end();
    for (const id of after) {
      const job = await door.ended(id, "SUCCEEDED");
      expect(job).toMatchObject({ bypass: null, safety: { bypassed: false, rule_id: "fine" } });
      expect(job.labels).not.toHaveProperty("safety_bypassed");
    }
    expect((await door.get("/failopen/bypassed")).body.items).toHaveLength(5);
    const reviewed = await door.post(`/failopen/bypassed/${waiting[0]}/review`, { note: "looked at it" });
    expect(reviewed.body).toMatchObject({ note: "looked at it", verdict: { rule_id: "fine" } });
    expect((await door.get("/failopen/bypassed")).body.items).toHaveLength(4);
    const { items } = (await door.get("/audit?limit=200")).body;
    const lines = items
      .filter(({ kind }: { kind: string }) => kind === "fail_open")
      .map(({ what }: { what: string }) => what);
    expect(lines).toEqual(expect.arrayContaining(["opened", "closed"]));
  });

  test("a kill switch that one process was told to engage keeps work back in all of them, until it is released", async () => {
    const { doors, keys, prefixes } = setup();
    const request = { scope: "default", reason: "it does what it should not" };
    expect(await doors[0].as(keys.submitter).post("/kill", request)).toMatchObject({ status: 403 });
    expect(await doors[0].post("/kill", request)).toMatchObject({ status: 200, body: { already: false } });
    for (const door of doors) await door.until("/status", ({ body }) => body.kill.length === 1);
    const ids = await Promise.all([0, 1, 2, 3].map((n) => doors[n % 2 === 0 ? 0 : 1].submit(`${prefixes[0]}.echo`, n)));
    for (const id of ids) expect((await until(doors[1], id, "killed")).body.sentence).toContain(request.reason);
    expect(await doors[1].post("/kill/release", { scope: "default" })).toMatchObject({ body: { released: true } });
    for (const id of ids) expect(await doors[0].ended(id, "SUCCEEDED")).toMatchObject({ attempt: 1 });
  });

  test("every process is ended by SIGTERM under load and started again: nothing that was taken is lost", async () => {
    const { doors, keys, prefixes, restartAll } = setup();
    const topic = `${prefixes[0]}.echo`;
    const load = new Load(
      doors.map((door) => door.as(keys.submitter)),
      topic,
    );
    await load.taken(20);
    expect(new Set(await restartAll())).toEqual(new Set([0]));
    await load.taken(20);
    const ids = await load.stop();
    expect(ids.length).toBeGreaterThanOrEqual(40);
    for (const id of ids) await doors[0].ended(id, "SUCCEEDED");
    for (const state of ["PENDING", "SCHEDULED", "DISPATCHED", "RUNNING", "FAILED", "TIMEOUT"]) {
      const { items } = (await doors[1].get(`/jobs?state=${state}&limit=200`)).body;
      expect(items.filter((job: { topic: string }) => job.topic === topic)).toEqual([]);
    }
  });

  test("the audit log is whole; a line changed in the store is found, and which", async () => {
    const { doors, keys, tamper } = setup();
    for (const chain of ["", "?system=true"]) {
      const { body } = await doors[0].get(`/audit/verify${chain}`);
      expect(body).toMatchObject({ ok: true, problem: null });
      expect(body.entries).toBeGreaterThan(4);
    }
    // Newest first: the keys were made before anything else.
    const kinds = new Set<string>();
    for (let cursor: string | null = ""; cursor !== null; ) {
      const { body } = await doors[1].as(keys.alice).get(`/audit?limit=200${cursor && `&cursor=${cursor}`}`);
      for (const { kind } of body.items) kinds.add(kind);
      cursor = body.next_cursor;
    }
    expect([...kinds]).toEqual(expect.arrayContaining(["decision", "key", "approval", "cancel", "dead_letter"]));
    await tamper();
    for (const door of doors) {
      expect((await door.get("/audit/verify")).body).toMatchObject({ ok: false, entries: 3, problem: { index: 3 } });
    }
  });
}

async function until(door: Api, id: string, reason: string): Promise<Answer> {
  return door.until(`/jobs/${id}/explain`, ({ body }) => body.wait?.reason === reason);
}

/** Clients that submit one job after the other, each under a key of its own until it was taken. */
class Load {
  readonly #doors: readonly Api[];
  readonly #topic: string;
  readonly #ids: string[] = [];
  readonly #running: readonly Promise<void>[];
  #waiting: (() => void)[] = [];
  #isStopping = false;

  constructor(doors: readonly Api[], topic: string) {
    this.#doors = doors;
    this.#topic = topic;
    this.#running = [0, 1].map((client) => this.#run(client));
  }

  async taken(more: number): Promise<void> {
    const goal = this.#ids.length + more;
    while (this.#ids.length < goal) await new Promise<void>((resolve) => this.#waiting.push(resolve));
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
      const door = this.#doors[tries % this.#doors.length];
      const answer = await door
        ?.with({ "idempotency-key": key })
        .post("/jobs", { topic: this.#topic, input: key })
        .catch(() => null);
      if (answer?.status === 200) return answer.body.job_id;
      if (answer && answer.status < 500) throw new Error(`the load was answered ${JSON.stringify(answer)}`);
      // The process is not there: who comes again at once is only in the way of its start.
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
