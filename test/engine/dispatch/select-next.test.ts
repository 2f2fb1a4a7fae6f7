import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { type LeaseWish, lease } from "../../../src/engine/dispatch/lease-jobs.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { idOf, Plant } from "../harness.ts";

const defaults = defaultSettings();
const narrow = (windowMax: number) => ({ dispatch: { ...defaults.dispatch, windowMax } });
const wish = (facts: Partial<LeaseWish> = {}): LeaseWish => ({
  org: "default",
  workerId: "plain",
  topics: ["t"],
  max: 1,
  waitMs: 0,
  signal: new AbortController().signal,
  ...facts,
});

/** One that can do the special jobs and has no time for them: it comes for none, and is heard of all the same. */
const busy = (flow: Flow, facts: { org?: string; pool?: string } = {}) =>
  flow.roster.hear(
    { id: "able", transport: "http", org: "default", topics: ["t"], capabilities: ["gpu"], ...facts },
    flow.world.clock.now(),
  );

async function admitted(plant: Plant, flow: Flow, count: number, facts: Record<string, unknown> = {}) {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) ids.push(idOf(await plant.admit(flow, { topic: "t", ...facts })));
  return ids;
}

describe("a lease past jobs that the worker cannot do", () => {
  test.each([1, 40, 200])("%d of them do not keep it from those behind", async (count) => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    busy(flow);
    const special = await admitted(plant, flow, count, { requires: ["gpu"] });
    const usual = await admitted(plant, flow, 3);
    await plant.pass(100);
    busy(flow);
    const [first] = await plant.run(lease(flow, wish()));
    const rest = await plant.run(lease(flow, wish({ max: 10 })));
    expect([first?.id, ...rest.map(({ id }) => id)].sort()).toEqual(usual.sort());
    // They kept their places, in sight of everybody.
    const able = await plant.run(lease(flow, wish({ workerId: "able", capabilities: ["gpu"], max: count })));
    expect(able.map(({ id }) => id).sort()).toEqual(special.sort());
  });

  test("a backlog of nothing else is looked at to a bound, however long it is", async () => {
    const plant = new Plant(narrow(10_000));
    const { flow } = await plant.control("c1");
    busy(flow);
    await admitted(plant, flow, 600, { requires: ["gpu"] });
    await plant.pass(100);
    busy(flow);
    let looked = 0;
    const { store } = plant.bench.net;
    const take = store.take.bind(store);
    store.take = (table, query) => {
      const taken = take(table, query);
      looked += taken.length;
      return taken;
    };
    expect(await plant.run(lease(flow, wish()))).toEqual([]);
    expect(looked).toBeGreaterThan(200);
    expect(looked).toBeLessThan(400);
  });

  test("the tenant's limit counts what it gets, not what it was shown", async () => {
    const plant = new Plant({ limits: { ...defaults.limits, concurrentJobsMax: 1 } });
    const { flow } = await plant.control("c1");
    busy(flow);
    await admitted(plant, flow, 3, { requires: ["gpu"] });
    const usual = await admitted(plant, flow, 2);
    await plant.pass(100);
    busy(flow);
    const jobs = await plant.run(lease(flow, wish({ max: 10 })));
    expect(jobs.map(({ id }) => id)).toEqual(usual.slice(0, 1));
  });

  test("in turn between tenants all the same", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    busy(flow, { org: "*" });
    await admitted(plant, flow, 5, { org: "acme", requires: ["gpu"] });
    await admitted(plant, flow, 4, { org: "birch" });
    await admitted(plant, flow, 4, { org: "cedar" });
    await plant.pass(100);
    busy(flow, { org: "*" });
    const orgs: string[] = [];
    for (let times = 0; times < 8; times++) {
      const jobs = await plant.run(lease(flow, wish({ org: "*" })));
      orgs.push(...jobs.map(({ org }) => org));
    }
    expect(orgs.slice(0, 4).sort()).toEqual(["birch", "birch", "cedar", "cedar"]);
    expect(orgs.length).toBe(8);
  });

  test("what another tenant's worker can do keeps nothing in the backlog", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const [special] = await admitted(plant, flow, 1, { requires: ["gpu"] });
    await plant.pass(100);
    expect((await plant.job(special ?? "")).state).toBe("SCHEDULED");
    busy(flow, { org: "acme" });
    expect(await plant.run(lease(flow, wish()))).toEqual([]);
    expect(await plant.job(special ?? "")).toMatchObject({ state: "RETRYING", wait: { retryClass: "no_worker" } });
  });

  test("a worker can do what its pool can, as where work is sent", async () => {
    const plant = new Plant({ pools: { gpus: { topics: ["t"], requires: ["gpu"] } } });
    const { flow } = await plant.control("c1");
    const [special] = await admitted(plant, flow, 1, { requires: ["gpu"] });
    await plant.pass(100);
    const jobs = await plant.run(lease(flow, wish({ pool: "gpus" })));
    expect(jobs.map(({ id }) => id)).toEqual([special]);
  });
});

describe("sending past jobs that only those can do who come for them", () => {
  const past = async (settings: ConstructorParameters<typeof Plant>[0], org = "default") => {
    const plant = new Plant(settings);
    const { flow } = await plant.control("c1");
    const worked: string[] = [];
    busy(flow, { org: "*" });
    await admitted(plant, flow, 3, { requires: ["gpu"] });
    const usual = await admitted(plant, flow, 5, { org });
    await plant.pass(100);
    busy(flow, { org: "*" });
    return { plant, flow, worked, usual };
  };

  test("with room for one at a time, each goes as soon as the one before has ended", async () => {
    for (const settings of [narrow(1), { limits: { ...defaults.limits, concurrentJobsMax: 1 } }]) {
      const slow = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
      const { plant, worked, usual } = await past({ ...settings, ...slow });
      await plant.worker("w", ["t"], async ({ jobId }) => worked.push(jobId));
      await plant.pass(1_000);
      expect(worked).toEqual(usual);
    }
  });

  test("also where they are of another tenant", async () => {
    const slow = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
    const { plant, worked, usual } = await past({ ...narrow(1), ...slow }, "acme");
    await plant.worker("w", ["t"], async ({ jobId }) => worked.push(jobId));
    await plant.pass(1_000);
    expect(worked).toEqual(usual);
  });

  test("a topic that nobody served is tried with one that may go", async () => {
    const { plant, flow, worked, usual } = await past({});
    for (let seconds = 0; seconds < 100; seconds++) {
      busy(flow, { org: "*" });
      await plant.pass(1_000);
    }
    expect(flow.desk.idleCount("t")).toBeGreaterThan(0);
    // It says nothing of itself: only a try can find it.
    const { world } = plant.bench.enter("silent");
    await plant.run(world.bus.serve("job.t", ({ body }) => void worked.push((body as { jobId: string }).jobId)));
    for (let seconds = 0; seconds < 100; seconds++) {
      busy(flow, { org: "*" });
      await plant.pass(1_000);
    }
    expect([...new Set(worked)].sort()).toEqual(usual.sort());
  });
});
