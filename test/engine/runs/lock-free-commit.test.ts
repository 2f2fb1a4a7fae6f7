import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { settleJob } from "../../../src/engine/dispatch/settle-job.ts";
import { pauseRun } from "../../../src/engine/runs/control-run.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import type { LockLease } from "../../../src/ports/locks.ts";
import { leaseOf } from "../../contract/locks/locks.subject.ts";
import { RunHarness } from "../run-harness.ts";

const CHAIN = {
  id: "chain",
  steps: {
    a: { topic: "demo.quick" },
    b: { topic: "demo.gate", depends_on: ["a"] },
    c: { topic: "demo.quick", depends_on: ["b"] },
  },
};
const ONE = { id: "one", steps: { a: { topic: "demo.quick" } } };
const FAN = { id: "fan", steps: { each: { topic: "demo.quick", for_each: "${input.items}", max_parallel: 8 } } };

describe("lock-free commits in a single process", () => {
  test("acquire no lock once fences are reserved, and write rising fences to the run", async () => {
    const { harness, engine, open, acquirers, writes } = await openSingle();
    open();
    const fences: number[] = [];
    for (let n = 0; n < 5; n++) {
      const id = await harness.started(engine, "chain");
      await harness.pass(5_000);
      const { state, lock } = harness.runOf(id);
      expect(state).toBe("SUCCEEDED");
      expect(lock).toEqual({
        holder: "c1",
        fence: harness.sim.net.store.fenceOf(RUNS.name, id),
        waitedMs: 0,
        attempts: 1,
      });
      fences.push(...writes.splice(0).flatMap(({ run }) => run.lock?.fence ?? []));
    }
    expect(acquirers).toEqual([]);
    expect(fences).toHaveLength(15);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
    expect(await harness.run(engine.world.locks.list(10))).toEqual([]);
  });

  test("are refused while another process holds the lock; the result is applied once, after the release", async () => {
    const { harness, id, open, writes, lockFromOther } = await openWithRunningStep();
    const lease = await lockFromOther();
    open();
    await harness.pass(3_000);
    expect(writes.map(({ isLockFree, answer }) => [isLockFree, answer])).toEqual([[true, "refused"]]);
    expect(harness.states(id)).toMatchObject({ b: "RUNNING" });
    await harness.run(lease.release());
    await harness.pass(5_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    expect(endsOf(harness.runOf(id))).toEqual(["a", "b", "c"]);
    const [, first] = writes;
    expect(first).toMatchObject({ isLockFree: false, answer: "committed" });
    expect(first?.run.lock?.fence).toBeGreaterThan(lease.fence);
  });

  test("are decided again under the lock when another process wrote the run in between", async () => {
    const { harness, engine, id, open, acquirers, writes } = await openWithRunningStep();
    const who = { org: "default", runId: id, by: "bob", why: "wait" };
    await harness.run(pauseRun(harness.engine("c2"), who));
    acquirers.length = 0;
    writes.length = 0;
    open();
    await harness.pass(5_000);
    expect(writes.map(({ by, isLockFree, answer }) => [by, isLockFree, answer])).toEqual([
      ["c1", true, "stale"],
      ["c1", false, "committed"],
    ]);
    expect(acquirers).toEqual(["c1"]);
    expect(harness.runOf(id).state).toBe("PAUSED");
    expect(endsOf(harness.runOf(id))).toEqual(["a", "b"]);
    // After a stale write the process acquires the lock for a while.
    await harness.started(engine, "chain");
    await harness.pass(5_000);
    expect(writes.slice(2).map(({ isLockFree, answer }) => [isLockFree, answer])).toEqual(
      Array(3).fill([false, "committed"]),
    );
  });

  test("record the wait of a result that was refused before", async () => {
    const { harness, engine, id, writes } = await openWithRunningStep();
    const found = harness.sim.net.store.load(JOBS, `${id}:b@1`);
    if (!found) throw new Error("no job");
    const busy = { count: 3, sinceMs: engine.world.clock.now() - 4_000, lastDelayMs: 500 };
    await harness.run(settleJob(engine, found, { ...found.value, state: "SUCCEEDED" }, [], { busy }));
    expect(writes).toMatchObject([
      { isLockFree: true, answer: "committed", run: { lock: { waitedMs: 4_000, attempts: 4 } } },
    ]);
  });

  test("are not used for a run with open children, whose results share the lock", async () => {
    const { harness, engine, writes } = await openSingle();
    const id = await harness.started(engine, "fan", { input: { items: [1, 2, 3, 4, 5, 6] } });
    await harness.pass(5_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    expect(writes.length).toBeGreaterThan(0);
    expect(writes.filter(({ isLockFree }) => isLockFree)).toEqual([]);
  });

  test("are not used when results are not coalesced, as in the baseline profile", async () => {
    const { harness, engine, open, acquirers, writes } = await openSingle({
      runLock: { ...defaultSettings().runLock, coalesce: false },
    });
    open();
    const id = await harness.started(engine, "chain");
    await harness.pass(5_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    expect(acquirers).toEqual(["c1", "c1", "c1"]);
    expect(writes.map(({ isLockFree }) => isLockFree)).toEqual([false, false, false]);
  });
});

interface Write {
  readonly by: string;
  readonly isLockFree: boolean;
  readonly answer: string;
  readonly run: Run;
}

/** One control process with reserved fences; records lock acquisitions and run writes from now on. */
async function openSingle(settings: Partial<Settings> = {}) {
  const harness = new RunHarness(settings);
  const { engine } = await harness.control("c1");
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  await harness.worker("w1", ["demo.quick"], async () => 1);
  await harness.worker("w2", ["demo.gate"], () => opened, 10, { extendsForMs: 3_600_000 });
  for (const document of [CHAIN, ONE, FAN]) await harness.apply(engine, document);
  await harness.started(engine, "one");
  await harness.pass(5_000);
  const { net } = harness.sim;
  const writes: Write[] = [];
  net.onCommit = (process, { puts, guards }, { kind }) => {
    const isLockFree = guards.some((guard) => guard.kind === "free");
    for (const { table, value, expect: version } of puts)
      if (table === RUNS.name && version !== 0)
        writes.push({ by: process.name, isLockFree, answer: kind, run: value as Run });
  };
  const acquirers: string[] = [];
  const acquire = net.locks.acquire.bind(net.locks);
  net.locks.acquire = (request) => {
    acquirers.push(request.process.name);
    return acquire(request);
  };
  return { harness, engine, open, acquirers, writes };
}

/** As `openSingle`, with a run whose second step is running until `open`. */
async function openWithRunningStep() {
  const single = await openSingle();
  const { harness, engine, writes } = single;
  const id = await harness.started(engine, "chain");
  await harness.pass(1_000);
  expect(writes.splice(0).map(({ isLockFree, answer }) => [isLockFree, answer])).toEqual([[true, "committed"]]);
  const { locks } = harness.engine("other").world;
  const request = { key: runLockKey(id), org: "default", ttlMs: 30_000, waitMs: 0, owner: "other" };
  const lockFromOther = async (): Promise<LockLease> => leaseOf(await harness.run(locks.acquire(request)));
  return { ...single, id, lockFromOther };
}

/** The ids of the succeeded steps, one per event. */
function endsOf({ lines }: Run): readonly string[] {
  return lines.flatMap(({ event, stepId }) => (event === "step_succeeded" && stepId ? [stepId] : []));
}
