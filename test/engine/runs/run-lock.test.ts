import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { RUNS, type Run } from "../../../src/core/model/run.ts";
import { intentOf, retryDelay } from "../../../src/core/retry/intent.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { settleJob } from "../../../src/engine/dispatch/settle-job.ts";
import { cancelRun, pauseRun } from "../../../src/engine/runs/control-run.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import type { Process } from "../../../src/sim/process.ts";
import { withRecordedMetrics } from "../observe/recorded-metrics.ts";
import { RunHarness } from "../run-harness.ts";

const COUNT = 200;
const FAN = {
  id: "fan",
  output: "${steps.each.output}",
  steps: { each: { topic: "demo.gate", for_each: "${input.items}", max_parallel: COUNT, input: "${item}" } },
};
const ITEMS = { items: Array.from({ length: COUNT }, (_, index) => index) };
const STEP = { id: "one", steps: { a: { topic: "demo.gate" } } };

describe("200 results of one run at once", () => {
  test("share few locks and few commits in one process", async () => {
    const { harness, taken, written } = await fanOut({ coalesce: true, processes: 1 });
    expect(taken.length).toBeLessThan(COUNT / 10);
    expect(written.length).toBeLessThan(COUNT / 10);
    expect(harness.sim.net.counting.counters.get("cordum_lock_busy_retries_total")).toBeUndefined();
  });

  test("acquire the lock one by one when not coalesced, as in the baseline profile", async () => {
    const { taken } = await fanOut({ coalesce: false, processes: 1 });
    expect(taken.length).toBeGreaterThanOrEqual(COUNT);
  });

  test.each([true, false])("count once each under rising fences in three processes (coalesce %s)", async (coalesce) => {
    const { written, taken } = await fanOut({ coalesce, processes: 3 });
    const locks = written.map(({ lock }) => lock);
    expect(new Set(locks.map((lock) => lock?.holder))).toEqual(new Set(["c1", "c2", "c3"]));
    const fences = locks.map((lock) => lock?.fence ?? 0);
    expect(fences).toEqual([...fences].sort((a, b) => a - b));
    if (coalesce) expect(taken.length).toBeLessThan(COUNT / 2);
  });
});

describe("crashed lock holder", () => {
  // 120 s of a busy lock take more deliveries than the broker's limit.
  test.each([30_000, 120_000])(
    "L4: results wait %i ms for its TTL without loss, and other runs are not delayed",
    async (ttlMs) => {
      const { harness, engine, id, release } = await oneStep();
      await lockFromCrashed(harness, id, ttlMs);
      const other = await harness.started(engine, "one");
      release();
      await harness.pass(ttlMs - 1_000);
      expect(harness.runOf(id).state).toBe("RUNNING");
      expect(harness.runOf(other).state).toBe("SUCCEEDED");
      await harness.pass(60_000);
      expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED" });
      expect(await harness.job(`${id}:a@1`)).toMatchObject({ state: "SUCCEEDED", attempt: 1 });
      expect([...harness.sim.net.store.rows(DEAD_LETTERS)]).toEqual([]);
    },
  );

  test("results that found the lock busy retry after different delays", async () => {
    const { harness, engine, id } = await oneStep();
    await lockFromCrashed(harness, id, 30_000);
    const jobId = `${id}:a@1`;
    const found = harness.sim.net.store.load(JOBS, jobId);
    if (!found) throw new Error("no job");
    const next = { ...found.value, state: "SUCCEEDED" } as const;
    const tries = Array.from({ length: 20 }, () => settleJob(engine, found, next));
    const answers = await harness.run(Promise.allSettled(tries));
    const delays = answers.map((answer) => (answer.status === "rejected" ? retryDelay(answer.reason) : undefined));
    expect(new Set(delays).size).toBeGreaterThan(10);
    // Each of them is retried and counted.
    expect(harness.sim.net.counting.counters.get("cordum_lock_busy_retries_total")).toBe(20);
    const [first] = answers;
    expect(first?.status === "rejected" && String(first.reason.message)).toMatch(/^run lock busy\b/);
    for (const delayMs of delays)
      expect([350, delayMs, 650]).toEqual([350, delayMs, 650].sort((a, b) => Number(a) - Number(b)));
  });

  test("L18: a timer that fires while the lock is busy is not lost", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "wait", steps: { wait: { type: "delay", delay_sec: 2 } } });
    await harness.apply(engine, { id: "late", timeout_sec: 2, steps: { ask: { type: "approval" } } });
    const runs = [await harness.started(engine, "wait"), await harness.started(engine, "late")];
    for (const id of runs) await lockFromCrashed(harness, id, 30_000);
    await harness.pass(20_000);
    expect(runs.map((id) => harness.runOf(id).state)).toEqual(["RUNNING", "RUNNING"]);
    await harness.pass(20_000);
    expect(runs.map((id) => harness.runOf(id).state)).toEqual(["SUCCEEDED", "TIMEOUT"]);
  });

  test.each([null, "fixed:10ms"])("API calls fail with lock_busy after 3 s (polled: %s)", async (poll) => {
    const { runLock } = defaultSettings();
    const gatewayPoll = poll === null ? null : parsePolicy(poll);
    const { harness, engine, id } = await oneStep({ runLock: { ...runLock, gatewayPoll } });
    await lockFromCrashed(harness, id, 30_000);
    const startMs = engine.world.clock.now();
    const control = { org: "default", runId: id, by: "bob", why: "enough" };
    const failed = await harness.run(
      cancelRun(engine, control).then(
        () => null,
        (error: unknown) => error,
      ),
    );
    expect(intentOf(failed)).toMatchObject({ kind: "retry", retryClass: "lock_busy" });
    const waitedMs = engine.world.clock.now() - startMs;
    expect(waitedMs).toBeGreaterThanOrEqual(2_980);
    expect(waitedMs).toBeLessThan(3_500);
    expect(harness.runOf(id).state).toBe("RUNNING");
    await harness.pass(30_000);
    expect(await harness.run(cancelRun(engine, control))).toEqual({ kind: "moved", state: "CANCELLED" });
  });
});

test("L14: a holder paused beyond its TTL writes nothing, and its result is not lost", async () => {
  const { harness, engine, id, release } = await oneStep({}, "c1");
  const { engine: other } = await harness.control("c2");
  let paused: Process | null = null;
  watchLock(harness, id, (process) => {
    if (process.name !== "c1" || paused) return;
    paused = process;
    process.pause();
  });
  const pausing = pauseRun(engine, { org: "default", runId: id, by: "alice", why: "wait" }).catch(
    (error: unknown) => error,
  );
  await harness.pass(31_000);
  await harness.run(cancelRun(other, { org: "default", runId: id, by: "bob", why: "enough" }));
  const version = harness.sim.net.store.load(RUNS, id)?.version;
  (paused as Process | null)?.resume();
  release();
  await harness.pass(60_000);
  await harness.run(pausing);
  expect(harness.runOf(id)).toMatchObject({ state: "CANCELLED", lock: { holder: "c2" } });
  expect(harness.sim.net.store.load(RUNS, id)?.version).toBe(version);
});

test("L19: records wait, attempts and first-retry success, and the holder on the run", async () => {
  const harness = new RunHarness();
  const { engine, recorded } = withRecordedMetrics(harness.engine("c1"));
  await harness.run(startControl(engine));
  let release = () => {};
  const opened = new Promise<void>((resolve) => (release = resolve));
  await harness.worker("w1", ["demo.gate"], () => opened);
  await harness.apply(engine, STEP);
  const id = await harness.started(engine, "one");
  const other = harness.engine("other").world.locks;
  const held = await harness.run(
    other.acquire({ key: runLockKey(id), org: "default", ttlMs: 30_000, waitMs: 0, owner: "other" }),
  );
  if (held.kind !== "held") throw new Error("busy");
  release();
  await harness.pass(600);
  void held.lease.release();
  await harness.pass(5_000);
  const { state, lock } = harness.runOf(id);
  expect(state).toBe("SUCCEEDED");
  expect(lock).toMatchObject({ holder: "c1", fence: harness.sim.net.store.fenceOf(RUNS.name, id) });
  expect(lock?.fence).toBeGreaterThan(held.lease.fence);
  // The refused attempt counts.
  expect(lock?.attempts).toBe(2);
  expect(lock?.waitedMs).toBeGreaterThanOrEqual(350);
  expect(recorded.get("cordum_lock_busy_retries_total engine bounded")).toEqual([1]);
  expect(recorded.get("cordum_lock_first_retry_success_total engine")).toEqual([1]);
  expect(recorded.get("cordum_run_lock_wait_seconds engine")).toEqual([(lock?.waitedMs ?? 0) / 1_000]);
  expect(recorded.get("cordum_lock_attempts engine")).toEqual([2]);
  const [delayS = 0] = recorded.get("cordum_lock_busy_retry_delay_seconds engine bounded") ?? [];
  expect(delayS).toBeGreaterThanOrEqual(0.35);
  expect(delayS).toBeLessThanOrEqual(0.65);
});

/** A run with 200 children that all end at the same time. Checks that each is counted once. */
async function fanOut({ coalesce, processes }: { readonly coalesce: boolean; readonly processes: number }) {
  const harness = new RunHarness({ runLock: { ...defaultSettings().runLock, coalesce } });
  const { engine } = await harness.control("c1");
  for (let at = 2; at <= processes; at++) await harness.control(`c${at}`);
  let release = () => {};
  const opened = new Promise<void>((resolve) => (release = resolve));
  const answer = async ({ input }: { input: unknown }) => {
    await opened;
    return input;
  };
  await harness.worker("w1", ["demo.gate"], answer, COUNT, { extendsForMs: 3_600_000 });
  await harness.apply(engine, FAN);
  const id = await harness.started(engine, "fan", { input: ITEMS });
  await harness.pass(5_000);
  expect(harness.runOf(id).steps.each?.fan).toMatchObject({ open: COUNT });
  const written: Run[] = [];
  harness.sim.net.onCommit = (_, change, committed) => {
    for (const put of change.puts)
      if (put.table === RUNS.name && committed.kind === "committed") written.push(put.value as Run);
  };
  const taken = watchLock(harness, id);
  release();
  await harness.pass(60_000);
  expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: ITEMS.items } });
  expect(harness.runOf(id).steps.each?.fan).toMatchObject({ open: 0, succeeded: COUNT, failed: 0 });
  const jobs = [...harness.sim.net.store.rows(JOBS)].map(({ value }) => value);
  expect(jobs.every(({ state, attempt }) => state === "SUCCEEDED" && attempt === 1)).toBe(true);
  return { harness, taken, written };
}

/** A run whose only job runs until `release`. */
async function oneStep(settings: Partial<Settings> = {}, name = "c1") {
  // Longer than any lock is held here, so that an attempt whose result waits is not lost.
  const harness = new RunHarness({ dispatch: { ...defaultSettings().dispatch, deadlineMs: 600_000 }, ...settings });
  const { engine } = await harness.control(name);
  let release = () => {};
  const opened = new Promise<void>((resolve) => (release = resolve));
  await harness.worker("w1", ["demo.gate"], () => opened, 10, { extendsForMs: 3_600_000 });
  await harness.apply(engine, STEP);
  const id = await harness.started(engine, "one");
  await harness.pass(100);
  return { harness, engine, id, release };
}

async function lockFromCrashed(harness: RunHarness, runId: string, ttlMs: number): Promise<void> {
  const name = `dead-${runId}`;
  const { locks } = harness.engine(name).world;
  await harness.run(locks.acquire({ key: runLockKey(runId), org: "default", ttlMs, waitMs: 0, owner: name }));
  harness.crash(name);
}

/** Records which processes acquire the lock of a run, from now on. */
function watchLock(harness: RunHarness, runId: string, onAcquire: (process: Process) => void = () => {}): string[] {
  const { locks } = harness.sim.net;
  const acquire = locks.acquire.bind(locks);
  const acquirers: string[] = [];
  locks.acquire = (request) => {
    const answer = acquire(request);
    if (request.key === runLockKey(runId)) {
      acquirers.push(request.process.name);
      onAcquire(request.process);
    }
    return answer;
  };
  return acquirers;
}
