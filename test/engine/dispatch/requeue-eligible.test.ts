import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { meet } from "../../../src/engine/workers/heartbeats.ts";
import { setDraining } from "../../../src/engine/workers/worker-pools.ts";
import { idOf, Plant } from "../harness.ts";

const defaults = defaultSettings();
/** What the sweeper finds, it finds too late for these tests. */
const SLOW = { sweep: { ...defaults.sweep, everyMs: 3_600_000 } };
const comes = (flow: Flow, facts: { org?: string; id?: string; capabilities: readonly string[] }) =>
  meet(flow, { id: "h", transport: "http", org: "default", topics: ["t"], ...facts });

/** How many loads are under way at once, at most. */
function watchLoads(flow: Flow) {
  const { store } = flow.world;
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
    const plant = new Plant(SLOW);
    const { flow } = await plant.control("c1");
    comes(flow, { id: "plain", org: "*", capabilities: [] });
    const ids = { acme: [] as string[], default: [] as string[] };
    for (const org of ["acme", "default"] as const) {
      for (let index = 0; index < count; index++) {
        ids[org].push(idOf(await plant.admit(flow, { topic: "t", org, requires: ["gpu"] })));
      }
    }
    await plant.pass(10);
    const states = (of: readonly string[]) => Promise.all(of.map(async (id) => (await plant.job(id)).state));
    return { plant, flow, ids, states };
  };

  test("go on when one comes that can do them: those of its tenant alone", async () => {
    const { plant, flow, ids, states } = await waiting(1);
    expect(await states([...ids.acme, ...ids.default])).toEqual(["RETRYING", "RETRYING"]);
    comes(flow, { capabilities: ["gpu"] });
    await plant.pass(10);
    expect(await states(ids.default)).toEqual(["SCHEDULED"]);
    expect(await states(ids.acme)).toEqual(["RETRYING"]);
    comes(flow, { org: "acme", capabilities: ["gpu"] });
    await plant.pass(10);
    expect(await states(ids.acme)).toEqual(["SCHEDULED"]);
  });

  test("are not looked at for a worker that keeps changing what it can do, but never what they require", async () => {
    const { plant, flow } = await waiting(5);
    const loads = watchLoads(flow);
    for (let index = 0; index < 50; index++) comes(flow, { capabilities: [`x${index}`] });
    await plant.pass(10);
    expect(loads.all).toBe(0);
    expect(flow.roster.unfitSubjects()).toEqual(["job.t"]);
  });

  test("many go on in batches", async () => {
    const { plant, flow, ids, states } = await waiting(150);
    const loads = watchLoads(flow);
    comes(flow, { capabilities: ["gpu"] });
    await plant.pass(100);
    expect(new Set(await states(ids.default))).toEqual(new Set(["SCHEDULED"]));
    expect(loads.most).toBeLessThan(100);
  });
});

describe("a pool that is resumed", () => {
  test("gets what waited at once, from the process that resumed it and from one that is told of it", async () => {
    for (const by of ["c1", "gateway"]) {
      const plant = new Plant(SLOW);
      const { flow } = await plant.control("c1");
      const worked: string[] = [];
      await plant.worker("a", ["t"], async ({ jobId }) => worked.push(jobId), 10, { pool: "old" });
      await plant.run(setDraining(flow, "old", true, "ann"));
      await plant.pass(100);
      const id = idOf(await plant.admit(flow, { topic: "t" }));
      await plant.pass(100);
      expect(worked).toEqual([]);
      await plant.run(setDraining(by === "c1" ? flow : plant.flow(by), "old", false, "ann"));
      await plant.pass(100);
      expect(worked).toEqual([id]);
    }
  });

  test("what was set aside for its sake goes on as well", async () => {
    const plant = new Plant(SLOW);
    const { flow } = await plant.control("c1");
    const worked: string[] = [];
    const able = { pool: "old", capabilities: ["gpu"] };
    await plant.worker("a", ["t"], async ({ jobId }) => worked.push(jobId), 10, able);
    await plant.worker("b", ["t"], async () => "plain", 10, { pool: "new" });
    await plant.run(setDraining(flow, "old", true, "ann"));
    await plant.pass(10);
    const id = idOf(await plant.admit(flow, { topic: "t", requires: ["gpu"] }));
    await plant.pass(10);
    expect((await plant.job(id)).state).toBe("RETRYING");
    await plant.run(setDraining(flow, "old", false, "ann"));
    await plant.pass(10);
    expect(worked).toEqual([id]);
  });
});
