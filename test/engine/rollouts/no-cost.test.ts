import { expect, test } from "vitest";
import type { Table } from "../../../src/core/model/table.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { composeEngine } from "../../../src/engine/engine.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import type { Change, Store } from "../../../src/ports/store.ts";
import { RolloutHarness, WORKFLOW } from "./rollout-harness.ts";

/** The calls of one job and one run, from submission to the end. */
async function callsOf(start: (harness: RolloutHarness, engine: Engine) => Promise<unknown>) {
  const harness = new RolloutHarness();
  const plain = harness.engine("a");
  const calls: string[] = [];
  const store = new Proxy(plain.world.store, {
    get: (target, name: keyof Store) => {
      const call = target[name] as (...args: readonly never[]) => unknown;
      return (...args: never[]) => {
        calls.push(`${name} ${tablesIn(args[0])}`);
        return call.apply(target, args);
      };
    },
  });
  const engine = composeEngine({ ...plain, world: { ...plain.world, store } });
  await harness.run(startControl(engine));
  await harness.apply(engine, WORKFLOW);
  await start(harness, engine);
  await harness.worker("w", ["demo.work"], async () => 1);
  await harness.pass(100);
  const from = calls.length;
  await harness.admit(engine, { topic: "demo.work" });
  const runId = await harness.started(engine, WORKFLOW.id);
  await harness.pass(900);
  expect(harness.runOf(runId)).toMatchObject({ state: "SUCCEEDED" });
  return calls.slice(from).filter((call) => /^(load|commit) .*(job|run)/.test(call));
}

function tablesIn(argument: Partial<Table<never> & Change> | undefined): string {
  return argument?.puts?.map(({ table }) => table).join() ?? argument?.name ?? "";
}

test("rollouts add no load and no commit to a job or run, whether one is active or not", async () => {
  const without = await callsOf(async () => undefined);
  const withRollout = await callsOf((harness, engine) => harness.rollout(engine, { shares: [0.5] }));
  expect(withRollout).toEqual(without);
});

test("nothing is read for rollouts while none is in force", async () => {
  const harness = new RolloutHarness();
  const { engine } = await harness.control("a");
  const { current } = engine.settings;
  expect(engine.settings.for(undefined)).toBe(current);
  expect(engine.settings.for({ R1: { arm: "treatment", stage: 0 } })).toBe(current);
  const labels = { path: "engine" };
  expect(engine.settings.labelled(labels, { R1: { arm: "treatment", stage: 0 } })).toBe(labels);
  expect(engine.rollouts.enrolRun("acme", "r", 0)).toBeUndefined();
});
