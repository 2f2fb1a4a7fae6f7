import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { type LeaseRequest, leaseJobs } from "../../../src/engine/dispatch/lease-jobs.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { Harness, idOf } from "../harness.ts";

const defaults = defaultSettings();
const narrow = (windowMax: number) => ({ dispatch: { ...defaults.dispatch, windowMax } });
const request = (facts: Partial<LeaseRequest> = {}): LeaseRequest => ({
  org: "default",
  workerId: "plain",
  topics: ["t"],
  max: 1,
  waitMs: 0,
  signal: new AbortController().signal,
  ...facts,
});

/** One that can do the special jobs and has no time for them: it comes for none, and is heard of all the same. */
const busy = (engine: Engine, facts: { org?: string; pool?: string } = {}) =>
  engine.registry.record(
    { id: "able", transport: "http", org: "default", topics: ["t"], capabilities: ["gpu"], ...facts },
    engine.world.clock.now(),
  );

async function admitted(harness: Harness, engine: Engine, count: number, facts: Record<string, unknown> = {}) {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) ids.push(idOf(await harness.admit(engine, { topic: "t", ...facts })));
  return ids;
}

describe("a lease past jobs that the worker cannot do", () => {
  test.each([1, 40, 200])("%d of them do not keep it from those behind", async (count) => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    busy(engine);
    const special = await admitted(harness, engine, count, { requires: ["gpu"] });
    const usual = await admitted(harness, engine, 3);
    await harness.pass(100);
    busy(engine);
    const [first] = await harness.run(leaseJobs(engine, request()));
    const rest = await harness.run(leaseJobs(engine, request({ max: 10 })));
    expect([first?.id, ...rest.map(({ id }) => id)].sort()).toEqual(usual.sort());
    // They kept their places, in sight of everybody.
    const able = await harness.run(leaseJobs(engine, request({ workerId: "able", capabilities: ["gpu"], max: count })));
    expect(able.map(({ id }) => id).sort()).toEqual(special.sort());
  });

  test("a backlog of nothing else is looked at to a bound, however long it is", async () => {
    const harness = new Harness(narrow(10_000));
    const { engine } = await harness.control("c1");
    busy(engine);
    await admitted(harness, engine, 600, { requires: ["gpu"] });
    await harness.pass(100);
    busy(engine);
    let looked = 0;
    const { store } = harness.sim.net;
    const take = store.take.bind(store);
    store.take = (table, query) => {
      const taken = take(table, query);
      looked += taken.length;
      return taken;
    };
    expect(await harness.run(leaseJobs(engine, request()))).toEqual([]);
    expect(looked).toBeGreaterThan(200);
    expect(looked).toBeLessThan(400);
  });

  test("the tenant's limit counts what it gets, not what it was shown", async () => {
    const harness = new Harness({ limits: { ...defaults.limits, concurrentJobsMax: 1 } });
    const { engine } = await harness.control("c1");
    busy(engine);
    await admitted(harness, engine, 3, { requires: ["gpu"] });
    const usual = await admitted(harness, engine, 2);
    await harness.pass(100);
    busy(engine);
    const jobs = await harness.run(leaseJobs(engine, request({ max: 10 })));
    expect(jobs.map(({ id }) => id)).toEqual(usual.slice(0, 1));
  });

  test("in turn between tenants all the same", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    busy(engine, { org: "*" });
    await admitted(harness, engine, 5, { org: "acme", requires: ["gpu"] });
    await admitted(harness, engine, 4, { org: "birch" });
    await admitted(harness, engine, 4, { org: "cedar" });
    await harness.pass(100);
    busy(engine, { org: "*" });
    const orgs: string[] = [];
    for (let times = 0; times < 8; times++) {
      const jobs = await harness.run(leaseJobs(engine, request({ org: "*" })));
      orgs.push(...jobs.map(({ org }) => org));
    }
    expect(orgs.slice(0, 4).sort()).toEqual(["birch", "birch", "cedar", "cedar"]);
    expect(orgs.length).toBe(8);
  });

  test("what another tenant's worker can do keeps nothing in the backlog", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const [special] = await admitted(harness, engine, 1, { requires: ["gpu"] });
    await harness.pass(100);
    expect((await harness.job(special ?? "")).state).toBe("SCHEDULED");
    busy(engine, { org: "acme" });
    expect(await harness.run(leaseJobs(engine, request()))).toEqual([]);
    expect(await harness.job(special ?? "")).toMatchObject({ state: "RETRYING", wait: { retryClass: "no_worker" } });
  });

  test("a worker can do what its pool can, as where work is sent", async () => {
    const harness = new Harness({ pools: { gpus: { topics: ["t"], requires: ["gpu"] } } });
    const { engine } = await harness.control("c1");
    const [special] = await admitted(harness, engine, 1, { requires: ["gpu"] });
    await harness.pass(100);
    const jobs = await harness.run(leaseJobs(engine, request({ pool: "gpus" })));
    expect(jobs.map(({ id }) => id)).toEqual([special]);
  });
});

describe("sending past jobs that only those can do who come for them", () => {
  const past = async (settings: ConstructorParameters<typeof Harness>[0], org = "default") => {
    const harness = new Harness(settings);
    const { engine } = await harness.control("c1");
    const worked: string[] = [];
    busy(engine, { org: "*" });
    await admitted(harness, engine, 3, { requires: ["gpu"] });
    const usual = await admitted(harness, engine, 5, { org });
    await harness.pass(100);
    busy(engine, { org: "*" });
    return { harness, engine, worked, usual };
  };

  test("with room for one at a time, each goes as soon as the one before has ended", async () => {
    for (const settings of [narrow(1), { limits: { ...defaults.limits, concurrentJobsMax: 1 } }]) {
      const slow = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
      const { harness, worked, usual } = await past({ ...settings, ...slow });
      await harness.worker("w", ["t"], async ({ jobId }) => worked.push(jobId));
      await harness.pass(1_000);
      expect(worked).toEqual(usual);
    }
  });

  test("also where they are of another tenant", async () => {
    const slow = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
    const { harness, worked, usual } = await past({ ...narrow(1), ...slow }, "acme");
    await harness.worker("w", ["t"], async ({ jobId }) => worked.push(jobId));
    await harness.pass(1_000);
    expect(worked).toEqual(usual);
  });

  test("a topic that nobody served is tried with one that may go", async () => {
    const { harness, engine, worked, usual } = await past({});
    for (let seconds = 0; seconds < 100; seconds++) {
      busy(engine, { org: "*" });
      await harness.pass(1_000);
    }
    expect(engine.jobCache.idleCount("t")).toBeGreaterThan(0);
    // It says nothing of itself: only a try can find it.
    const { world } = harness.sim.enter("silent");
    await harness.run(world.bus.serve("job.t", ({ body }) => void worked.push((body as { jobId: string }).jobId)));
    for (let seconds = 0; seconds < 100; seconds++) {
      busy(engine, { org: "*" });
      await harness.pass(1_000);
    }
    expect([...new Set(worked)].sort()).toEqual(usual.sort());
  });
});
