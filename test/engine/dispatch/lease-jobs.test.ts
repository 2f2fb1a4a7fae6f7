import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import type { Job } from "../../../src/core/model/job.ts";
import { completeLeased, extendLease, failLeased } from "../../../src/engine/dispatch/job-lease.ts";
import { type LeaseRequest, leaseJobs } from "../../../src/engine/dispatch/lease-jobs.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { setDraining } from "../../../src/engine/workers/worker-pools.ts";
import { Harness, idOf } from "../harness.ts";

const request = (overrides: Partial<LeaseRequest> = {}): LeaseRequest => ({
  org: "default",
  workerId: "h1",
  topics: ["t"],
  max: 10,
  waitMs: 0,
  signal: new AbortController().signal,
  ...overrides,
});
const leaseRef = ({ id, leaseId, org }: Job) => ({ org, jobId: id, leaseId: leaseId ?? "" });

async function leaseOne(harness: Harness, engine: Engine, overrides: Partial<LeaseRequest> = {}): Promise<Job> {
  const [job] = await harness.run(leaseJobs(engine, request({ max: 1, ...overrides })));
  if (!job) throw new Error("nothing was leased");
  return job;
}

describe("lease", () => {
  test("takes jobs out of the backlog and completes them with their results", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const ids = [
      idOf(await harness.admit(engine, { topic: "t", input: 1 })),
      idOf(await harness.admit(engine, { topic: "job.t" })),
    ];
    await harness.pass(100);
    const jobs = await harness.run(leaseJobs(engine, request()));
    expect(jobs.map(({ id }) => id).sort()).toEqual(ids.sort());
    expect(new Set(jobs.map(({ leaseId }) => leaseId)).size).toBe(2);
    for (const job of jobs) {
      expect(await harness.job(job.id)).toMatchObject({ state: "RUNNING", workerId: "h1" });
      expect(await harness.run(completeLeased(engine, leaseRef(job), { done: true }))).toMatchObject({ kind: "held" });
      expect(await harness.job(job.id)).toMatchObject({
        state: "SUCCEEDED",
        workerId: "h1",
        output: { kind: "inline", value: { done: true } },
      });
    }
  });

  test("is limited to the caller's tenant; a cross-tenant key alternates between tenants", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    for (let index = 0; index < 8; index++) await harness.admit(engine, { topic: "t", org: "big" });
    const small = idOf(await harness.admit(engine, { topic: "t", org: "small" }));
    await harness.pass(100);
    expect(await harness.run(leaseJobs(engine, request({ org: "unused" })))).toEqual([]);
    const [own] = await harness.run(leaseJobs(engine, request({ org: "small" })));
    expect(own?.id).toBe(small);
    await harness.admit(engine, { topic: "t", org: "small" });
    await harness.pass(100);
    const two = await harness.run(leaseJobs(engine, request({ org: "*", max: 2 })));
    expect(two.map(({ org }) => org).sort()).toEqual(["big", "small"]);
  });

  test("a waiting request receives a job within a second, submitted in the same process or another", async () => {
    const harness = new Harness();
    const [{ engine }, { engine: other }] = [await harness.control("c1"), await harness.control("c2")];
    for (const from of [engine, other]) {
      const waiting = leaseJobs(engine, request({ waitMs: 20_000 }));
      await harness.pass(7_300);
      const submittedMs = engine.world.clock.now();
      const id = idOf(await harness.admit(from, { topic: "t" }));
      const [job] = await harness.run(waiting);
      expect(job?.id).toBe(id);
      expect(engine.world.clock.now() - submittedMs).toBeLessThan(1_000);
      if (job) await harness.run(completeLeased(engine, leaseRef(job), null));
    }
  });

  test("an unsuccessful wait ends at its timeout; an aborted request leases nothing", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const startMs = engine.world.clock.now();
    expect(await harness.run(leaseJobs(engine, request({ waitMs: 5_000 })))).toEqual([]);
    expect(engine.world.clock.now() - startMs).toBeGreaterThanOrEqual(5_000);
    expect(engine.world.clock.now() - startMs).toBeLessThan(6_000);
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(100);
    const aborted = new AbortController();
    const leased = leaseJobs(engine, request({ signal: aborted.signal, waitMs: 5_000 }));
    aborted.abort();
    expect(await harness.run(leased)).toEqual([]);
    expect(await harness.job(id)).toMatchObject({ state: "SCHEDULED" });
    expect((await leaseOne(harness, engine)).id).toBe(id);
  });

  test("respects the topic's dispatch window and the tenant's limit", async () => {
    const defaults = defaultSettings();
    const harness = new Harness({
      dispatch: { ...defaults.dispatch, windowMax: 3 },
      orgs: { small: { limits: { concurrentJobsMax: 1 } } },
    });
    const { engine } = await harness.control("c1");
    for (let index = 0; index < 5; index++) await harness.admit(engine, { topic: "t", org: "small" });
    for (let index = 0; index < 5; index++) await harness.admit(engine, { topic: "t" });
    await harness.pass(100);
    const jobs = await harness.run(leaseJobs(engine, request({ org: "*" })));
    expect(jobs.length).toBe(3);
    expect(jobs.filter(({ org }) => org === "small").length).toBe(1);
    expect(await harness.run(leaseJobs(engine, request({ org: "*" })))).toEqual([]);
  });

  test("skips jobs that require other capabilities", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const special = idOf(await harness.admit(engine, { topic: "t", requires: ["gpu"] }));
    const usual = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(100);
    const first = await harness.run(leaseJobs(engine, request({ max: 1, waitMs: 2_000 })));
    expect(first.map(({ id }) => id)).toEqual([usual]);
    expect(await harness.job(special)).toMatchObject({ state: "RETRYING", wait: { retryClass: "no_worker" } });
    const able = await leaseOne(harness, engine, { workerId: "h2", capabilities: ["gpu"], waitMs: 2_000 });
    expect(able.id).toBe(special);
  });

  test("a worker of a draining pool receives no jobs", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await harness.admit(engine, { topic: "t" });
    await harness.run(setDraining(engine, "old", true, "ann"));
    await harness.pass(100);
    expect(await harness.run(leaseJobs(engine, request({ pool: "old" })))).toEqual([]);
    expect((await harness.run(leaseJobs(engine, request({ workerId: "h2", pool: "new" })))).length).toBe(1);
  });

  test("registers the worker in every process", async () => {
    const harness = new Harness();
    const [{ engine }, { engine: other }] = [await harness.control("c1"), await harness.control("c2")];
    await harness.run(leaseJobs(engine, request({ waitMs: 1_000 })));
    await harness.pass(100);
    const seen = { id: "h1", transport: "http", org: "default", topics: ["t"], maxParallelJobs: 10 };
    for (const { registry, world } of [engine, other]) expect(registry.list(world.clock.now())).toMatchObject([seen]);
  });
});

describe("lease holder", () => {
  const leased = async (settings = {}) => {
    const harness = new Harness(settings);
    const { engine } = await harness.control("c1");
    await harness.admit(engine, { topic: "t" });
    await harness.pass(100);
    return { harness, engine, job: await leaseOne(harness, engine) };
  };

  test("keeps the job past its deadline by extending the lease", async () => {
    const { harness, engine, job } = await leased();
    for (let minutes = 0; minutes < 5; minutes++) {
      await harness.pass(40_000);
      const progress = { extendMs: null, percent: minutes, message: "working" };
      expect(await harness.run(extendLease(engine, leaseRef(job), progress))).toMatchObject({ kind: "held" });
    }
    expect(await harness.job(job.id)).toMatchObject({
      state: "RUNNING",
      attempt: job.attempt,
      progress: { percent: 4 },
    });
    expect(await harness.run(completeLeased(engine, leaseRef(job), 1))).toMatchObject({ kind: "held" });
  });

  test("loses an expired lease: late calls change nothing and the next holder's result counts", async () => {
    const { harness, engine, job } = await leased();
    await harness.pass(70_000);
    expect(await harness.run(completeLeased(engine, leaseRef(job), "late"))).toMatchObject({ kind: "lost" });
    const next = await leaseOne(harness, engine, { workerId: "h2", waitMs: 50_000 });
    expect(next.id).toBe(job.id);
    const none = { extendMs: null, percent: null, message: null };
    expect(await harness.run(extendLease(engine, leaseRef(job), none))).toMatchObject({ kind: "lost" });
    const error = { message: "no", isRetryable: false, retryAfterMs: null };
    expect(await harness.run(failLeased(engine, leaseRef(job), error))).toMatchObject({ kind: "lost" });
    expect(await harness.run(completeLeased(engine, leaseRef(next), "right"))).toMatchObject({ kind: "held" });
    expect(await harness.job(job.id)).toMatchObject({ state: "SUCCEEDED", workerId: "h2", output: { value: "right" } });
    expect(await harness.run(completeLeased(engine, leaseRef(job), "late"))).toMatchObject({ kind: "lost" });
  });

  test("may repeat its result; another tenant's key is unknown", async () => {
    const { harness, engine, job } = await leased();
    expect(await harness.run(completeLeased(engine, { ...leaseRef(job), org: "acme" }, 1))).toEqual({
      kind: "unknown",
    });
    for (let times = 0; times < 2; times++) {
      expect(await harness.run(completeLeased(engine, leaseRef(job), 1))).toMatchObject({ kind: "held" });
    }
  });

  test("a failure is retried after the requested delay, by policy, or not at all", async () => {
    const { harness, engine, job } = await leased();
    const later = { message: "busy", isRetryable: true, retryAfterMs: 5_000 };
    expect(await harness.run(failLeased(engine, leaseRef(job), later))).toMatchObject({ job: { state: "RETRYING" } });
    expect(await harness.run(failLeased(engine, leaseRef(job), later))).toMatchObject({ job: { state: "RETRYING" } });
    const failedMs = engine.world.clock.now();
    const again = await leaseOne(harness, engine, { waitMs: 20_000 });
    expect(again.id).toBe(job.id);
    expect(again.attempt).toBeGreaterThan(job.attempt);
    expect(engine.world.clock.now() - failedMs).toBeGreaterThanOrEqual(5_000 - 50);
    const never = { message: "no such file", isRetryable: false, retryAfterMs: null };
    await harness.run(failLeased(engine, leaseRef(again), never));
    expect(await harness.job(job.id)).toMatchObject({ state: "FAILED", error: { message: "no such file" } });
    const deadLetter = await harness.run(engine.world.store.load(DEAD_LETTERS, job.id));
    expect(deadLetter?.value.reason).toBe("permanent");
  });

  test("stores a large result by pointer", async () => {
    const { harness, engine, job } = await leased();
    const text = "x".repeat(300_000);
    await harness.run(completeLeased(engine, leaseRef(job), { text }));
    const { output } = await harness.job(job.id);
    expect(output).toMatchObject({ kind: "pointer", ptr: expect.stringContaining(`/job/${job.id}/`) });
    await expect(harness.run(completeLeased(engine, leaseRef(job), { text: text.repeat(9) }))).resolves.toMatchObject({
      kind: "held",
    });
  });
});
