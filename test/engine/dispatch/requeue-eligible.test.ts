import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { recordHeartbeat } from "../../../src/engine/dispatch/requeue-eligible.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { setDraining } from "../../../src/engine/workers/worker-pools.ts";
import { Harness, idOf } from "../harness.ts";

const defaults = defaultSettings();
/** What the sweeper finds, it finds too late for these tests. */
const SLOW = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
const comes = (engine: Engine, facts: { org?: string; id?: string; capabilities: readonly string[] }) =>
  recordHeartbeat(engine, { id: "h", transport: "http", org: "default", topics: ["t"], ...facts });

/** How many loads are under way at once, at most. */
function watchLoads(engine: Engine) {
  const { store } = engine.world;
  const loads = { now: 0, most: 0, all: 0 };
  const load = store.load.bind(store);
  Object.assign(store, {
    load: async (...args: Parameters<typeof load>) => {
      loads.most = Math.max(loads.most, ++loads.now);
      loads.all++;
      return load(...args).finally(() => loads.now--);
    },
  });
  return loads;
}

describe("jobs that nobody was fit for", () => {
  const waiting = async (count: number) => {
    const harness = new Harness(SLOW);
    const { engine } = await harness.control("c1");
    comes(engine, { id: "plain", org: "*", capabilities: [] });
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

  test("go on when one comes that can do them: those of its tenant alone", async () => {
    const { harness, engine, ids, states } = await waiting(1);
    expect(await states([...ids.acme, ...ids.default])).toEqual(["RETRYING", "RETRYING"]);
    comes(engine, { capabilities: ["gpu"] });
    await harness.pass(10);
    expect(await states(ids.default)).toEqual(["SCHEDULED"]);
    expect(await states(ids.acme)).toEqual(["RETRYING"]);
    comes(engine, { org: "acme", capabilities: ["gpu"] });
    await harness.pass(10);
    expect(await states(ids.acme)).toEqual(["SCHEDULED"]);
  });

  test("are not looked at for a worker that keeps changing what it can do, but never what they require", async () => {
    const { harness, engine } = await waiting(5);
    const loads = watchLoads(engine);
    for (let index = 0; index < 50; index++) comes(engine, { capabilities: [`x${index}`] });
    await harness.pass(10);
    expect(loads.all).toBe(0);
    expect(engine.registry.ineligibleSubjects()).toEqual(["job.t"]);
  });

  test("many go on in batches", async () => {
    const { harness, engine, ids, states } = await waiting(150);
    const loads = watchLoads(engine);
    comes(engine, { capabilities: ["gpu"] });
    await harness.pass(100);
    expect(new Set(await states(ids.default))).toEqual(new Set(["SCHEDULED"]));
    expect(loads.most).toBeLessThan(100);
  });
});

describe("a pool that is resumed", () => {
  test("gets what waited at once, from the process that resumed it and from one that is told of it", async () => {
    for (const by of ["c1", "gateway"]) {
      const harness = new Harness(SLOW);
      const { engine } = await harness.control("c1");
      const worked: string[] = [];
      await harness.worker("a", ["t"], async ({ jobId }) => worked.push(jobId), 10, { pool: "old" });
      await harness.run(setDraining(engine, "old", true, "ann"));
      await harness.pass(100);
      const id = idOf(await harness.admit(engine, { topic: "t" }));
      await harness.pass(100);
      expect(worked).toEqual([]);
      await harness.run(setDraining(by === "c1" ? engine : harness.engine(by), "old", false, "ann"));
      await harness.pass(100);
      expect(worked).toEqual([id]);
    }
  });

  test("what was set aside for its sake goes on as well", async () => {
    const harness = new Harness(SLOW);
    const { engine } = await harness.control("c1");
    const worked: string[] = [];
    const able = { pool: "old", capabilities: ["gpu"] };
    await harness.worker("a", ["t"], async ({ jobId }) => worked.push(jobId), 10, able);
    await harness.worker("b", ["t"], async () => "plain", 10, { pool: "new" });
    await harness.run(setDraining(engine, "old", true, "ann"));
    await harness.pass(10);
    const id = idOf(await harness.admit(engine, { topic: "t", requires: ["gpu"] }));
    await harness.pass(10);
    expect((await harness.job(id)).state).toBe("RETRYING");
    await harness.run(setDraining(engine, "old", false, "ann"));
    await harness.pass(10);
    expect(worked).toEqual([id]);
  });
});
