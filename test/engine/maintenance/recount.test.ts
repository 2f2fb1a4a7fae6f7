import { describe, expect, test } from "vitest";
import { RUNS, RUNS_GROUP, type Run, runsOpenOf } from "../../../src/core/model/run.ts";
import type { Table } from "../../../src/core/model/table.ts";
import { WORKFLOW_HEADS } from "../../../src/core/model/workflow.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { recountSlots } from "../../../src/engine/maintenance/recount-slots.ts";
import { Sweeper } from "../../../src/engine/maintenance/sweeper.ts";
import { put } from "../../../src/ports/store.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness } from "../harness.ts";

describe("slots are counted anew", () => {
  test("what leaked comes back, what is missing is added, and both are said", async () => {
    const bench = openSlots();
    bench.add("acme", ["RUNNING", "PAUSED", "ENDING", "SUCCEEDED"]);
    bench.leak("acme", 2);
    bench.add("beta", ["RUNNING", "RUNNING"]);
    bench.leak("beta", -1);
    bench.add("right", ["RUNNING", "FAILED"]);
    await bench.harness.run(recountSlots(bench.engine));
    expect(bench.slots()).toEqual({ acme: 3, beta: 2, right: 1 });
    expect(bench.said).toEqual([
      { level: "warn", event: "slots_recounted", org: "acme", by: -2 },
      { level: "warn", event: "slots_recounted", org: "beta", by: 1 },
    ]);
    expect(bench.counted).toEqual([2, 1]);
    await bench.harness.run(recountSlots(bench.engine));
    expect(bench.said).toHaveLength(2);
  });

  test("an org that seems to hold nothing is remembered from when it did", async () => {
    const bench = openSlots();
    const seen = new Set<string>();
    bench.add("acme", ["RUNNING"]);
    await bench.harness.run(recountSlots(bench.engine, seen));
    bench.leak("acme", -1);
    expect(bench.slots()).toEqual({});
    await bench.harness.run(recountSlots(bench.engine, seen));
    expect(bench.slots()).toEqual({ acme: 1 });
  });

  test("of more orgs than fit into one turn, each gets its own within a few", async () => {
    const bench = openSlots();
    const seen = new Set<string>();
    const orgs = Array.from({ length: 250 }, (_, index) => `org-${String(index).padStart(3, "0")}`);
    for (const org of orgs) bench.leak(org, 1);
    for (let turn = 0; turn < 4; turn++) {
      const before = bench.said.length;
      await bench.harness.run(recountSlots(bench.engine, seen));
      expect(bench.said.length - before).toBeLessThanOrEqual(200);
    }
    expect(bench.slots()).toEqual({});
  });
});

describe("the sweeper's part of it", () => {
  test("comes at once, then once a minute, and sooner when the clock was set back", async () => {
    const bench = openSlots();
    let setBackMs = 0;
    const { clock } = bench.engine.world;
    const world = { ...bench.engine.world, clock: around(clock, { now: () => clock.now() - setBackMs }) };
    const sweeper = new Sweeper({ ...bench.engine, world });
    const repairs = async (): Promise<boolean> => {
      bench.leak("acme", 1);
      await bench.harness.run(sweeper.sweep());
      const isRepaired = bench.slots().acme === undefined;
      if (!isRepaired) bench.leak("acme", -1);
      return isRepaired;
    };
    expect(await repairs()).toBe(true);
    expect(await repairs()).toBe(false);
    await bench.harness.pass(50_000);
    expect(await repairs()).toBe(false);
    await bench.harness.pass(10_000);
    expect(await repairs()).toBe(true);
    setBackMs = 3_600_000;
    expect(await repairs()).toBe(true);
  });

  test("finds an org whose counter was lost while nobody was there, by its workflows", async () => {
    const bench = openSlots();
    const orgs = Array.from({ length: 250 }, (_, index) => `org-${index}`);
    for (const [index, org] of orgs.entries()) {
      bench.has(org, `w${index}`);
      bench.add(org, ["RUNNING"]);
      bench.leak(org, -1);
    }
    expect(bench.slots()).toEqual({});
    const sweeper = new Sweeper(bench.engine);
    for (let minute = 0; minute < 5; minute++) {
      await bench.harness.run(sweeper.sweep());
      await bench.harness.pass(60_000);
    }
    expect(bench.slots()).toEqual(Object.fromEntries(orgs.map((org) => [org, 1])));
  });

  test("a store that fails it leaves it to the next sweep, which does not wait for a minute", async () => {
    const bench = openSlots();
    bench.leak("acme", 1);
    const { store } = bench.engine.world;
    let isAway = true;
    const recount = (...args: Parameters<typeof store.recount>) =>
      isAway ? Promise.reject(new Error("away")) : store.recount(...args);
    const engine = { ...bench.engine, world: { ...bench.engine.world, store: around(store, { recount }) } };
    const sweeper = new Sweeper(engine);
    await bench.harness.run(sweeper.sweep());
    expect(bench.said).toMatchObject([{ event: "sweep_failed", part: "slots" }]);
    isAway = false;
    await bench.harness.run(sweeper.sweep());
    expect(bench.slots()).toEqual({});
  });
});

function openSlots() {
  const harness = new Harness();
  const said: object[] = [];
  const counted: number[] = [];
  const inner = harness.engine("c1");
  const log = { write: (level: string, event: string, fields = {}) => void said.push({ level, event, ...fields }) };
  const metrics = around(inner.world.metrics, {
    add: (name: string, _: object, amount: number) => {
      if (name === "cordum_slots_recounted_total") counted.push(amount);
    },
  });
  const engine: Engine = { ...inner, world: { ...inner.world, log, metrics } };
  const { store } = harness.sim.net;
  let made = 0;
  const write = <T>(table: Table<T>, before: T | null, after: T | null) => {
    const id = `id-${made++}`;
    const change = put(table, id, before === null ? null : { id, version: 0, value: before }, after);
    store.commit({ org: "o", atMs: 0, puts: [change], guards: [], sends: [], watch: [] });
  };
  return {
    harness,
    engine,
    said,
    counted,
    add: (org: string, states: readonly Run["state"][]) => {
      for (const state of states)
        write(RUNS, null, { org, state, workflowId: "w", createdMs: 1, dueMs: FAR_MS } as Run);
    },
    has: (org: string, id: string) => {
      write(WORKFLOW_HEADS, null, { id, org, version: 1, hash: "", name: null, createdMs: made, updatedMs: 1 });
    },
    /** Counts without a run, as a bug or a hand would. */
    leak: (org: string, slots: number) => {
      for (let nth = 0; nth < Math.abs(slots); nth++) {
        if (slots > 0) write(LEAKS, null, { org });
        else write(LEAKS, { org }, null);
      }
    },
    slots: () => Object.fromEntries(store.counts(RUNS_GROUP, 1_000)),
  };
}

const FAR_MS = 8e15;

const LEAKS: Table<{ readonly org: string }> = {
  name: "leak",
  placement: ({ org }) => ({ lists: [], queue: null, counters: [runsOpenOf(org)], dueMs: null }),
};
