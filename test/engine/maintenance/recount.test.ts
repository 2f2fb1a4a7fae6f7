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

describe("slot recount", () => {
  test("corrects leaked and missing slots and reports both", async () => {
    const slots = openCounters();
    slots.add("acme", ["RUNNING", "PAUSED", "ENDING", "SUCCEEDED"]);
    slots.leak("acme", 2);
    slots.add("beta", ["RUNNING", "RUNNING"]);
    slots.leak("beta", -1);
    slots.add("right", ["RUNNING", "FAILED"]);
    await slots.harness.run(recountSlots(slots.engine));
    expect(slots.current()).toEqual({ acme: 3, beta: 2, right: 1 });
    expect(slots.logged).toEqual([
      { level: "warn", event: "slots_recounted", org: "acme", by: -2 },
      { level: "warn", event: "slots_recounted", org: "beta", by: 1 },
    ]);
    expect(slots.counted).toEqual([2, 1]);
    await slots.harness.run(recountSlots(slots.engine));
    expect(slots.logged).toHaveLength(2);
  });

  test("remembers a tenant whose counter dropped to zero", async () => {
    const slots = openCounters();
    const seen = new Set<string>();
    slots.add("acme", ["RUNNING"]);
    await slots.harness.run(recountSlots(slots.engine, seen));
    slots.leak("acme", -1);
    expect(slots.current()).toEqual({});
    await slots.harness.run(recountSlots(slots.engine, seen));
    expect(slots.current()).toEqual({ acme: 1 });
  });

  test("covers more tenants than one batch within a few passes", async () => {
    const slots = openCounters();
    const seen = new Set<string>();
    const orgs = Array.from({ length: 250 }, (_, index) => `org-${String(index).padStart(3, "0")}`);
    for (const org of orgs) slots.leak(org, 1);
    for (let turn = 0; turn < 4; turn++) {
      const before = slots.logged.length;
      await slots.harness.run(recountSlots(slots.engine, seen));
      expect(slots.logged.length - before).toBeLessThanOrEqual(200);
    }
    expect(slots.current()).toEqual({});
  });
});

describe("recount by the sweeper", () => {
  test("runs soon after the start, then once a minute", async () => {
    const slots = openCounters();
    const sweeper = new Sweeper(slots.engine);
    sweeper.start();
    const isRepairedWithin = async (ms: number): Promise<boolean> => {
      slots.leak("acme", 1);
      await slots.harness.pass(ms);
      const isRepaired = slots.current().acme === undefined;
      if (!isRepaired) slots.leak("acme", -1);
      return isRepaired;
    };
    expect(await isRepairedWithin(1_500)).toBe(true);
    expect(await isRepairedWithin(40_000)).toBe(false);
    expect(await isRepairedWithin(22_000)).toBe(true);
  });

  test("finds a tenant with a lost counter through its workflows", async () => {
    const slots = openCounters();
    const orgs = Array.from({ length: 250 }, (_, index) => `org-${index}`);
    for (const [index, org] of orgs.entries()) {
      slots.addWorkflow(org, `w${index}`);
      slots.add(org, ["RUNNING"]);
      slots.leak(org, -1);
    }
    expect(slots.current()).toEqual({});
    const sweeper = new Sweeper(slots.engine);
    for (let minute = 0; minute < 5; minute++) {
      await slots.harness.run(sweeper.sweep());
      await slots.harness.pass(60_000);
    }
    expect(slots.current()).toEqual(Object.fromEntries(orgs.map((org) => [org, 1])));
  });

  test("is repeated at the next sweep when the store fails", async () => {
    const slots = openCounters();
    slots.leak("acme", 1);
    const { store } = slots.engine.world;
    let isUnavailable = true;
    const recount = (...args: Parameters<typeof store.recount>) =>
      isUnavailable ? Promise.reject(new Error("unavailable")) : store.recount(...args);
    const engine = { ...slots.engine, world: { ...slots.engine.world, store: around(store, { recount }) } };
    const sweeper = new Sweeper(engine);
    await slots.harness.run(sweeper.sweep());
    expect(slots.logged).toMatchObject([{ event: "duty_failed", duty: "slots" }]);
    isUnavailable = false;
    await slots.harness.run(sweeper.sweep());
    expect(slots.current()).toEqual({});
  });
});

function openCounters() {
  const harness = new Harness();
  const logged: object[] = [];
  const counted: number[] = [];
  const inner = harness.engine("c1");
  const log = { write: (level: string, event: string, fields = {}) => void logged.push({ level, event, ...fields }) };
  const metrics = around(inner.world.metrics, {
    add: (name: string, _: object, amount: number) => {
      if (name === "cordum_slots_recounted_total") counted.push(amount);
    },
  });
  const engine: Engine = { ...inner, world: { ...inner.world, log, metrics } };
  const { store } = harness.sim.net;
  let nextId = 0;
  const write = <T>(table: Table<T>, before: T | null, after: T | null) => {
    const id = `id-${nextId++}`;
    const change = put(table, id, before === null ? null : { id, version: 0, value: before }, after);
    store.commit({ org: "o", atMs: 0, puts: [change], guards: [], sends: [], watch: [] });
  };
  return {
    harness,
    engine,
    logged,
    counted,
    add: (org: string, states: readonly Run["state"][]) => {
      for (const state of states)
        write(RUNS, null, { org, state, workflowId: "w", createdMs: 1, dueMs: FAR_MS } as Run);
    },
    addWorkflow: (org: string, id: string) => {
      write(WORKFLOW_HEADS, null, { id, org, version: 1, hash: "", name: null, createdMs: nextId, updatedMs: 1 });
    },
    /** Changes the counter without a run. */
    leak: (org: string, count: number) => {
      for (let nth = 0; nth < Math.abs(count); nth++) {
        if (count > 0) write(LEAKS, null, { org });
        else write(LEAKS, { org }, null);
      }
    },
    current: () => Object.fromEntries(store.counts(RUNS_GROUP, 1_000)),
  };
}

const FAR_MS = 8e15;

const LEAKS: Table<{ readonly org: string }> = {
  name: "leak",
  placement: ({ org }) => ({ lists: [], queue: null, counters: [runsOpenOf(org)], dueMs: null }),
};
