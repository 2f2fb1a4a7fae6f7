import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import type { Job } from "../../../src/core/model/job.ts";
import { complete, fail, prolong } from "../../../src/engine/dispatch/job-lease.ts";
import { type LeaseWish, lease } from "../../../src/engine/dispatch/lease-jobs.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { setDraining } from "../../../src/engine/workers/worker-pools.ts";
import { idOf, Plant } from "../harness.ts";

const wish = (facts: Partial<LeaseWish> = {}): LeaseWish => ({
  org: "default",
  workerId: "h1",
  topics: ["t"],
  max: 10,
  waitMs: 0,
  signal: new AbortController().signal,
  ...facts,
});
const holding = ({ id, leaseId, org }: Job) => ({ org, jobId: id, leaseId: leaseId ?? "" });

async function leaseOne(plant: Plant, flow: Flow, facts: Partial<LeaseWish> = {}): Promise<Job> {
  const [job] = await plant.run(lease(flow, wish({ max: 1, ...facts })));
  if (!job) throw new Error("nothing was leased");
  return job;
}

describe("a lease", () => {
  test("takes jobs out of the backlog, and their results end them", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const ids = [
      idOf(await plant.admit(flow, { topic: "t", input: 1 })),
      idOf(await plant.admit(flow, { topic: "job.t" })),
    ];
    await plant.pass(100);
    const jobs = await plant.run(lease(flow, wish()));
    expect(jobs.map(({ id }) => id).sort()).toEqual(ids.sort());
    expect(new Set(jobs.map(({ leaseId }) => leaseId)).size).toBe(2);
    for (const job of jobs) {
      expect(await plant.job(job.id)).toMatchObject({ state: "RUNNING", workerId: "h1" });
      expect(await plant.run(complete(flow, holding(job), { done: true }))).toMatchObject({ kind: "held" });
      expect(await plant.job(job.id)).toMatchObject({
        state: "SUCCEEDED",
        workerId: "h1",
        output: { kind: "inline", value: { done: true } },
      });
    }
  });

  test("is of the caller's tenant alone; a key of every tenant takes in turn", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    for (let index = 0; index < 8; index++) await plant.admit(flow, { topic: "t", org: "big" });
    const small = idOf(await plant.admit(flow, { topic: "t", org: "small" }));
    await plant.pass(100);
    expect(await plant.run(lease(flow, wish({ org: "nobody" })))).toEqual([]);
    const [own] = await plant.run(lease(flow, wish({ org: "small" })));
    expect(own?.id).toBe(small);
    await plant.admit(flow, { topic: "t", org: "small" });
    await plant.pass(100);
    const two = await plant.run(lease(flow, wish({ org: "*", max: 2 })));
    expect(two.map(({ org }) => org).sort()).toEqual(["big", "small"]);
  });

  test("a job comes to whoever waits within a second of its submission, from this process or another", async () => {
    const plant = new Plant();
    const [{ flow }, { flow: other }] = [await plant.control("c1"), await plant.control("c2")];
    for (const from of [flow, other]) {
      const waiting = lease(flow, wish({ waitMs: 20_000 }));
      await plant.pass(7_300);
      const submittedMs = flow.world.clock.now();
      const id = idOf(await plant.admit(from, { topic: "t" }));
      const [job] = await plant.run(waiting);
      expect(job?.id).toBe(id);
      expect(flow.world.clock.now() - submittedMs).toBeLessThan(1_000);
      if (job) await plant.run(complete(flow, holding(job), null));
    }
  });

  test("who waits in vain is told after the time that it gave; who has gone has taken nothing", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const beganMs = flow.world.clock.now();
    expect(await plant.run(lease(flow, wish({ waitMs: 5_000 })))).toEqual([]);
    expect(flow.world.clock.now() - beganMs).toBeGreaterThanOrEqual(5_000);
    expect(flow.world.clock.now() - beganMs).toBeLessThan(6_000);
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(100);
    const gone = new AbortController();
    const leased = lease(flow, wish({ signal: gone.signal, waitMs: 5_000 }));
    gone.abort();
    expect(await plant.run(leased)).toEqual([]);
    expect(await plant.job(id)).toMatchObject({ state: "SCHEDULED" });
    expect((await leaseOne(plant, flow)).id).toBe(id);
  });

  test("keeps to the topic's window and the tenant's limit", async () => {
    const defaults = defaultSettings();
    const plant = new Plant({
      dispatch: { ...defaults.dispatch, windowMax: 3 },
      orgs: { small: { limits: { concurrentJobsMax: 1 } } },
    });
    const { flow } = await plant.control("c1");
    for (let index = 0; index < 5; index++) await plant.admit(flow, { topic: "t", org: "small" });
    for (let index = 0; index < 5; index++) await plant.admit(flow, { topic: "t" });
    await plant.pass(100);
    const jobs = await plant.run(lease(flow, wish({ org: "*" })));
    expect(jobs.length).toBe(3);
    expect(jobs.filter(({ org }) => org === "small").length).toBe(1);
    expect(await plant.run(lease(flow, wish({ org: "*" })))).toEqual([]);
  });

  test("a worker gets only what it can do, and the rest does not stand in its way", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const special = idOf(await plant.admit(flow, { topic: "t", requires: ["gpu"] }));
    const usual = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(100);
    const first = await plant.run(lease(flow, wish({ max: 1, waitMs: 2_000 })));
    expect(first.map(({ id }) => id)).toEqual([usual]);
    expect(await plant.job(special)).toMatchObject({ state: "RETRYING", wait: { retryClass: "no_worker" } });
    const able = await leaseOne(plant, flow, { workerId: "h2", capabilities: ["gpu"], waitMs: 2_000 });
    expect(able.id).toBe(special);
  });

  test("a worker of a drained pool gets nothing", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    await plant.admit(flow, { topic: "t" });
    await plant.run(setDraining(flow, "old", true, "ann"));
    await plant.pass(100);
    expect(await plant.run(lease(flow, wish({ pool: "old" })))).toEqual([]);
    expect((await plant.run(lease(flow, wish({ workerId: "h2", pool: "new" })))).length).toBe(1);
  });

  test("every process hears of the worker", async () => {
    const plant = new Plant();
    const [{ flow }, { flow: other }] = [await plant.control("c1"), await plant.control("c2")];
    await plant.run(lease(flow, wish({ waitMs: 1_000 })));
    await plant.pass(100);
    const seen = { id: "h1", transport: "http", org: "default", topics: ["t"], maxParallelJobs: 10 };
    for (const { roster, world } of [flow, other]) expect(roster.list(world.clock.now())).toMatchObject([seen]);
  });
});

describe("the holder of a lease", () => {
  const leased = async (settings = {}) => {
    const plant = new Plant(settings);
    const { flow } = await plant.control("c1");
    await plant.admit(flow, { topic: "t" });
    await plant.pass(100);
    return { plant, flow, job: await leaseOne(plant, flow) };
  };

  test("keeps the job by saying that it is at it, for longer than one deadline", async () => {
    const { plant, flow, job } = await leased();
    for (let minutes = 0; minutes < 5; minutes++) {
      await plant.pass(40_000);
      const news = { extendMs: null, percent: minutes, message: "working" };
      expect(await plant.run(prolong(flow, holding(job), news))).toMatchObject({ kind: "held" });
    }
    expect(await plant.job(job.id)).toMatchObject({ state: "RUNNING", attempt: job.attempt, progress: { percent: 4 } });
    expect(await plant.run(complete(flow, holding(job), 1))).toMatchObject({ kind: "held" });
  });

  test("who says nothing has lost it: its work changes nothing, and the next holder's counts", async () => {
    const { plant, flow, job } = await leased();
    await plant.pass(70_000);
    expect(await plant.run(complete(flow, holding(job), "late"))).toMatchObject({ kind: "lost" });
    const next = await leaseOne(plant, flow, { workerId: "h2", waitMs: 50_000 });
    expect(next.id).toBe(job.id);
    const none = { extendMs: null, percent: null, message: null };
    expect(await plant.run(prolong(flow, holding(job), none))).toMatchObject({ kind: "lost" });
    const error = { message: "no", isRetryable: false, retryAfterMs: null };
    expect(await plant.run(fail(flow, holding(job), error))).toMatchObject({ kind: "lost" });
    expect(await plant.run(complete(flow, holding(next), "right"))).toMatchObject({ kind: "held" });
    expect(await plant.job(job.id)).toMatchObject({ state: "SUCCEEDED", workerId: "h2", output: { value: "right" } });
    expect(await plant.run(complete(flow, holding(job), "late"))).toMatchObject({ kind: "lost" });
  });

  test("may say the same end twice, and another tenant's key says nothing", async () => {
    const { plant, flow, job } = await leased();
    expect(await plant.run(complete(flow, { ...holding(job), org: "acme" }, 1))).toEqual({ kind: "unknown" });
    for (let times = 0; times < 2; times++) {
      expect(await plant.run(complete(flow, holding(job), 1))).toMatchObject({ kind: "held" });
    }
  });

  test("a failure is tried again when it asks for it, or by the policy, or never", async () => {
    const { plant, flow, job } = await leased();
    const later = { message: "busy", isRetryable: true, retryAfterMs: 5_000 };
    expect(await plant.run(fail(flow, holding(job), later))).toMatchObject({ job: { state: "RETRYING" } });
    expect(await plant.run(fail(flow, holding(job), later))).toMatchObject({ job: { state: "RETRYING" } });
    const failedMs = flow.world.clock.now();
    const again = await leaseOne(plant, flow, { waitMs: 20_000 });
    expect(again.id).toBe(job.id);
    expect(again.attempt).toBeGreaterThan(job.attempt);
    expect(flow.world.clock.now() - failedMs).toBeGreaterThanOrEqual(5_000 - 50);
    const never = { message: "no such file", isRetryable: false, retryAfterMs: null };
    await plant.run(fail(flow, holding(again), never));
    expect(await plant.job(job.id)).toMatchObject({ state: "FAILED", error: { message: "no such file" } });
    const letter = await plant.run(flow.world.store.load(DEAD_LETTERS, job.id));
    expect(letter?.value.reason).toBe("permanent");
  });

  test("a large result stands beside the record", async () => {
    const { plant, flow, job } = await leased();
    const text = "x".repeat(300_000);
    await plant.run(complete(flow, holding(job), { text }));
    const { output } = await plant.job(job.id);
    expect(output).toMatchObject({ kind: "pointer", ptr: `res:${job.id}.${job.leaseId}` });
    await expect(plant.run(complete(flow, holding(job), { text: text.repeat(9) }))).resolves.toMatchObject({
      kind: "held",
    });
  });
});
