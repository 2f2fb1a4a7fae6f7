import { AsyncLocalStorage } from "node:async_hooks";
import { expect, test } from "vitest";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { World } from "../../../src/ports/world.ts";
import { around, withHandler } from "../../../src/sim/mutants/decorators.ts";
import { RunHarness } from "../run-harness.ts";

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
    return {
      ...heard,
      locks: around(locks, { acquire, reserveFence: moment }),
      clock: { now: () => clock.now(), after },
    };
  }
}

const ONCE = { retry: { max_retries: 0 } };

test("L13: no call chain asks for a lock that it has", async () => {
  const harness = new RunHarness();
  const chains = new Chains();
  const engine = openEngine(chains.around(harness.engine("c1").world), { current: harness.settings });
  await harness.run(chains.begin(() => startControl(engine)));
  let isBroken = true;
  await harness.worker("w1", ["demo.flaky"], async () => {
    if (isBroken) throw new Error("broken");
    return 1;
  });
  const call = <T>(fn: () => Promise<T>) => harness.run(chains.begin(fn));
  const start = (id: string) => chains.begin(() => harness.started(engine, id));
  for (const document of DOCUMENTS) await harness.apply(engine, document);
  const who = { org: "default", by: "bob" };

  const signed = await start("signed");
  await harness.pass(3_000);
  await call(() => approve(engine, { ...who, jobId: `${signed}:sign@1` }));
  const above = await start("above");
  await harness.pass(10_000);
  const late = await start("late");
  const deadLetters = [await start("letter"), await start("outer")];
  await harness.pass(10_000);
  expect(deadLetters.map((id) => harness.runOf(id).state)).toEqual(["FAILED", "FAILED"]);
  isBroken = false;
  for (const id of deadLetters) await call(() => redriveDeadLetter(engine, { ...who, id: `${id}:a@1` }));
  await harness.pass(10_000);
  await call(() => cancelRun(engine, { ...who, runId: above, why: "enough" }));
  await harness.pass(20_000);

  expect([signed, ...deadLetters, above, late].map((id) => harness.runOf(id).state)).toEqual([
    "SUCCEEDED",
    "SUCCEEDED",
    "SUCCEEDED",
    "CANCELLED",
    "TIMEOUT",
  ]);
  expect(chains.twice).toEqual([]);
  // One for each run above, and those below them.
  expect(chains.asked.size).toBeGreaterThanOrEqual(7);
  expect(await harness.run(engine.world.locks.list(10))).toEqual([]);
});

test("the chains would see it", async () => {
  const harness = new RunHarness();
  const chains = new Chains();
  const engine: Engine = openEngine(chains.around(harness.engine("c1").world), { current: harness.settings });
  const request = { key: "k", org: "default", ttlMs: 30_000, waitMs: 0, owner: "test" };
  const nested = async () => {
    await engine.world.locks.acquire(request);
    return engine.world.locks.acquire(request);
  };
  expect(await harness.run(chains.begin(nested))).toMatchObject({ kind: "busy" });
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
