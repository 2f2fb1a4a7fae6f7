import { AsyncLocalStorage } from "node:async_hooks";
import { expect, test } from "vitest";
import { startControl } from "../../../src/engine/control.ts";
import { type Flow, openFlow } from "../../../src/engine/engine.ts";
import { retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { World } from "../../../src/ports/world.ts";
import { around, withHandler } from "../../../src/sim/mutants/decorators.ts";
import { RunPlant } from "../run-harness.ts";

/**
 * L13: what holds a lock and asks for it again is told that it is busy, and its work is dropped. Every call chain (a message,
 * a timer, a call from outside) knows which locks it holds; none may ask for one of these.
 */
class Chains {
  /** Locks that were asked for by who had them, or from where no chain begins. */
  readonly twice: string[] = [];
  readonly asked = new Set<string>();
  readonly #chain = new AsyncLocalStorage<Set<string>>();

  begin<T>(fn: () => T): T {
    return this.#chain.run(new Set(), fn);
  }

  around(world: World): World {
    const { locks, clock } = world;
    const acquire: typeof locks.acquire = async (request) => {
      const held = this.#chain.getStore();
      this.asked.add(request.key);
      if (held === undefined || held.has(request.key)) this.twice.push(request.key);
      const acquired = await locks.acquire(request);
      if (acquired.kind === "busy") return acquired;
      held?.add(request.key);
      const release = () => {
        held?.delete(request.key);
        return acquired.lease.release();
      };
      return { kind: "held", lease: around(acquired.lease, { release }) };
    };
    const after: Clock["after"] = (delayMs, fn) => clock.after(delayMs, () => this.begin(fn));
    // Without moments: what is spared is not what is looked at here.
    const moment = () => null;
    const heard = withHandler((handle) => (delivery) => this.begin(() => handle(delivery)))(world);
    return { ...heard, locks: around(locks, { acquire, moment }), clock: { now: () => clock.now(), after } };
  }
}

const ONCE = { retry: { max_retries: 0 } };

test("L13: no call chain asks for a lock that it has", async () => {
  const plant = new RunPlant();
  const chains = new Chains();
  const flow = openFlow(chains.around(plant.flow("c1").world), { current: plant.settings });
  await plant.run(chains.begin(() => startControl(flow)));
  let isBroken = true;
  await plant.worker("w1", ["demo.flaky"], async () => {
    if (isBroken) throw new Error("broken");
    return 1;
  });
  const call = <T>(fn: () => Promise<T>) => plant.run(chains.begin(fn));
  const start = (id: string) => chains.begin(() => plant.started(flow, id));
  for (const document of DOCUMENTS) await plant.apply(flow, document);
  const who = { org: "default", by: "bob" };

  const signed = await start("signed");
  await plant.pass(3_000);
  await call(() => approve(flow, { ...who, jobId: `${signed}:sign@1` }));
  const above = await start("above");
  await plant.pass(10_000);
  const late = await start("late");
  const letters = [await start("letter"), await start("outer")];
  await plant.pass(10_000);
  expect(letters.map((id) => plant.runOf(id).state)).toEqual(["FAILED", "FAILED"]);
  isBroken = false;
  for (const id of letters) await call(() => retryLetter(flow, { ...who, id: `${id}:a@1` }));
  await plant.pass(10_000);
  await call(() => cancelRun(flow, { ...who, runId: above, why: "enough" }));
  await plant.pass(20_000);

  expect([signed, ...letters, above, late].map((id) => plant.runOf(id).state)).toEqual([
    "SUCCEEDED",
    "SUCCEEDED",
    "SUCCEEDED",
    "CANCELLED",
    "TIMEOUT",
  ]);
  expect(chains.twice).toEqual([]);
  // One for each run above, and those below them.
  expect(chains.asked.size).toBeGreaterThanOrEqual(7);
  expect(await plant.run(flow.world.locks.list(10))).toEqual([]);
});

test("the chains would see it", async () => {
  const plant = new RunPlant();
  const chains = new Chains();
  const flow: Flow = openFlow(chains.around(plant.flow("c1").world), { current: plant.settings });
  const wish = { key: "k", org: "default", ttlMs: 30_000, waitMs: 0, owner: "test" };
  const nested = async () => {
    await flow.world.locks.acquire(wish);
    return flow.world.locks.acquire(wish);
  };
  expect(await plant.run(chains.begin(nested))).toMatchObject({ kind: "busy" });
  expect(chains.twice).toEqual(["k"]);
});

const DOCUMENTS = [
  {
    id: "signed",
    steps: {
      wait: { type: "delay", delay_sec: 1 },
      sign: { type: "approval", depends_on: ["wait"] },
      done: { type: "transform", depends_on: ["sign"], input: 1 },
    },
  },
  {
    id: "letter",
    steps: { a: { topic: "demo.flaky", ...ONCE }, b: { type: "transform", depends_on: ["a"], input: 1 } },
  },
  { id: "inner", steps: { a: { topic: "demo.flaky", ...ONCE } } },
  { id: "outer", steps: { a: { type: "subworkflow", workflow: "inner", ...ONCE } } },
  { id: "asks", steps: { ask: { type: "approval" } } },
  { id: "above", steps: { a: { type: "subworkflow", workflow: "asks" }, b: { topic: "demo.nobody" } } },
  { id: "late", timeout_sec: 5, steps: { ask: { type: "approval" } } },
];
