import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { RETRY_STATES } from "../../../src/core/model/parked-message.ts";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { totalLockWait } from "../../../src/engine/with-lock.ts";
import type { LockLease } from "../../../src/ports/locks.ts";
import { leaseOf } from "../../contract/locks/locks.subject.ts";
import { withRecordedMetrics } from "../observe/recorded-metrics.ts";
import { RunHarness } from "../run-harness.ts";

const WAIT = "cordum_run_lock_wait_seconds engine";
const ATTEMPTS = "cordum_lock_attempts engine";
const BUSY = "cordum_lock_busy_retries_total engine bounded";
const FIRST = "cordum_lock_first_retry_success_total engine";
const FAN = { id: "fan", steps: { each: { topic: "demo.gate", for_each: "${input.items}", max_parallel: 8 } } };

describe("L19: lock metrics count from the first attempt, in whichever process", () => {
  test.each([0, 500])("a result that is refused for seconds (engine_wait_ms %i)", async (engineWaitMs) => {
    const { harness, start, lock, open, values } = await openProcesses(2, engineWaitMs);
    const id = await start();
    const lease = await lock(id);
    open();
    await harness.pass(8_000);
    await harness.run(lease.release());
    await harness.pass(4_000);
    const { state, lock: held } = harness.runOf(id);
    expect(state).toBe("SUCCEEDED");
    const busyCount = values(BUSY).length;
    expect(busyCount).toBeGreaterThan(5);
    expect(held).toMatchObject({ attempts: busyCount + 1 });
    expect(held?.waitedMs).toBeGreaterThan(7_000);
    expect(values(ATTEMPTS)).toEqual([busyCount + 1]);
    expect(values(WAIT)).toEqual([(held?.waitedMs ?? 0) / 1_000]);
    expect(values(FIRST)).toEqual([]);
  });

  test("a success of the first retry", async () => {
    const { harness, start, lock, open, values } = await openProcesses(4, 0);
    open();
    for (let n = 0; n < 12; n++) {
      const id = await start();
      const lease = await lock(id);
      await harness.pass(200);
      await harness.run(lease.release());
      await harness.pass(3_000);
      expect(harness.runOf(id).state).toBe("SUCCEEDED");
    }
    expect(values(BUSY)).toHaveLength(12);
    expect(values(FIRST)).toHaveLength(12);
    expect(values(ATTEMPTS)).toEqual(Array(12).fill(2));
  });

  test("results that share an acquisition record the longest wait and one success each", async () => {
    const { harness, start, lock, open, values } = await openProcesses(1, 500);
    const id = await start("fan", { items: [1, 2, 3] });
    const written: Run[] = [];
    harness.sim.net.onCommit = (_, { puts }) => {
      for (const { table, value } of puts) if (table === RUNS.name) written.push(value as Run);
    };
    const lease = await lock(id);
    open();
    // Refused after 0.5 s, retried within another 0.65 s, then queued together for the rest.
    await harness.pass(1_250);
    expect(values(BUSY)).toHaveLength(3);
    await harness.run(lease.release());
    await harness.pass(5_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    expect(values(ATTEMPTS)).toEqual([2]);
    expect(values(FIRST)).toHaveLength(3);
    const [waitedS = 0] = values(WAIT);
    expect(values(WAIT)).toHaveLength(1);
    expect(waitedS).toBeGreaterThan(0.7);
    expect(written.map((run) => run.lock?.waitedMs)).toEqual(written.map(() => waitedS * 1_000));
  });

  test("the oldest retry state counts; a clock that is ahead subtracts nothing", () => {
    const retryUsage = (count: number, sinceMs: number) => ({ count, sinceMs, lastDelayMs: 500 });
    const taken = { waitedMs: 40, attempts: 1 };
    const retryUsages = [retryUsage(2, 9_000), retryUsage(7, 5_000), retryUsage(1, 9_900)];
    expect(totalLockWait(taken, retryUsages, 10_000)).toEqual({ waitedMs: 5_000, attempts: 8 });
    expect(totalLockWait(taken, [retryUsage(1, 11_000)], 10_000)).toEqual({ waitedMs: 40, attempts: 2 });
    expect(totalLockWait(taken, [], 10_000)).toEqual(taken);
  });

  test("a result that finds the lock free loads no retry state", async () => {
    const { harness, start, open, values } = await openProcesses(2, 500);
    const { store } = harness.sim.net;
    const load = store.load.bind(store);
    const retryUsages: string[] = [];
    store.load = (table, id) => {
      if (table.name === RETRY_STATES.name) retryUsages.push(id);
      return load(table, id);
    };
    open();
    const id = await start();
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", lock: { attempts: 1 } });
    expect(values(ATTEMPTS)).toEqual([1]);
    expect(retryUsages).toEqual([]);
  });
});

/** Control processes with shared recorded metrics, and a worker that waits until `open`. */
async function openProcesses(processes: number, engineWaitMs: number) {
  const harness = new RunHarness({
    runLock: { ...defaultSettings().runLock, engineWaitMs },
    dispatch: { ...defaultSettings().dispatch, deadlineMs: 600_000 },
  });
  const controls = Array.from({ length: processes }, (_, at) => withRecordedMetrics(harness.engine(`c${at + 1}`)));
  for (const { engine } of controls) await harness.run(startControl(engine));
  const [{ engine } = withRecordedMetrics(harness.engine("unused"))] = controls;
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  await harness.worker("w1", ["demo.gate"], () => opened, 10, { extendsForMs: 3_600_000 });
  await harness.apply(engine, { id: "one", steps: { a: { topic: "demo.gate" } } });
  await harness.apply(engine, FAN);
  const { locks } = harness.engine("other").world;
  const request = { org: "default", ttlMs: 30_000, waitMs: 0, owner: "other" };
  return {
    harness,
    open,
    start: (workflowId = "one", input: unknown = null) => harness.started(engine, workflowId, { input }),
    lock: async (id: string): Promise<LockLease> =>
      leaseOf(await harness.run(locks.acquire({ key: runLockKey(id), ...request }))),
    values: (name: string) => controls.flatMap(({ recorded }) => recorded.get(name) ?? []),
  };
}
