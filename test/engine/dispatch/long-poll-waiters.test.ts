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
import { Harness, idOf } from "../harness.ts";

const request = (facts: Partial<LeaseRequest> = {}): LeaseRequest => ({
  org: "default",
  workerId: "h",
  topics: ["t"],
  max: 1,
  waitMs: 50_000,
  signal: new AbortController().signal,
  ...facts,
});

function submitted() {
  const checked = checkSubmission({ topic: "t" });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}

/** The groups of counters that are read. */
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

/** Workers that wait, and have all just looked in vain: none looks again by itself while a moment passes. */
async function waiting(harness: Harness, engine: Engine, wishes: readonly Partial<LeaseRequest>[]) {
  const got: (string | undefined)[] = wishes.map(() => undefined);
  const all = wishes.map(async (facts, at) => {
    const [job] = await leaseJobs(engine, request({ workerId: `h${at}`, ...facts }));
    got[at] = job?.id;
  });
  await harness.pass(100);
  return { got, all: Promise.all(all) };
}

describe("who waits for work", () => {
  test("is woken one for each job, not all of them for every job", async () => {
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

  test("the only one of many that can do the job gets it at once", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const able = { capabilities: ["gpu"] };
    const { got } = await waiting(harness, engine, [...Array.from({ length: 10 }, () => ({})), able]);
    const id = idOf(await harness.admit(engine, { topic: "t", requires: ["gpu"] }));
    await harness.pass(100);
    expect(got.at(-1)).toBe(id);
  });

  test("one that has gone when it is woken leaves the job to the next", async () => {
    const harness = new Harness();
    const { world } = harness.engine("c1");
    let tell: JobUpdateListener = () => {};
    const listen = (listener: JobUpdateListener) => {
      tell = listener;
      return () => {};
    };
    const waiters = new LongPollWaiters(world, { subscribe: listen } as EventFeed);
    const [first, second] = [waiters.subscribe(request()), waiters.subscribe(request())];
    const woken: string[] = [];
    const wait = (name: string, waiter: Waiter) => {
      waiter.beginPoll();
      return waiter.wait(50_000).then(() => woken.push(name));
    };
    const waits = [wait("first", first), wait("second", second)];
    tell({ org: "default", jobId: "j", topic: "t", state: "SCHEDULED", atMs: 0 });
    await waits[0];
    expect(woken).toEqual(["first"]);
    first.beginPoll();
    first.stop();
    await waits[1];
    expect(woken).toEqual(["first", "second"]);
    second.stop();
  });

  test("a job that none of them can have is looked at once by each", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await waiting(
      harness,
      engine,
      Array.from({ length: 5 }, () => ({})),
    );
    const able = { id: "able", transport: "http", org: "default", topics: ["t"], capabilities: ["gpu"] } as const;
    engine.registry.record(able, engine.world.clock.now());
    const read = watchCounts(engine);
    await harness.admit(engine, { topic: "t", requires: ["gpu"] });
    await harness.pass(200);
    const looks = read.filter((group) => group === "backlog/job.t").length;
    expect(looks).toBeGreaterThanOrEqual(5);
    expect(looks).toBeLessThanOrEqual(10);
  });

  test("one that is looking when the job comes looks again at once", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const { store } = engine.world;
    let id: string | null = null;
    const counts: Store["counts"] = async (group, limit) => {
      const before = await store.counts(group, limit);
      if (group !== "backlog/t" || id !== null) return before;
      id = "";
      id = idOf(await admitJob(engine, submitted()));
      await new Promise<void>((resolve) => engine.world.clock.after(50, resolve));
      return before;
    };
    Object.assign(engine.world, { store: around(store, { counts }) });
    const { got } = await waiting(harness, engine, [{}]);
    await harness.pass(100);
    expect(got).toEqual([id]);
  });

  test("those of other tenants and topics sleep on; one of every tenant does not", async () => {
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

  test("a burst finds everybody who waits", async () => {
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

describe("looking for work", () => {
  test("asks for the topics that it takes from alone, and for little while there is nothing", async () => {
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
