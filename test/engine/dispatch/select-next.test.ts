import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { type LeaseRequest, leaseJobs } from "../../../src/engine/dispatch/lease-jobs.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { Harness, idOf } from "../harness.ts";

const defaults = defaultSettings();
const windowOf = (windowMax: number) => ({ dispatch: { ...defaults.dispatch, windowMax } });
const request = (facts: Partial<LeaseRequest> = {}): LeaseRequest => ({
  org: "default",
  workerId: "plain",
  topics: ["t"],
  max: 1,
  waitMs: 0,
  signal: new AbortController().signal,
  ...facts,
});

/** Registers a capable worker that never leases a job. */
const registerCapable = (engine: Engine, facts: { org?: string; pool?: string } = {}) =>
  engine.registry.record(
    { id: "able", transport: "http", org: "default", topics: ["t"], capabilities: ["gpu"], ...facts },
    engine.world.clock.now(),
  );

async function admitted(harness: Harness, engine: Engine, count: number, facts: Record<string, unknown> = {}) {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) ids.push(idOf(await harness.admit(engine, { topic: "t", ...facts })));
  return ids;
}

describe("leasing past jobs that the worker cannot run", () => {
  test.each([1, 40, 200])("skips %d of them", async (count) => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    registerCapable(engine);
    const special = await admitted(harness, engine, count, { requires: ["gpu"] });
    const usual = await admitted(harness, engine, 3);
    await harness.pass(100);
    registerCapable(engine);
    const [first] = await harness.run(leaseJobs(engine, request()));
    const rest = await harness.run(leaseJobs(engine, request({ max: 10 })));
    expect([first?.id, ...rest.map(({ id }) => id)].sort()).toEqual(usual.sort());
    // The skipped jobs are still in the backlog.
    const leased = await harness.run(
      leaseJobs(engine, request({ workerId: "able", capabilities: ["gpu"], max: count })),
    );
    expect(leased.map(({ id }) => id).sort()).toEqual(special.sort());
  });

  test("reads at most a bounded part of a backlog without eligible jobs", async () => {
    const harness = new Harness(windowOf(10_000));
    const { engine } = await harness.control("c1");
    registerCapable(engine);
    await admitted(harness, engine, 600, { requires: ["gpu"] });
    await harness.pass(100);
    registerCapable(engine);
    let taken = 0;
    const { store } = harness.sim.net;
    const take = store.take.bind(store);
    store.take = (table, query) => {
      const page = take(table, query);
      taken += page.length;
      return page;
    };
    expect(await harness.run(leaseJobs(engine, request()))).toEqual([]);
    expect(taken).toBeGreaterThan(200);
    expect(taken).toBeLessThan(400);
  });

  test("does not read a backlog again that has no further jobs", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    registerCapable(engine);
    await admitted(harness, engine, 3, { requires: ["gpu"] });
    await harness.pass(100);
    registerCapable(engine);
    const { store } = harness.sim.net;
    const take = store.take.bind(store);
    const limits: number[] = [];
    store.take = (table, query) => {
      limits.push(query.limit);
      return take(table, query);
    };
    expect(await harness.run(leaseJobs(engine, request()))).toEqual([]);
    expect(limits).toEqual([1, 32]);
  });

  test("the tenant's limit counts leased jobs, not skipped ones", async () => {
    const harness = new Harness({ limits: { ...defaults.limits, concurrentJobsMax: 1 } });
    const { engine } = await harness.control("c1");
    registerCapable(engine);
    await admitted(harness, engine, 3, { requires: ["gpu"] });
    const usual = await admitted(harness, engine, 2);
    await harness.pass(100);
    registerCapable(engine);
    const jobs = await harness.run(leaseJobs(engine, request({ max: 10 })));
    expect(jobs.map(({ id }) => id)).toEqual(usual.slice(0, 1));
  });

  test("still alternates between tenants", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    registerCapable(engine, { org: "*" });
    await admitted(harness, engine, 5, { org: "acme", requires: ["gpu"] });
    await admitted(harness, engine, 4, { org: "birch" });
    await admitted(harness, engine, 4, { org: "cedar" });
    await harness.pass(100);
    registerCapable(engine, { org: "*" });
    const orgs: string[] = [];
    for (let times = 0; times < 8; times++) {
      const jobs = await harness.run(leaseJobs(engine, request({ org: "*" })));
      orgs.push(...jobs.map(({ org }) => org));
    }
    expect(orgs.slice(0, 4).sort()).toEqual(["birch", "birch", "cedar", "cedar"]);
    expect(orgs.length).toBe(8);
  });

  test("capabilities of another tenant's worker do not keep a job in the backlog", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const [special] = await admitted(harness, engine, 1, { requires: ["gpu"] });
    await harness.pass(100);
    expect((await harness.job(special ?? "")).state).toBe("SCHEDULED");
    registerCapable(engine, { org: "acme" });
    expect(await harness.run(leaseJobs(engine, request()))).toEqual([]);
    expect(await harness.job(special ?? "")).toMatchObject({ state: "RETRYING", wait: { retryClass: "no_worker" } });
  });

  test("a worker has the capabilities of its pool", async () => {
    const harness = new Harness({ pools: { gpus: { topics: ["t"], requires: ["gpu"] } } });
    const { engine } = await harness.control("c1");
    const [special] = await admitted(harness, engine, 1, { requires: ["gpu"] });
    await harness.pass(100);
    const jobs = await harness.run(leaseJobs(engine, request({ pool: "gpus" })));
    expect(jobs.map(({ id }) => id)).toEqual([special]);
  });
});

describe("dispatching past jobs that only polling workers can run", () => {
  const openPastUnfit = async (settings: ConstructorParameters<typeof Harness>[0], org = "default") => {
    const harness = new Harness(settings);
    const { engine } = await harness.control("c1");
    const handled: string[] = [];
    registerCapable(engine, { org: "*" });
    await admitted(harness, engine, 3, { requires: ["gpu"] });
    const usual = await admitted(harness, engine, 5, { org });
    await harness.pass(100);
    registerCapable(engine, { org: "*" });
    return { harness, engine, handled, usual };
  };

  test("with a window of one, dispatches each job when the previous one ends", async () => {
    for (const settings of [windowOf(1), { limits: { ...defaults.limits, concurrentJobsMax: 1 } }]) {
      const slow = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
      const { harness, handled, usual } = await openPastUnfit({ ...settings, ...slow });
      await harness.worker("w", ["t"], async ({ jobId }) => handled.push(jobId));
      await harness.pass(1_000);
      expect(handled).toEqual(usual);
    }
  });

  test("also skips jobs of another tenant", async () => {
    const slow = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
    const { harness, handled, usual } = await openPastUnfit({ ...windowOf(1), ...slow }, "acme");
    await harness.worker("w", ["t"], async ({ jobId }) => handled.push(jobId));
    await harness.pass(1_000);
    expect(handled).toEqual(usual);
  });

  test("retries a topic without workers with an eligible job", async () => {
    const { harness, engine, handled, usual } = await openPastUnfit({});
    for (let seconds = 0; seconds < 100; seconds++) {
      registerCapable(engine, { org: "*" });
      await harness.pass(1_000);
    }
    expect(engine.jobCache.idleCount("t")).toBeGreaterThan(0);
    // It sends no heartbeat, so only a dispatch attempt finds it.
    const { world } = harness.sim.enter("silent");
    await harness.run(world.bus.serve("job.t", ({ body }) => void handled.push((body as { jobId: string }).jobId)));
    for (let seconds = 0; seconds < 100; seconds++) {
      registerCapable(engine, { org: "*" });
      await harness.pass(1_000);
    }
    expect([...new Set(handled)].sort()).toEqual(usual.sort());
  });
});
