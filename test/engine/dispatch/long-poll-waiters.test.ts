import { describe, expect, test } from "vitest";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { BACKLOG_GROUP } from "../../../src/core/model/job.ts";
import { type LeaseWish, lease } from "../../../src/engine/dispatch/lease-jobs.ts";
import { type Bell, Bells } from "../../../src/engine/dispatch/long-poll-waiters.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { admit } from "../../../src/engine/intake/admit-job.ts";
import type { NoticeListener, Notices } from "../../../src/engine/observe/event-feed.ts";
import type { Store } from "../../../src/ports/store.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { idOf, Plant } from "../harness.ts";

const wish = (facts: Partial<LeaseWish> = {}): LeaseWish => ({
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
function watchCounts(flow: Flow): string[] {
  const read: string[] = [];
  const { store } = flow.world;
  const counts: Store["counts"] = (group, limit) => {
    read.push(group);
    return store.counts(group, limit);
  };
  Object.assign(flow.world, { store: around(store, { counts }) });
  return read;
}

/** Workers that wait, and have all just looked in vain: none looks again by itself while a moment passes. */
async function waiting(plant: Plant, flow: Flow, wishes: readonly Partial<LeaseWish>[]) {
  const got: (string | undefined)[] = wishes.map(() => undefined);
  const all = wishes.map(async (facts, at) => {
    const [job] = await lease(flow, wish({ workerId: `h${at}`, ...facts }));
    got[at] = job?.id;
  });
  await plant.pass(100);
  return { got, all: Promise.all(all) };
}

describe("who waits for work", () => {
  test("is woken one for each job, not all of them for every job", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const { got } = await waiting(
      plant,
      flow,
      Array.from({ length: 30 }, () => ({})),
    );
    const read = watchCounts(flow);
    const ids = [idOf(await plant.admit(flow, { topic: "t" })), idOf(await plant.admit(flow, { topic: "t" }))];
    await plant.pass(100);
    expect(got.filter((id) => id !== undefined).sort()).toEqual(ids.sort());
    expect(read.filter((group) => group === "backlog/t").length).toBeLessThan(15);
  });

  test("the only one of many that can do the job gets it at once", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const able = { capabilities: ["gpu"] };
    const { got } = await waiting(plant, flow, [...Array.from({ length: 10 }, () => ({})), able]);
    const id = idOf(await plant.admit(flow, { topic: "t", requires: ["gpu"] }));
    await plant.pass(100);
    expect(got.at(-1)).toBe(id);
  });

  test("one that has gone when it is woken leaves the job to the next", async () => {
    const plant = new Plant();
    const { world } = plant.flow("c1");
    let tell: NoticeListener = () => {};
    const listen = (listener: NoticeListener) => {
      tell = listener;
      return () => {};
    };
    const bells = new Bells(world, { listen } as Notices);
    const [first, second] = [bells.hang(wish()), bells.hang(wish())];
    const woken: string[] = [];
    const wait = (name: string, bell: Bell) => {
      bell.look();
      return bell.rings(50_000).then(() => woken.push(name));
    };
    const waits = [wait("first", first), wait("second", second)];
    tell({ org: "default", jobId: "j", topic: "t", state: "SCHEDULED", atMs: 0 });
    await waits[0];
    expect(woken).toEqual(["first"]);
    first.look();
    first.stop();
    await waits[1];
    expect(woken).toEqual(["first", "second"]);
    second.stop();
  });

  test("a job that none of them can have is looked at once by each", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    await waiting(
      plant,
      flow,
      Array.from({ length: 5 }, () => ({})),
    );
    const able = { id: "able", transport: "http", org: "default", topics: ["t"], capabilities: ["gpu"] } as const;
    flow.roster.hear(able, flow.world.clock.now());
    const read = watchCounts(flow);
    await plant.admit(flow, { topic: "t", requires: ["gpu"] });
    await plant.pass(200);
    const looks = read.filter((group) => group === "backlog/job.t").length;
    expect(looks).toBeGreaterThanOrEqual(5);
    expect(looks).toBeLessThanOrEqual(10);
  });

  test("one that is looking when the job comes looks again at once", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const { store } = flow.world;
    let id: string | null = null;
    const counts: Store["counts"] = async (group, limit) => {
      const before = await store.counts(group, limit);
      if (group !== "backlog/t" || id !== null) return before;
      id = "";
      id = idOf(await admit(flow, submitted()));
      await new Promise<void>((resolve) => flow.world.clock.after(50, resolve));
      return before;
    };
    Object.assign(flow.world, { store: around(store, { counts }) });
    const { got } = await waiting(plant, flow, [{}]);
    await plant.pass(100);
    expect(got).toEqual([id]);
  });

  test("those of other tenants and topics sleep on; one of every tenant does not", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const { got } = await waiting(plant, flow, [{ org: "acme" }, { topics: ["u"] }, { topics: ["u", "job.t"] }]);
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(100);
    expect(got).toEqual([undefined, undefined, id]);
    const { got: next } = await waiting(plant, flow, [{ org: "*" }]);
    const other = idOf(await plant.admit(flow, { topic: "t", org: "birch" }));
    await plant.pass(100);
    expect(next).toEqual([other]);
  });

  test("a burst finds everybody who waits", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const { got } = await waiting(
      plant,
      flow,
      Array.from({ length: 20 }, () => ({})),
    );
    const ids = await Promise.all(
      Array.from({ length: 20 }, async () => idOf(await plant.admit(flow, { topic: "t" }))),
    );
    await plant.pass(200);
    expect([...got].sort()).toEqual(ids.sort());
  });
});

describe("looking for work", () => {
  test("asks for the topics that it takes from alone, and for little while there is nothing", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    for (let index = 0; index < 20; index++) await plant.admit(flow, { topic: `other.${index}` });
    await plant.pass(100);
    const read = watchCounts(flow);
    expect(await plant.run(lease(flow, wish({ topics: ["t", "job.u"], waitMs: 0 })))).toEqual([]);
    const own = read.filter((group) => !group.startsWith("backlog/other."));
    expect(own).not.toContain(BACKLOG_GROUP);
    expect(new Set(own)).toEqual(new Set(["backlog/t", "backlog/job.t", "backlog/u", "backlog/job.u"]));
  });
});
