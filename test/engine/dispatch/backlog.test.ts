import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { BACKLOG_GROUP, IN_FLIGHT_GROUP } from "../../../src/core/model/job.ts";
import type { Bus } from "../../../src/ports/bus.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness, idOf } from "../harness.ts";

const narrow = (windowMax: number) => ({ dispatch: { ...defaultSettings().dispatch, windowMax } });

/** A worker that finishes one job each time it is told to. */
function byHand() {
  const waiting: (() => void)[] = [];
  const begun: string[] = [];
  return {
    begun,
    handle: (item: { org: string }) =>
      new Promise<void>((resolve) => {
        begun.push(item.org);
        waiting.push(resolve);
      }),
    finishOne: () => waiting.shift()?.(),
  };
}

describe("the window of a topic", () => {
  test("is never exceeded, and every place that comes free is used", async () => {
    const harness = new Harness(narrow(2));
    const { engine } = await harness.control("c1");
    const hand = byHand();
    await harness.worker("w1", ["t"], hand.handle);
    for (let index = 0; index < 6; index++) await harness.admit(engine, { topic: "t" });
    await harness.pass(100);
    expect(hand.begun.length).toBe(2);
    for (let finished = 1; finished <= 4; finished++) {
      hand.finishOne();
      await harness.pass(20);
      expect(hand.begun.length).toBe(2 + finished);
      const inFlight = await harness.run(engine.world.store.counts(IN_FLIGHT_GROUP, 10));
      expect(inFlight.get("t")).toBe(2);
    }
  });

  test("holds against a hundred starts at once from several processes", async () => {
    const harness = new Harness(narrow(5));
    const engines = await Promise.all(["c1", "c2", "c3"].map(async (name) => (await harness.control(name)).engine));
    let most = 0;
    harness.sim.net.onCommit = () => {
      most = Math.max(most, harness.sim.net.store.counts(IN_FLIGHT_GROUP, 10).get("t") ?? 0);
    };
    let done = 0;
    await harness.worker("w1", ["t"], async () => done++);
    await Promise.all(
      engines.flatMap((engine) => Array.from({ length: 34 }, () => harness.admit(engine, { topic: "t" }))),
    );
    await harness.pass(10_000);
    expect(done).toBe(102);
    expect(most).toBe(5);
  });

  test("L40: one org's long queue does not delay another's first job", async () => {
    const harness = new Harness(narrow(1));
    const { engine } = await harness.control("c1");
    const hand = byHand();
    await harness.worker("w1", ["t"], hand.handle);
    for (let index = 0; index < 50; index++) await harness.admit(engine, { topic: "t", org: "big" });
    await harness.admit(engine, { topic: "t", org: "small" });
    for (let finished = 0; finished < 2; finished++) {
      hand.finishOne();
      await harness.pass(20);
    }
    expect(hand.begun).toContain("small");
  });

  test("critical goes before batch within an org, and the older before the younger", async () => {
    const harness = new Harness(narrow(1));
    const { engine } = await harness.control("c1");
    const order: unknown[] = [];
    const hand = byHand();
    await harness.worker("w1", ["t"], (item) => {
      order.push(item.input);
      return hand.handle(item);
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
      hand.finishOne();
      await harness.pass(20);
    }
    expect(order).toEqual(["first", "urgent", "soon", "batch-1", "batch-2"]);
  });

  test("a process that dies with jobs taken loses none of them", async () => {
    const harness = new Harness(narrow(1));
    const { engine } = await harness.control("c1");
    const hand = byHand();
    await harness.worker("w1", ["t"], hand.handle);
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
      hand.finishOne();
      await harness.pass(10_000);
    }
    for (const id of ids) expect((await harness.job(id)).state).toBe("SUCCEEDED");
  });
});

describe("no worker", () => {
  test("L36: jobs wait in the backlog and start at once when a worker comes", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const ids = [];
    for (let index = 0; index < 20; index++) ids.push(idOf(await harness.admit(engine, { topic: "t" })));
    await harness.pass(300_000);
    expect((await harness.job(ids[7] ?? "")).state).toBe("SCHEDULED");
    const began: number[] = [];
    await harness.worker("w1", ["t"], async () => began.push(engine.world.clock.now()));
    const came = engine.world.clock.now();
    await harness.pass(1_000);
    expect(began.length).toBe(20);
    expect(Math.max(...began) - came).toBeLessThan(1_000);
    for (const id of ids) expect((await harness.job(id)).state).toBe("SUCCEEDED");
  });

  test("a thousand waiting jobs cost a batch of tries now and then, not a try each at its own pace", async () => {
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
    // Full jitter between 0 and 30 s: about forty rests in ten minutes, each ended by at most one batch.
    expect(tries - early).toBeLessThan(100 * 256);
  });
});
