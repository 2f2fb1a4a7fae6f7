import { describe, expect, test } from "vitest";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { admissionLockOf, withAdmissionLock } from "../../../src/engine/intake/admission-lock.ts";
import type { Labels, Metrics } from "../../../src/ports/metrics.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness } from "../harness.ts";

describe("admission lock", () => {
  test("runs the work at once when free, one caller at a time, and returns its value", async () => {
    const { harness, engine } = openAdmission();
    const passed = await harness.run(withAdmissionLock(engine, "acme", async ({ key }) => key));
    expect(passed).toEqual({ kind: "passed", value: "cordum:wf:run:admission:acme" });
    let inside = 0;
    const enter = () =>
      withAdmissionLock(engine, "acme", async () => {
        inside += 1;
        expect(inside).toBe(1);
        await pause(engine, 20);
        inside -= 1;
      });
    const entries = await harness.run(Promise.all(Array.from({ length: 10 }, enter)));
    expect(entries.map(({ kind }) => kind)).toEqual(Array(10).fill("passed"));
  });

  test("is separate per tenant", async () => {
    const { harness, engine } = openAdmission();
    const both = withAdmissionLock(engine, "acme", () => withAdmissionLock(engine, "beta", async () => "in both"));
    expect(await harness.run(both)).toEqual({ kind: "passed", value: { kind: "passed", value: "in both" } });
  });

  test("times out as unavailable without running the work", async () => {
    const { harness, engine } = openAdmission({ policy: "fixed:10ms", maxWaitMs: 500 });
    const { release } = await hold(harness, harness.engine("other"));
    const startMs = engine.world.clock.now();
    const admission = await harness.run(
      withAdmissionLock(engine, "acme", () => Promise.reject(new Error("was let in"))),
    );
    expect(admission).toMatchObject({ kind: "unavailable" });
    const waitedMs = admission.kind === "unavailable" ? admission.waitedMs : 0;
    expect(waitedMs).toBeGreaterThan(480);
    expect(waitedMs).toBeLessThanOrEqual(500);
    expect(engine.world.clock.now() - startMs).toBeLessThanOrEqual(501);
    release();
  });

  test("is tried once when the wait is 0", async () => {
    const { harness, engine, acquiredMs } = openAdmission({ maxWaitMs: 0 });
    const { release } = await hold(harness, harness.engine("other"));
    expect(await harness.run(withAdmissionLock(engine, "acme", async () => 1))).toMatchObject({ kind: "unavailable" });
    expect(acquiredMs).toHaveLength(1);
    release();
  });

  test("is retried by the policy: constant delays when fixed, spread delays when jittered", async () => {
    const delaysOf = async (policy: string) => {
      const { harness, engine, acquiredMs } = openAdmission({ policy, maxWaitMs: 1_000 });
      const { clock } = engine.world;
      await hold(harness, harness.engine("other"));
      const delays: number[] = [];
      const after: typeof clock.after = (delayMs, fn) => {
        delays.push(delayMs);
        return clock.after(delayMs, fn);
      };
      const world = { ...engine.world, clock: around(clock, { after }) };
      await harness.run(withAdmissionLock(composeEngine({ ...engine, world }), "acme", async () => 1));
      expect(acquiredMs).toHaveLength(delays.length + 1);
      expect(delays.length).toBeGreaterThan(50);
      return delays;
    };
    expect(new Set(await delaysOf("fixed:10ms"))).toEqual(new Set([10]));
    const jittered = await delaysOf("bounded:10ms:0.5");
    expect(new Set(jittered).size).toBeGreaterThan(5);
    expect(Math.min(...jittered)).toBeGreaterThanOrEqual(5);
    expect(Math.max(...jittered)).toBeLessThanOrEqual(15);
  });

  test("a clock that is set back does not extend the wait", async () => {
    const { harness, engine, acquiredMs } = openAdmission({ policy: "fixed:10ms", maxWaitMs: 100 });
    const { clock } = engine.world;
    const { release } = await hold(harness, harness.engine("other"));
    let times = 0;
    const now = () => {
      times += 1;
      return clock.now() - 1_000 * times;
    };
    const backwards = around(clock, { now });
    const admission = withAdmissionLock(
      composeEngine({ ...engine, world: { ...engine.world, clock: backwards } }),
      "acme",
      async () => 1,
    );
    expect(await harness.run(admission)).toEqual({ kind: "unavailable", waitedMs: 100 });
    expect(acquiredMs).toHaveLength(11);
    release();
  });
});

describe("releases the lock", () => {
  test("after work that throws", async () => {
    const { harness, engine } = openAdmission({ maxWaitMs: 0 });
    const failing = withAdmissionLock(engine, "acme", () => Promise.reject(new Error("disk full")));
    await expect(harness.run(failing)).rejects.toThrow("disk full");
    await harness.run(engine.tasks.close());
    expect(await harness.run(withAdmissionLock(engine, "acme", async () => "in"))).toMatchObject({ kind: "passed" });
  });

  test("by its TTL when the release fails; the work's value is returned", async () => {
    const { harness, engine } = openAdmission();
    const { locks } = engine.world;
    const acquire = async (request: Parameters<typeof locks.acquire>[0]) => {
      const acquired = await locks.acquire(request);
      if (acquired.kind === "busy") return acquired;
      return {
        kind: "held",
        lease: around(acquired.lease, { release: () => Promise.reject(new Error("unavailable")) }),
      };
    };
    const broken: Engine = composeEngine({ ...engine, world: { ...engine.world, locks: around(locks, { acquire }) } });
    expect(await harness.run(withAdmissionLock(broken, "acme", async () => "in"))).toEqual({
      kind: "passed",
      value: "in",
    });
  });

  test("by its TTL when the holder crashed", async () => {
    const { harness, engine } = openAdmission({ maxWaitMs: 20_000, ttlMs: 5_000 });
    await hold(harness, harness.engine("other"), 5_000);
    harness.crash("other");
    const startMs = engine.world.clock.now();
    expect(await harness.run(withAdmissionLock(engine, "acme", async () => "in"))).toEqual({
      kind: "passed",
      value: "in",
    });
    const waitedMs = engine.world.clock.now() - startMs;
    expect(waitedMs).toBeGreaterThan(4_900);
    expect(waitedMs).toBeLessThan(5_100);
  });
});

test("a failing lock store is an error, not an admission", async () => {
  const { harness, engine } = openAdmission();
  const acquire = () => Promise.reject(new Error("connection lost"));
  const unavailable: Engine = composeEngine({
    ...engine,
    world: { ...engine.world, locks: around(engine.world.locks, { acquire }) },
  });
  let isAdmitted = false;
  const admission = withAdmissionLock(unavailable, "acme", async () => (isAdmitted = true));
  await expect(harness.run(admission)).rejects.toThrow("connection lost");
  expect(isAdmitted).toBe(false);
});

test("records wait, attempts and delays as metrics", async () => {
  const { harness, engine, seen } = openAdmission({ policy: "fixed:10ms" });
  const { release } = await hold(harness, harness.engine("other"));
  const admission = withAdmissionLock(engine, "acme", async () => "in");
  await harness.pass(5);
  release();
  await harness.run(admission);
  expect(Object.fromEntries(seen)).toMatchObject({
    "cordum_lock_busy_retries_total admission fixed": [1],
    "cordum_lock_busy_retry_delay_seconds admission fixed": [0.01],
    "cordum_lock_first_retry_success_total admission": [1],
    "cordum_lock_attempts admission": [2],
  });
  const [waitS = 0] = seen.get("cordum_run_lock_wait_seconds admission") ?? [];
  expect(waitS).toBeGreaterThanOrEqual(0.01);
});

interface AdmissionOptions {
  readonly policy?: string;
  readonly maxWaitMs?: number;
  readonly ttlMs?: number;
}

/** An engine with a polled admission lock; `acquiredMs` has the time of every acquire call. */
function openAdmission({ policy = "bounded:10ms:0.5", maxWaitMs = 2_000, ttlMs = 10_000 }: AdmissionOptions = {}) {
  const polled = { policy: parsePolicy(policy), maxWaitMs, ttlMs };
  const harness = new Harness({ admission: { strategy: "polled", polled } });
  const inner = harness.engine("c1");
  const { locks, clock } = inner.world;
  const acquiredMs: number[] = [];
  const acquire = (request: Parameters<typeof locks.acquire>[0]) => {
    acquiredMs.push(clock.now());
    return locks.acquire(request);
  };
  const seen = new Map<string, number[]>();
  const record = (name: string, labels: Labels | undefined, value: number) => {
    const key = [name, ...Object.values(labels ?? {})].join(" ");
    seen.set(key, [...(seen.get(key) ?? []), value]);
  };
  const metrics: Metrics = {
    add: (name, labels, amount = 1) => record(name, labels, amount),
    set: (name, value, labels) => record(name, labels, value),
    observe: (name, value, labels) => record(name, labels, value),
  };
  const engine: Engine = { ...inner, world: { ...inner.world, metrics, locks: around(locks, { acquire }) } };
  return { harness, engine, acquiredMs, seen };
}

/** Another process takes the lock of `acme` until `release`. */
async function hold(harness: Harness, by: Engine, ttlMs = 10_000): Promise<{ readonly release: () => void }> {
  const request = { key: admissionLockOf("acme"), org: "acme", ttlMs, waitMs: 0, owner: "other" };
  const acquired = await harness.run(by.world.locks.acquire(request));
  if (acquired.kind === "busy") throw new Error("the lock should have been free");
  return { release: () => void acquired.lease.release() };
}

function pause(engine: Engine, ms: number): Promise<void> {
  return new Promise((resolve) => engine.world.clock.after(ms, resolve));
}
