import { describe, expect, test } from "vitest";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { admissionLockOf, throughGate } from "../../../src/engine/intake/admission-lock.ts";
import type { Labels, Metrics } from "../../../src/ports/metrics.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Plant } from "../harness.ts";

describe("the gate", () => {
  test("is passed at once when it is open, one at a time, and what was done behind it is answered", async () => {
    const { plant, flow } = openGate();
    const passed = await plant.run(throughGate(flow, "acme", async ({ key }) => key));
    expect(passed).toEqual({ kind: "passed", value: "cordum:wf:run:admission:acme" });
    let inside = 0;
    const visit = () =>
      throughGate(flow, "acme", async () => {
        inside += 1;
        expect(inside).toBe(1);
        await pause(flow, 20);
        inside -= 1;
      });
    const visits = await plant.run(Promise.all(Array.from({ length: 10 }, visit)));
    expect(visits.map(({ kind }) => kind)).toEqual(Array(10).fill("passed"));
  });

  test("each org has its own", async () => {
    const { plant, flow } = openGate();
    const both = throughGate(flow, "acme", () => throughGate(flow, "beta", async () => "in both"));
    expect(await plant.run(both)).toEqual({ kind: "passed", value: { kind: "passed", value: "in both" } });
  });

  test("that stays shut is unavailable when the time is over, and nothing was done", async () => {
    const { plant, flow } = openGate({ policy: "fixed:10ms", maxWaitMs: 500 });
    const { release } = await hold(plant, plant.flow("other"));
    const beganMs = flow.world.clock.now();
    const gated = await plant.run(throughGate(flow, "acme", () => Promise.reject(new Error("was let in"))));
    expect(gated).toMatchObject({ kind: "unavailable" });
    const waitedMs = gated.kind === "unavailable" ? gated.waitedMs : 0;
    expect(waitedMs).toBeGreaterThan(480);
    expect(waitedMs).toBeLessThanOrEqual(500);
    expect(flow.world.clock.now() - beganMs).toBeLessThanOrEqual(501);
    release();
  });

  test("is not waited for when the wait is 0", async () => {
    const { plant, flow, asked } = openGate({ maxWaitMs: 0 });
    const { release } = await hold(plant, plant.flow("other"));
    expect(await plant.run(throughGate(flow, "acme", async () => 1))).toMatchObject({ kind: "unavailable" });
    expect(asked).toHaveLength(1);
    release();
  });

  test("is asked again by the policy: in step when it is fixed, spread when it is jittered", async () => {
    const delaysOf = async (policy: string) => {
      const { plant, flow, asked } = openGate({ policy, maxWaitMs: 1_000 });
      const { clock } = flow.world;
      await hold(plant, plant.flow("other"));
      const delays: number[] = [];
      const after: typeof clock.after = (delayMs, fn) => {
        delays.push(delayMs);
        return clock.after(delayMs, fn);
      };
      const world = { ...flow.world, clock: around(clock, { after }) };
      await plant.run(throughGate({ ...flow, world }, "acme", async () => 1));
      expect(asked).toHaveLength(delays.length + 1);
      expect(delays.length).toBeGreaterThan(50);
      return delays;
    };
    expect(new Set(await delaysOf("fixed:10ms"))).toEqual(new Set([10]));
    const jittered = await delaysOf("bounded:10ms:0.5");
    expect(new Set(jittered).size).toBeGreaterThan(5);
    expect(Math.min(...jittered)).toBeGreaterThanOrEqual(5);
    expect(Math.max(...jittered)).toBeLessThanOrEqual(15);
  });

  test("a clock that is set back does not make anybody wait for longer", async () => {
    const { plant, flow, asked } = openGate({ policy: "fixed:10ms", maxWaitMs: 100 });
    const { clock } = flow.world;
    const { release } = await hold(plant, plant.flow("other"));
    let times = 0;
    const now = () => {
      times += 1;
      return clock.now() - 1_000 * times;
    };
    const backwards = around(clock, { now });
    const gated = throughGate({ ...flow, world: { ...flow.world, clock: backwards } }, "acme", async () => 1);
    expect(await plant.run(gated)).toEqual({ kind: "unavailable", waitedMs: 100 });
    expect(asked).toHaveLength(11);
    release();
  });
});

describe("the gate is left open behind", () => {
  test("work that throws", async () => {
    const { plant, flow } = openGate({ maxWaitMs: 0 });
    const failing = throughGate(flow, "acme", () => Promise.reject(new Error("no room on the disk")));
    await expect(plant.run(failing)).rejects.toThrow("no room on the disk");
    await plant.run(flow.desk.close());
    expect(await plant.run(throughGate(flow, "acme", async () => "in"))).toMatchObject({ kind: "passed" });
  });

  test("a release that fails: the answer is the work's own, and the TTL frees the lock", async () => {
    const { plant, flow } = openGate();
    const { locks } = flow.world;
    const acquire = async (request: Parameters<typeof locks.acquire>[0]) => {
      const acquired = await locks.acquire(request);
      if (acquired.kind === "busy") return acquired;
      return { kind: "held", lease: around(acquired.lease, { release: () => Promise.reject(new Error("away")) }) };
    };
    const broken: Flow = { ...flow, world: { ...flow.world, locks: around(locks, { acquire }) } };
    expect(await plant.run(throughGate(broken, "acme", async () => "in"))).toEqual({ kind: "passed", value: "in" });
  });

  test("a holder that died, after the TTL", async () => {
    const { plant, flow } = openGate({ maxWaitMs: 20_000, ttlMs: 5_000 });
    await hold(plant, plant.flow("other"), 5_000);
    plant.crash("other");
    const beganMs = flow.world.clock.now();
    expect(await plant.run(throughGate(flow, "acme", async () => "in"))).toEqual({ kind: "passed", value: "in" });
    const waitedMs = flow.world.clock.now() - beganMs;
    expect(waitedMs).toBeGreaterThan(4_900);
    expect(waitedMs).toBeLessThan(5_100);
  });
});

test("a store that fails is an error: there is no way on without the lock", async () => {
  const { plant, flow } = openGate();
  const acquire = () => Promise.reject(new Error("connection lost"));
  const away: Flow = { ...flow, world: { ...flow.world, locks: around(flow.world.locks, { acquire }) } };
  let wasIn = false;
  const gated = throughGate(away, "acme", async () => (wasIn = true));
  await expect(plant.run(gated)).rejects.toThrow("connection lost");
  expect(wasIn).toBe(false);
});

test("the wait, the tries and the delays are measured", async () => {
  const { plant, flow, seen } = openGate({ policy: "fixed:10ms" });
  const { release } = await hold(plant, plant.flow("other"));
  const gated = throughGate(flow, "acme", async () => "in");
  await plant.pass(5);
  release();
  await plant.run(gated);
  expect(Object.fromEntries(seen)).toMatchObject({
    "cordum_lock_busy_retries_total admission fixed": [1],
    "cordum_lock_busy_retry_delay_seconds admission fixed": [0.01],
    "cordum_lock_first_retry_success_total admission": [1],
    "cordum_lock_attempts admission": [2],
  });
  const [waitS = 0] = seen.get("cordum_run_lock_wait_seconds admission") ?? [];
  expect(waitS).toBeGreaterThanOrEqual(0.01);
});

interface GateParts {
  readonly policy?: string;
  readonly maxWaitMs?: number;
  readonly ttlMs?: number;
}

/** A process before the gate; `asked` has the times at which it asked for the lock. */
function openGate({ policy = "bounded:10ms:0.5", maxWaitMs = 2_000, ttlMs = 10_000 }: GateParts = {}) {
  const polled = { policy: parsePolicy(policy), maxWaitMs, ttlMs };
  const plant = new Plant({ admission: { strategy: "polled", polled } });
  const inner = plant.flow("c1");
  const { locks, clock } = inner.world;
  const asked: number[] = [];
  const acquire = (request: Parameters<typeof locks.acquire>[0]) => {
    asked.push(clock.now());
    return locks.acquire(request);
  };
  const seen = new Map<string, number[]>();
  const note = (name: string, labels: Labels | undefined, value: number) => {
    const key = [name, ...Object.values(labels ?? {})].join(" ");
    seen.set(key, [...(seen.get(key) ?? []), value]);
  };
  const metrics: Metrics = {
    add: (name, labels, amount = 1) => note(name, labels, amount),
    set: (name, value, labels) => note(name, labels, value),
    observe: (name, value, labels) => note(name, labels, value),
  };
  const flow: Flow = { ...inner, world: { ...inner.world, metrics, locks: around(locks, { acquire }) } };
  return { plant, flow, asked, seen };
}

/** Somebody else takes the lock of `acme`, and keeps it until told. */
async function hold(plant: Plant, by: Flow, ttlMs = 10_000): Promise<{ readonly release: () => void }> {
  const request = { key: admissionLockOf("acme"), org: "acme", ttlMs, waitMs: 0, owner: "other" };
  const acquired = await plant.run(by.world.locks.acquire(request));
  if (acquired.kind === "busy") throw new Error("the lock should have been free");
  return { release: () => void acquired.lease.release() };
}

function pause(flow: Flow, ms: number): Promise<void> {
  return new Promise((resolve) => flow.world.clock.after(ms, resolve));
}
