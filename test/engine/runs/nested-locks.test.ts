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
 * L13: a holder that acquires its own lock again gets `busy` and loses its work. Tracks the locks held by every call
 * chain (message, timer or API call); no chain may acquire a lock it holds.
 */
class LockChains {
  /** Locks acquired by a chain that holds them, or outside of any chain. */
  readonly nested: string[] = [];
  readonly acquired = new Set<string>();
  readonly #chain = new AsyncLocalStorage<Set<string>>();

  begin<T>(fn: () => T): T {
    return this.#chain.run(new Set(), fn);
  }

  around(world: World): World {
    const { locks, clock } = world;
    const acquire: typeof locks.acquire = async (request) => {
      const held = this.#chain.getStore();
      this.acquired.add(request.key);
      if (held === undefined || held.has(request.key)) this.nested.push(request.key);
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
    // Lock-free commits are disabled so that every write acquires the lock.
    const noFence = () => null;
    const tracked = withHandler((handle) => (delivery) => this.begin(() => handle(delivery)))(world);
    return {
      ...tracked,
      locks: around(locks, { acquire, reserveFence: noFence }),
      clock: { now: () => clock.now(), after },
    };
  }
}

const ONCE = { retry: { max_retries: 0 } };

test("L13: no call chain acquires a lock that it holds", async () => {
  const harness = new RunHarness();
  const chains = new LockChains();
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
  const caller = { org: "default", by: "bob" };

  const signed = await start("signed");
  await harness.pass(3_000);
  await call(() => approve(engine, { ...caller, jobId: `${signed}:sign@1` }));
  const above = await start("above");
  await harness.pass(10_000);
  const late = await start("late");
  const deadLetters = [await start("failing"), await start("outer")];
  await harness.pass(10_000);
  expect(deadLetters.map((id) => harness.runOf(id).state)).toEqual(["FAILED", "FAILED"]);
  isBroken = false;
  for (const id of deadLetters) await call(() => redriveDeadLetter(engine, { ...caller, id: `${id}:a@1` }));
  await harness.pass(10_000);
  await call(() => cancelRun(engine, { ...caller, runId: above, why: "enough" }));
  await harness.pass(20_000);

  expect([signed, ...deadLetters, above, late].map((id) => harness.runOf(id).state)).toEqual([
    "SUCCEEDED",
    "SUCCEEDED",
    "SUCCEEDED",
    "CANCELLED",
    "TIMEOUT",
  ]);
  expect(chains.nested).toEqual([]);
  // One for each run above and its sub-runs.
  expect(chains.acquired.size).toBeGreaterThanOrEqual(7);
  expect(await harness.run(engine.world.locks.list(10))).toEqual([]);
});

test("the tracker detects a nested acquire", async () => {
  const harness = new RunHarness();
  const chains = new LockChains();
  const engine: Engine = openEngine(chains.around(harness.engine("c1").world), { current: harness.settings });
  const request = { key: "k", org: "default", ttlMs: 30_000, waitMs: 0, owner: "test" };
  const acquireTwice = async () => {
    await engine.world.locks.acquire(request);
    return engine.world.locks.acquire(request);
  };
  expect(await harness.run(chains.begin(acquireTwice))).toMatchObject({ kind: "busy" });
  expect(chains.nested).toEqual(["k"]);
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
    id: "failing",
    steps: { a: { topic: "demo.flaky", ...ONCE }, b: { type: "transform", depends_on: ["a"], input: 1 } },
  },
  { id: "inner", steps: { a: { topic: "demo.flaky", ...ONCE } } },
  { id: "outer", steps: { a: { type: "subworkflow", workflow: "inner", ...ONCE } } },
  { id: "asks", steps: { ask: { type: "approval" } } },
  { id: "above", steps: { a: { type: "subworkflow", workflow: "asks" }, b: { topic: "demo.unserved" } } },
  { id: "late", timeout_sec: 5, steps: { ask: { type: "approval" } } },
];
