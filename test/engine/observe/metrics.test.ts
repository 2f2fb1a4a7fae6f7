import { describe, expect, test } from "vitest";
import { promMetrics } from "../../../src/adapters/node/prom-metrics.ts";
import { defaultSettings } from "../../../src/config/config.ts";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { retryDelay } from "../../../src/core/retry/intent.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { admissionLockOf } from "../../../src/engine/intake/admission-lock.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { Sweeper } from "../../../src/engine/maintenance/sweeper.ts";
import { RetryArrivals } from "../../../src/engine/observe/retry-arrivals.ts";
import { RolloutRegistry } from "../../../src/engine/rollouts/index.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { withLock } from "../../../src/engine/with-lock.ts";
import type { Labels, Metrics } from "../../../src/ports/metrics.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { leaseOf } from "../../contract/locks/locks.subject.ts";
import { Harness } from "../harness.ts";
import { RunHarness } from "../run-harness.ts";

/** An engine whose final metric values can be read by name and labels. */
function withFinalMetrics(engine: Engine): { readonly engine: Engine; readonly seen: Map<string, number> } {
  const seen = new Map<string, number>();
  const key = (name: string, labels: Labels = {}) => [name, ...Object.values(labels)].join(" ");
  const add = (name: string, amount: number) => seen.set(name, (seen.get(name) ?? 0) + amount);
  const metrics: Metrics = {
    add: (name, labels, amount = 1) => void add(key(name, labels), amount),
    set: (name, value, labels) => void seen.set(key(name, labels), value),
    observe: (name, _, labels) => void add(key(name, labels), 1),
  };
  return { engine: composeEngine({ ...engine, world: { ...engine.world, metrics } }), seen };
}

test("counts only the run lock in the baseline figures, not admission polls or job locks", async () => {
  const { admission } = defaultSettings();
  const harness = new RunHarness({ admission: { ...admission, strategy: "polled" } });
  const metrics = promMetrics();
  const plain = harness.engine("c1");
  const engine = composeEngine({ ...plain, world: { ...plain.world, metrics } });
  await harness.run(startControl(engine));
  await harness.worker("w1", ["demo.x"], async () => 1);
  await harness.apply(engine, { id: "one", steps: { a: { topic: "demo.x" } } });
  const lockOptions = { org: "default", ttlMs: 30_000, owner: "b" };
  const holdForOneSecond = async (key: string) => {
    const lease = leaseOf(
      await harness.run(harness.engine("b").world.locks.acquire({ key, waitMs: 0, ...lockOptions })),
    );
    harness.sim.net.timeline.post(1_000, () => void lease.release());
  };
  await holdForOneSecond(admissionLockOf("default"));
  const id = await harness.started(engine, "one");
  await holdForOneSecond("of a job");
  const work = (waitMs: number) =>
    harness.run(withLock(engine, { key: "of a job", path: "job", waitMs, ...lockOptions }, async () => "done"));
  await expect(work(0)).rejects.toThrow("busy");
  expect(await work(2_000)).toBe("done");
  await harness.pass(5_000);
  expect(harness.runOf(id).state).toBe("SUCCEEDED");
  const page = await metrics.text();
  for (const path of ["admission", "job"]) {
    expect(page).toMatch(new RegExp(`lock_busy_retries_total.path="${path}".* [1-9]`));
    expect(page).toMatch(new RegExp(`run_lock_wait_seconds_bucket.le="0.5",path="${path}". 0`));
  }
  const { lock_busy_retry_count, lock_busy_retry_delay_ms, run_lock_wait_ms_p99 } = metrics.figures();
  expect({ lock_busy_retry_count, lock_busy_retry_delay_ms }).toEqual({
    lock_busy_retry_count: 0,
    lock_busy_retry_delay_ms: { p50: null, p95: null },
  });
  // The engine acquired its lock at once.
  expect(run_lock_wait_ms_p99).toBeLessThan(100);
  metrics.add("cordum_lock_busy_retries_total", { path: "gateway", policy: "fixed" });
  expect(metrics.figures().lock_busy_retry_count).toBe(1);
});

describe("L19: lock contention is visible in the metrics", () => {
  const request = { key: "k", org: "o", ttlMs: 30_000, waitMs: 0, path: "job" };

  test("counts a first-retry success only when the lock was busy exactly once", async () => {
    const harness = new Harness();
    const { engine, seen } = withFinalMetrics(harness.engine("a"));
    const other = harness.engine("b");
    const hold = async (busyTimes: number) => {
      await harness.run(
        withLock(other, request, async () => {
          for (let time = 0; time < busyTimes; time++) {
            await expect(withLock(engine, request, async () => {})).rejects.toThrow("is held by");
          }
        }),
      );
      await harness.pass(1_000); // The release runs in the background.
      await harness.run(withLock(engine, request, async () => {}));
      await harness.pass(1_000);
    };
    await hold(1);
    expect(seen.get("cordum_lock_first_retry_success_total job")).toBe(1);
    await hold(2);
    await hold(0);
    expect(seen.get("cordum_lock_first_retry_success_total job")).toBe(1);
    expect(seen.get("cordum_lock_busy_retries_total job bounded")).toBe(3);
  });

  test("the delay after a busy lock grows with the attempt", async () => {
    const harness = new Harness();
    const { retry } = harness.settings;
    const policy = parsePolicy("capped_exponential:1s:30s:0ms");
    const settings = { ...harness.settings, retry: { ...retry, lock_busy: { ...retry.lock_busy, policy } } };
    const plain = harness.engine("a");
    const engine = { ...plain, settings: new RolloutRegistry({ current: settings }, plain.world) };
    const delays: (number | undefined)[] = [];
    await harness.run(
      withLock(harness.engine("b"), request, async () => {
        for (let time = 0; time < 3; time++) {
          await withLock(engine, request, async () => {}).catch((error: unknown) => delays.push(retryDelay(error)));
        }
      }),
    );
    expect(delays).toEqual([2_000, 4_000, 8_000]);
  });
});

test("records admissions by tenant and endpoint and counts refusals by reason", async () => {
  const harness = new Harness();
  const { engine, seen } = withFinalMetrics(harness.engine("a"));
  const submission = (raw: Record<string, unknown>) => {
    const checked = checkSubmission(raw);
    if (checked.kind === "bad") throw new Error(checked.problems.join());
    return checked.submission;
  };
  const first = submission({ topic: "t", org: "acme", input: 1, idempotencyKey: "k" });
  await harness.run(admitJob(engine, first));
  await harness.run(admitJob(engine, { ...first, input: 2 }));
  await harness.run(admitJob(engine, { ...first, idempotencyKey: null }, "sys.job.submit"));
  const broken = {
    ...engine.world,
    store: around(engine.world.store, { commit: () => Promise.reject(new Error("unavailable")) }),
  };
  await expect(harness.run(admitJob(composeEngine({ ...engine, world: broken }), first))).rejects.toThrow(
    "unavailable",
  );
  expect(seen.get("cordum_admission_wait_seconds acme /api/v1/jobs")).toBe(3);
  expect(seen.get("cordum_admission_wait_seconds acme sys.job.submit")).toBe(1);
  expect(seen.get("cordum_admission_rejected_total conflict")).toBe(1);
  expect(seen.get("cordum_admission_rejected_total unavailable")).toBe(1);
});

test("L20: reports length and oldest age of a backlog until it is empty", async () => {
  const harness = new Harness();
  const { engine, seen } = withFinalMetrics(harness.engine("a"));
  const { dispatch, ...rest } = harness.settings;
  const full = composeEngine({
    ...engine,
    settings: new RolloutRegistry({ current: { ...rest, dispatch: { ...dispatch, windowMax: 1 } } }, engine.world),
  });
  for (const priority of ["batch", "critical", "batch"]) {
    const checked = checkSubmission({ topic: "t", priority });
    if (checked.kind === "ok") await harness.run(admitJob(full, checked.submission));
    await harness.pass(10_000);
  }
  const sweeper = new Sweeper(full);
  await harness.run(sweeper.sweep());
  const waiting = seen.get("cordum_queue_lag t") ?? 0;
  expect(waiting).toBeGreaterThan(0);
  expect(seen.get("cordum_queue_oldest_seconds t")).toBeGreaterThanOrEqual(10);
  await harness.worker("w", ["t"], async () => "done");
  await harness.control("c");
  await harness.pass(120_000);
  await harness.run(sweeper.sweep());
  expect(seen.get("cordum_queue_lag t")).toBe(0);
  expect(seen.get("cordum_queue_oldest_seconds t")).toBe(0);
});

describe("peak-to-mean ratio of retries", () => {
  test("is near 1 for even arrivals and high for a burst", () => {
    const even = new RetryArrivals();
    for (let at = 0; at < 60_000; at += 10) even.record("lock_busy", at);
    expect(even.peakToMean(59_999).get("lock_busy")).toBeCloseTo(1, 1);
    const burst = new RetryArrivals();
    for (let count = 0; count < 600; count++) burst.record("lock_busy", 10_000 * (count % 6));
    expect(burst.peakToMean(59_999).get("lock_busy")).toBeCloseTo(200, 1);
  });

  test("covers the last minute per class, and is 0 for too few samples", () => {
    const arrivals = new RetryArrivals();
    for (let count = 0; count < 100; count++) arrivals.record("throttled", 5);
    for (let at = 60_000; at < 120_000; at += 50) arrivals.record("throttled", at);
    for (let count = 0; count < 5; count++) arrivals.record("no_worker", 100_000);
    const figures = arrivals.peakToMean(119_999);
    expect(figures.get("throttled")).toBeCloseTo(1, 5);
    expect(figures.get("no_worker")).toBe(0);
    expect(arrivals.peakToMean(500_000).get("throttled")).toBe(0);
  });

  test("counts arrivals recorded ahead of time when they are due", () => {
    const arrivals = new RetryArrivals();
    for (let count = 0; count < 30; count++) arrivals.record("lock_busy", 62_000);
    expect(arrivals.peakToMean(60_000).get("lock_busy")).toBe(0);
    expect(arrivals.peakToMean(62_000).get("lock_busy")).toBeGreaterThan(1);
  });
});
