import { describe, expect, test } from "vitest";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { BACKLOG_GROUP } from "../../../src/core/model/job.ts";
import { type LeaseRequest, leaseJobs } from "../../../src/engine/dispatch/lease-jobs.ts";
import { LongPollWaiters, type Waiter } from "../../../src/engine/dispatch/long-poll-waiters.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import type { EventFeed, JobUpdateListener } from "../../../src/engine/observe/event-feed.ts";
import type { Store } from "../../../src/ports/store.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { ManualClock } from "../../contract/manual-clock.ts";
import { Harness, idOf } from "../harness.ts";

const request = (overrides: Partial<LeaseRequest> = {}): LeaseRequest => ({
  org: "default",
  workerId: "h",
  topics: ["t"],
  max: 1,
  waitMs: 50_000,
  signal: new AbortController().signal,
  ...overrides,
});

function validSubmission() {
  const checked = checkSubmission({ topic: "t" });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}

/** Records the counter groups that are read. */
function watchCounts(engine: Engine): string[] {
  const read: string[] = [];
  const { store } = engine.world;
  const counts: Store["counts"] = (group, limit) => {
    read.push(group);
    return store.counts(group, limit);
  };
  Object.assign(engine.world, { store: around(store, { counts }) });
  return read;
}

/** Starts lease requests that have just polled an empty backlog and now wait. */
async function waiting(harness: Harness, engine: Engine, requests: readonly Partial<LeaseRequest>[]) {
  const got: (string | undefined)[] = requests.map(() => undefined);
  const all = requests.map(async (overrides, at) => {
    const [job] = await leaseJobs(engine, request({ workerId: `h${at}`, ...overrides }));
    got[at] = job?.id;
  });
  await harness.pass(100);
  return { got, all: Promise.all(all) };
}

describe("long-poll waiters", () => {
  test.each([
    [0, 50_000, 500],
    [0.5, 50_000, 750],
    [0.99, 50_000, 995],
    [0.5, 300, 300],
  ])("poll again within a second, spread by half: random %d, %i ms left", async (random, restMs, afterMs) => {
    const clock = new ManualClock();
    const world = { ...new Harness().engine("c1").world, clock };
    Object.assign(world, { random: { ...world.random, next: () => random } });
    const waiters = new LongPollWaiters(world, { subscribe: () => () => {} } as unknown as EventFeed);
    const waiter = waiters.subscribe(request());
    waiter.beginPoll();
    let isOver = false;
    const over = waiter.wait(restMs).then(() => (isOver = true));
    await clock.pass(afterMs - 1);
    expect([isOver, waiter.isWaiting]).toEqual([false, true]);
    await clock.pass(1);
    await over;
    expect(waiter.isWaiting).toBe(false);
    waiter.stop();
  });

  test("count the polled topics of a tenant until they stop", () => {
    const { world } = new Harness().engine("c1");
    let listeners = 0;
    const subscribe = () => {
      listeners += 1;
      return () => {
        listeners -= 1;
      };
    };
    const waiters = new LongPollWaiters(world, { subscribe } as unknown as EventFeed);
    const all = [waiters.subscribe(request({ topics: ["a", "b"] })), waiters.subscribe(request({ topics: ["a"] }))];
    expect([waiters.polledTopicsOf("default"), waiters.polledTopicsOf("other"), listeners]).toEqual([3, 0, 1]);
    all[0]?.stop();
    expect([waiters.polledTopicsOf("default"), listeners]).toEqual([1, 1]);
    all[1]?.stop();
    expect([waiters.polledTopicsOf("default"), listeners]).toEqual([0, 0]);
  });

  test("wakes one waiter per job, not every waiter", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const { got } = await waiting(
      harness,
      engine,
      Array.from({ length: 30 }, () => ({})),
    );
    const read = watchCounts(engine);
    const ids = [idOf(await harness.admit(engine, { topic: "t" })), idOf(await harness.admit(engine, { topic: "t" }))];
    await harness.pass(100);
    expect(got.filter((id) => id !== undefined).sort()).toEqual(ids.sort());
    expect(read.filter((group) => group === "backlog/t").length).toBeLessThan(15);
  });

  test("wakes the only waiter with the required capabilities", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const capable = { capabilities: ["gpu"] };
    const { got } = await waiting(harness, engine, [...Array.from({ length: 10 }, () => ({})), capable]);
    const id = idOf(await harness.admit(engine, { topic: "t", requires: ["gpu"] }));
    await harness.pass(100);
    expect(got.at(-1)).toBe(id);
  });

  test("passes the wake-up to the next waiter when the first one has left", async () => {
    const harness = new Harness();
    const { world } = harness.engine("c1");
    let emit: JobUpdateListener = () => {};
    const subscribe = (listener: JobUpdateListener) => {
      emit = listener;
      return () => {};
    };
    const waiters = new LongPollWaiters(world, { subscribe: subscribe } as EventFeed);
    const [first, second] = [waiters.subscribe(request()), waiters.subscribe(request())];
    const woken: string[] = [];
    const wait = (name: string, waiter: Waiter) => {
      waiter.beginPoll();
      return waiter.wait(50_000).then(() => woken.push(name));
    };
    const waits = [wait("first", first), wait("second", second)];
    emit({ org: "default", jobId: "j", topic: "t", state: "SCHEDULED", atMs: 0, version: 1 });
    await waits[0];
    expect(woken).toEqual(["first"]);
    first.beginPoll();
    first.stop();
    await waits[1];
    expect(woken).toEqual(["first", "second"]);
    second.stop();
  });

  test("a job that no waiter can take is polled once per waiter", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await waiting(
      harness,
      engine,
      Array.from({ length: 5 }, () => ({})),
    );
    const capable = { id: "able", transport: "http", org: "default", topics: ["t"], capabilities: ["gpu"] } as const;
    engine.registry.record(capable, engine.world.clock.now());
    const read = watchCounts(engine);
    await harness.admit(engine, { topic: "t", requires: ["gpu"] });
    await harness.pass(200);
    const polls = read.filter((group) => group === "backlog/job.t").length;
    expect(polls).toBeGreaterThanOrEqual(5);
    expect(polls).toBeLessThanOrEqual(10);
  });

  test("a waiter that is polling when a job arrives polls again at once", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const { store } = engine.world;
    let id: string | null = null;
    const counts: Store["counts"] = async (group, limit) => {
      const before = await store.counts(group, limit);
      if (group !== "backlog/t" || id !== null) return before;
      id = "";
      id = idOf(await admitJob(engine, validSubmission()));
      await new Promise<void>((resolve) => engine.world.clock.after(50, resolve));
      return before;
    };
    Object.assign(engine.world, { store: around(store, { counts }) });
    const { got } = await waiting(harness, engine, [{}]);
    await harness.pass(100);
    expect(got).toEqual([id]);
  });

  test("does not wake waiters of other tenants and topics; wakes cross-tenant waiters", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const { got } = await waiting(harness, engine, [{ org: "acme" }, { topics: ["u"] }, { topics: ["u", "job.t"] }]);
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(100);
    expect(got).toEqual([undefined, undefined, id]);
    const { got: next } = await waiting(harness, engine, [{ org: "*" }]);
    const other = idOf(await harness.admit(engine, { topic: "t", org: "birch" }));
    await harness.pass(100);
    expect(next).toEqual([other]);
  });

  test("a burst wakes every waiter", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const { got } = await waiting(
      harness,
      engine,
      Array.from({ length: 20 }, () => ({})),
    );
    const ids = await Promise.all(
      Array.from({ length: 20 }, async () => idOf(await harness.admit(engine, { topic: "t" }))),
    );
    await harness.pass(200);
    expect([...got].sort()).toEqual(ids.sort());
  });
});

describe("polling", () => {
  test("reads only the topics of the request", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    for (let index = 0; index < 20; index++) await harness.admit(engine, { topic: `other.${index}` });
    await harness.pass(100);
    const read = watchCounts(engine);
    expect(await harness.run(leaseJobs(engine, request({ topics: ["t", "job.u"], waitMs: 0 })))).toEqual([]);
    const own = read.filter((group) => !group.startsWith("backlog/other."));
    expect(own).not.toContain(BACKLOG_GROUP);
    expect(new Set(own)).toEqual(new Set(["backlog/t", "backlog/job.t", "backlog/u", "backlog/job.u"]));
  });
});
