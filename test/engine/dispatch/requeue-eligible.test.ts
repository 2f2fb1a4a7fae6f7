import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { recordHeartbeat } from "../../../src/engine/dispatch/requeue-eligible.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { setDraining } from "../../../src/engine/workers/worker-pools.ts";
import { Harness, idOf } from "../harness.ts";

const defaults = defaultSettings();
/** Sweeps too rarely to affect these tests. */
const SLOW = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
const connectWorker = (engine: Engine, facts: { org?: string; id?: string; capabilities: readonly string[] }) =>
  recordHeartbeat(engine, { id: "h", transport: "http", org: "default", topics: ["t"], ...facts });

/** Counts loads, and how many are in progress at once. */
function watchLoads(engine: Engine) {
  const { store } = engine.world;
  const loads = { now: 0, max: 0, all: 0 };
  const load = store.load.bind(store);
  Object.assign(store, {
    load: async (...args: Parameters<typeof load>) => {
      loads.max = Math.max(loads.max, ++loads.now);
      loads.all++;
      return load(...args).finally(() => loads.now--);
    },
  });
  return loads;
}

describe("jobs without an eligible worker", () => {
  const openWithWaitingJobs = async (count: number) => {
    const harness = new Harness(SLOW);
    const { engine } = await harness.control("c1");
    connectWorker(engine, { id: "plain", org: "*", capabilities: [] });
    const ids = { acme: [] as string[], default: [] as string[] };
    for (const org of ["acme", "default"] as const) {
      for (let index = 0; index < count; index++) {
        ids[org].push(idOf(await harness.admit(engine, { topic: "t", org, requires: ["gpu"] })));
      }
    }
    await harness.pass(10);
    const states = (of: readonly string[]) => Promise.all(of.map(async (id) => (await harness.job(id)).state));
    return { harness, engine, ids, states };
  };

  test("requeues jobs of the tenant when an eligible worker connects", async () => {
    const { harness, engine, ids, states } = await openWithWaitingJobs(1);
    expect(await states([...ids.acme, ...ids.default])).toEqual(["RETRYING", "RETRYING"]);
    connectWorker(engine, { capabilities: ["gpu"] });
    await harness.pass(10);
    expect(await states(ids.default)).toEqual(["SCHEDULED"]);
    expect(await states(ids.acme)).toEqual(["RETRYING"]);
    connectWorker(engine, { org: "acme", capabilities: ["gpu"] });
    await harness.pass(10);
    expect(await states(ids.acme)).toEqual(["SCHEDULED"]);
  });

  test("are not loaded when a worker reports capabilities that no job requires", async () => {
    const { harness, engine } = await openWithWaitingJobs(5);
    const loads = watchLoads(engine);
    for (let index = 0; index < 50; index++) connectWorker(engine, { capabilities: [`x${index}`] });
    await harness.pass(10);
    expect(loads.all).toBe(0);
    expect(engine.registry.ineligibleSubjects()).toEqual(["job.t"]);
  });

  test("are requeued in batches", async () => {
    const { harness, engine, ids, states } = await openWithWaitingJobs(150);
    const loads = watchLoads(engine);
    connectWorker(engine, { capabilities: ["gpu"] });
    await harness.pass(100);
    expect(new Set(await states(ids.default))).toEqual(new Set(["SCHEDULED"]));
    expect(loads.max).toBeLessThan(100);
  });
});

describe("a resumed pool", () => {
  test("receives waiting jobs at once, resumed in this process or another", async () => {
    for (const by of ["c1", "gateway"]) {
      const harness = new Harness(SLOW);
      const { engine } = await harness.control("c1");
      const handled: string[] = [];
      await harness.worker("a", ["t"], async ({ jobId }) => handled.push(jobId), 10, { pool: "old" });
      await harness.run(setDraining(engine, "old", true, "ann"));
      await harness.pass(100);
      const id = idOf(await harness.admit(engine, { topic: "t" }));
      await harness.pass(100);
      expect(handled).toEqual([]);
      await harness.run(setDraining(by === "c1" ? engine : harness.engine(by), "old", false, "ann"));
      await harness.pass(100);
      expect(handled).toEqual([id]);
    }
  });

  test("receives jobs that had been set aside as unfit", async () => {
    const harness = new Harness(SLOW);
    const { engine } = await harness.control("c1");
    const handled: string[] = [];
    const capable = { pool: "old", capabilities: ["gpu"] };
    await harness.worker("a", ["t"], async ({ jobId }) => handled.push(jobId), 10, capable);
    await harness.worker("b", ["t"], async () => "plain", 10, { pool: "new" });
    await harness.run(setDraining(engine, "old", true, "ann"));
    await harness.pass(10);
    const id = idOf(await harness.admit(engine, { topic: "t", requires: ["gpu"] }));
    await harness.pass(10);
    expect((await harness.job(id)).state).toBe("RETRYING");
    await harness.run(setDraining(engine, "old", false, "ann"));
    await harness.pass(10);
    expect(handled).toEqual([id]);
  });
});
