import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { BACKLOG_GROUP, IN_FLIGHT_GROUP } from "../../../src/core/model/job.ts";
import { drainBacklog } from "../../../src/engine/dispatch/backlog.ts";
import type { Bus } from "../../../src/ports/bus.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness, idOf } from "../harness.ts";

const windowOf = (windowMax: number) => ({ dispatch: { ...defaultSettings().dispatch, windowMax } });

/** A handler whose jobs finish one at a time, on `finishOne`. */
function manualHandler() {
  const waiting: (() => void)[] = [];
  const started: string[] = [];
  return {
    started,
    handle: (item: { org: string }) =>
      new Promise<void>((resolve) => {
        started.push(item.org);
        waiting.push(resolve);
      }),
    finishOne: () => waiting.shift()?.(),
  };
}

describe("dispatch window of a topic", () => {
  test("is never exceeded, and freed places are used at once", async () => {
    const harness = new Harness(windowOf(2));
    const { engine } = await harness.control("c1");
    const manual = manualHandler();
    await harness.worker("w1", ["t"], manual.handle);
    for (let index = 0; index < 6; index++) await harness.admit(engine, { topic: "t" });
    await harness.pass(100);
    expect(manual.started.length).toBe(2);
    for (let finished = 1; finished <= 4; finished++) {
      manual.finishOne();
      await harness.pass(20);
      expect(manual.started.length).toBe(2 + finished);
      const inFlight = await harness.run(engine.world.store.counts(IN_FLIGHT_GROUP, 10));
      expect(inFlight.get("t")).toBe(2);
    }
  });

  test("that grows is filled at once, also with more jobs than one batch", async () => {
    const harness = new Harness(windowOf(1));
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["t"], () => new Promise(() => {}), 1_000);
    for (let index = 0; index < 301; index++) await harness.admit(engine, { topic: "t" });
    await harness.pass(100);
    Object.assign(harness.settings, windowOf(1_000));
    drainBacklog(engine, "t");
    await harness.pass(engine.settings.current.sweep.everyMs / 2);
    expect((await harness.run(engine.world.store.counts(IN_FLIGHT_GROUP, 10))).get("t")).toBe(301);
  });

  test("holds for a hundred concurrent submissions from several processes", async () => {
    const harness = new Harness(windowOf(5));
    const engines = await Promise.all(["c1", "c2", "c3"].map(async (name) => (await harness.control(name)).engine));
    let max = 0;
    harness.sim.net.onCommit = () => {
      max = Math.max(max, harness.sim.net.store.counts(IN_FLIGHT_GROUP, 10).get("t") ?? 0);
    };
    let done = 0;
    await harness.worker("w1", ["t"], async () => done++);
    await Promise.all(
      engines.flatMap((engine) => Array.from({ length: 34 }, () => harness.admit(engine, { topic: "t" }))),
    );
    await harness.pass(10_000);
    expect(done).toBe(102);
    expect(max).toBe(5);
  });

  test("L40: the long queue of one tenant does not delay the first job of another", async () => {
    const harness = new Harness(windowOf(1));
    const { engine } = await harness.control("c1");
    const manual = manualHandler();
    await harness.worker("w1", ["t"], manual.handle);
    for (let index = 0; index < 50; index++) await harness.admit(engine, { topic: "t", org: "big" });
    await harness.admit(engine, { topic: "t", org: "small" });
    for (let finished = 0; finished < 2; finished++) {
      manual.finishOne();
      await harness.pass(20);
    }
    expect(manual.started).toContain("small");
  });

  test("orders jobs of a tenant by priority, then by age", async () => {
    const harness = new Harness(windowOf(1));
    const { engine } = await harness.control("c1");
    const order: unknown[] = [];
    const manual = manualHandler();
    await harness.worker("w1", ["t"], (item) => {
      order.push(item.input);
      return manual.handle(item);
    });
    for (const [input, priority] of [
      ["first", "batch"],
      ["batch-1", "batch"],
      ["batch-2", "batch"],
      ["urgent", "critical"],
      ["soon", "interactive"],
    ]) {
      await harness.admit(engine, { topic: "t", input, priority });
      await harness.pass(5);
    }
    for (let finished = 0; finished < 4; finished++) {
      manual.finishOne();
      await harness.pass(20);
    }
    expect(order).toEqual(["first", "urgent", "soon", "batch-1", "batch-2"]);
  });

  test("jobs taken by a process that crashes are dispatched later", async () => {
    const harness = new Harness(windowOf(1));
    const { engine } = await harness.control("c1");
    const manual = manualHandler();
    await harness.worker("w1", ["t"], manual.handle);
    const ids = [];
    for (let index = 0; index < 5; index++) ids.push(idOf(await harness.admit(engine, { topic: "t" })));
    const nowMs = engine.world.clock.now();
    const queue = "backlog/t/default";
    await harness.run(
      engine.world.store.take((await import("../../../src/core/model/job.ts")).JOBS, {
        queue,
        limit: 4,
        nowMs,
        leaseMs: 5_000,
      }),
    );
    harness.crash("c1");
    await harness.control("c2");
    for (let finished = 0; finished < 5; finished++) {
      manual.finishOne();
      await harness.pass(10_000);
    }
    for (const id of ids) expect((await harness.job(id)).state).toBe("SUCCEEDED");
  });
});

describe("topic without a worker", () => {
  test("L36: jobs wait in the backlog and start at once when a worker connects", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const ids = [];
    for (let index = 0; index < 20; index++) ids.push(idOf(await harness.admit(engine, { topic: "t" })));
    await harness.pass(300_000);
    expect((await harness.job(ids[7] ?? "")).state).toBe("SCHEDULED");
    const startedMs: number[] = [];
    await harness.worker("w1", ["t"], async () => startedMs.push(engine.world.clock.now()));
    const connectedMs = engine.world.clock.now();
    await harness.pass(1_000);
    expect(startedMs.length).toBe(20);
    expect(Math.max(...startedMs) - connectedMs).toBeLessThan(1_000);
    for (const id of ids) expect((await harness.job(id)).state).toBe("SUCCEEDED");
  });

  test("a thousand waiting jobs are retried in batches, not one by one", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    let tries = 0;
    const { bus } = engine.world;
    const dispatch: Bus["dispatch"] = (subject, packet) => {
      tries++;
      return bus.dispatch(subject, packet);
    };
    Object.assign(engine.world, { bus: around(bus, { dispatch }) });
    await Promise.all(Array.from({ length: 1_000 }, () => harness.admit(engine, { topic: "t" })));
    await harness.pass(1_000);
    const early = tries;
    await harness.pass(600_000);
    expect(await harness.run(engine.world.store.counts(BACKLOG_GROUP, 10))).toEqual(new Map([["t", 1_000]]));
    // Full jitter between 0 and 30 s: about forty waits in ten minutes, each followed by at most one batch.
    expect(tries - early).toBeLessThan(100 * 256);
  });
});
