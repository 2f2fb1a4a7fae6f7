import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { BACKLOG_GROUP, IN_FLIGHT_GROUP } from "../../../src/core/model/job.ts";
import type { Bus } from "../../../src/ports/bus.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { idOf, Plant } from "../harness.ts";

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
    const plant = new Plant(narrow(2));
    const { flow } = await plant.control("c1");
    const hand = byHand();
    await plant.worker("w1", ["t"], hand.handle);
    for (let index = 0; index < 6; index++) await plant.admit(flow, { topic: "t" });
    await plant.pass(100);
    expect(hand.begun.length).toBe(2);
    for (let finished = 1; finished <= 4; finished++) {
      hand.finishOne();
      await plant.pass(20);
      expect(hand.begun.length).toBe(2 + finished);
      const inFlight = await plant.run(flow.world.store.counts(IN_FLIGHT_GROUP, 10));
      expect(inFlight.get("t")).toBe(2);
    }
  });

  test("holds against a hundred starts at once from several processes", async () => {
    const plant = new Plant(narrow(5));
    const flows = await Promise.all(["c1", "c2", "c3"].map(async (name) => (await plant.control(name)).flow));
    let most = 0;
    plant.bench.net.onCommit = () => {
      most = Math.max(most, plant.bench.net.store.counts(IN_FLIGHT_GROUP, 10).get("t") ?? 0);
    };
    let done = 0;
    await plant.worker("w1", ["t"], async () => done++);
    await Promise.all(flows.flatMap((flow) => Array.from({ length: 34 }, () => plant.admit(flow, { topic: "t" }))));
    await plant.pass(10_000);
    expect(done).toBe(102);
    expect(most).toBe(5);
  });

  test("L40: one org's long queue does not delay another's first job", async () => {
    const plant = new Plant(narrow(1));
    const { flow } = await plant.control("c1");
    const hand = byHand();
    await plant.worker("w1", ["t"], hand.handle);
    for (let index = 0; index < 50; index++) await plant.admit(flow, { topic: "t", org: "big" });
    await plant.admit(flow, { topic: "t", org: "small" });
    for (let finished = 0; finished < 2; finished++) {
      hand.finishOne();
      await plant.pass(20);
    }
    expect(hand.begun).toContain("small");
  });

  test("critical goes before batch within an org, and the older before the younger", async () => {
    const plant = new Plant(narrow(1));
    const { flow } = await plant.control("c1");
    const order: unknown[] = [];
    const hand = byHand();
    await plant.worker("w1", ["t"], (item) => {
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
      await plant.admit(flow, { topic: "t", input, priority });
      await plant.pass(5);
    }
    for (let finished = 0; finished < 4; finished++) {
      hand.finishOne();
      await plant.pass(20);
    }
    expect(order).toEqual(["first", "urgent", "soon", "batch-1", "batch-2"]);
  });

  test("a process that dies with jobs taken loses none of them", async () => {
    const plant = new Plant(narrow(1));
    const { flow } = await plant.control("c1");
    const hand = byHand();
    await plant.worker("w1", ["t"], hand.handle);
    const ids = [];
    for (let index = 0; index < 5; index++) ids.push(idOf(await plant.admit(flow, { topic: "t" })));
    const nowMs = flow.world.clock.now();
    const queue = "backlog/t/default";
    await plant.run(
      flow.world.store.take((await import("../../../src/core/model/job.ts")).JOBS, {
        queue,
        limit: 4,
        nowMs,
        leaseMs: 5_000,
      }),
    );
    plant.crash("c1");
    await plant.control("c2");
    for (let finished = 0; finished < 5; finished++) {
      hand.finishOne();
      await plant.pass(10_000);
    }
    for (const id of ids) expect((await plant.job(id)).state).toBe("SUCCEEDED");
  });
});

describe("no worker", () => {
  test("L36: jobs wait in the backlog and start at once when a worker comes", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const ids = [];
    for (let index = 0; index < 20; index++) ids.push(idOf(await plant.admit(flow, { topic: "t" })));
    await plant.pass(300_000);
    expect((await plant.job(ids[7] ?? "")).state).toBe("SCHEDULED");
    const began: number[] = [];
    await plant.worker("w1", ["t"], async () => began.push(flow.world.clock.now()));
    const came = flow.world.clock.now();
    await plant.pass(1_000);
    expect(began.length).toBe(20);
    expect(Math.max(...began) - came).toBeLessThan(1_000);
    for (const id of ids) expect((await plant.job(id)).state).toBe("SUCCEEDED");
  });

  test("a thousand waiting jobs cost a batch of tries now and then, not a try each at its own pace", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    let tries = 0;
    const { bus } = flow.world;
    const dispatch: Bus["dispatch"] = (subject, packet) => {
      tries++;
      return bus.dispatch(subject, packet);
    };
    Object.assign(flow.world, { bus: around(bus, { dispatch }) });
    await Promise.all(Array.from({ length: 1_000 }, () => plant.admit(flow, { topic: "t" })));
    await plant.pass(1_000);
    const early = tries;
    await plant.pass(600_000);
    expect(await plant.run(flow.world.store.counts(BACKLOG_GROUP, 10))).toEqual(new Map([["t", 1_000]]));
    // Full jitter between 0 and 30 s: about forty rests in ten minutes, each ended by at most one batch.
    expect(tries - early).toBeLessThan(100 * 256);
  });
});
