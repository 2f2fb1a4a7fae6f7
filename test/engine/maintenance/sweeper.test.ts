import { expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { PARKED, PARKED_GROUP } from "../../../src/core/model/parked-message.ts";
import { deliver } from "../../../src/engine/delivery/deliver-message.ts";
import { wake } from "../../../src/engine/maintenance/due-timers.ts";
import { Sweeper } from "../../../src/engine/maintenance/sweeper.ts";
import { type Due, put } from "../../../src/ports/store.ts";
import { toBase64 } from "../../../src/protocol/base64.ts";
import { encodePacket } from "../../../src/protocol/codec.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { idOf, Plant } from "../harness.ts";

const base64 = toBase64(
  encodePacket({ traceId: "t", senderId: "s", createdAtMs: 1, body: { kind: "alert", level: "info", message: "m" } }),
);

function parkMany(plant: Plant, count: number, dueMs: (index: number) => number): void {
  for (let index = 0; index < count; index++) {
    const parked = {
      subject: RESULT,
      messageId: `m${index}`,
      base64,
      retryClass: "unclassified",
      reason: "",
      parkedMs: 0,
      dueMs: dueMs(index),
    } as const;
    plant.bench.net.store.commit({
      org: "o",
      atMs: 0,
      puts: [put(PARKED, `p${index}`, null, parked)],
      guards: [],
      sends: [],
      watch: [],
    });
  }
}

test("a sweep goes on until nothing is due: 20,000 timers of one instant, not one batch a second", async () => {
  const plant = new Plant();
  const flow = plant.flow("c1");
  const nowMs = flow.world.clock.now();
  parkMany(plant, 20_000, () => nowMs);
  const sweeper = new Sweeper(flow);
  await plant.run(sweeper.sweep().then(() => sweeper.settled()));
  expect((await plant.run(flow.world.store.counts(PARKED_GROUP, 9))).get("unclassified") ?? 0).toBe(0);
  // One sweep, in virtual seconds: twenty batches, each a few round trips.
  expect(flow.world.clock.now() - nowMs).toBeLessThan(5_000);
}, 120_000);

test("what is due soon is claimed a few at a time, what is late in whole batches", async () => {
  const plant = new Plant();
  const flow = plant.flow("c1");
  const nowMs = flow.world.clock.now();
  const { horizonMs } = flow.settings.current.sweep;
  parkMany(plant, 3_000, (index) => (index < 2_000 ? nowMs : nowMs + horizonMs / 2 + (index % 50)));
  const claimed: { readonly late: number; readonly ahead: number }[] = [];
  const due = async (query: Parameters<typeof flow.world.store.due>[0]) => {
    const items = await flow.world.store.due(query);
    const late = items.filter(({ dueMs }) => dueMs <= query.nowMs).length;
    claimed.push({ late, ahead: items.length - late });
    return items;
  };
  const sweeper = new Sweeper({ ...flow, world: { ...flow.world, store: around(flow.world.store, { due }) } });
  await plant.run(sweeper.sweep());
  expect(claimed.reduce((sum, { ahead }) => sum + ahead, 0)).toBe(1_000);
  expect(claimed.filter(({ late }) => late > 0).length).toBeLessThan(5);
  // The one that finds out that the rest is ahead is still a large one.
  expect(claimed.filter(({ late, ahead }) => late === 0 && ahead > 100)).toEqual([]);
  await plant.pass(horizonMs);
  expect((await plant.run(flow.world.store.counts(PARKED_GROUP, 9))).get("unclassified") ?? 0).toBe(0);
});

test("L20: health is progress: a sweep that fails does not count as one", async () => {
  const plant = new Plant();
  const flow = plant.flow("c1");
  const sweeper = new Sweeper(flow);
  const before = sweeper.sweptMs;
  await plant.pass(5_000);
  const broken = {
    ...flow,
    world: { ...flow.world, store: around(flow.world.store, { counts: () => Promise.reject("away") }) },
  };
  const failing = new Sweeper(broken as never);
  await plant.run(failing.sweep());
  expect(failing.sweptMs).toBe(before + 5_000);
  await plant.pass(5_000);
  await plant.run(failing.sweep());
  expect(failing.sweptMs).toBe(before + 5_000);
  await plant.run(sweeper.sweep());
  expect(sweeper.sweptMs).toBeGreaterThan(before + 9_000);
});

test("L18: a record whose waker fails is claimed again when its lease ends", async () => {
  const plant = new Plant();
  const flow = plant.flow("c1");
  const delivery = { id: "m", subject: RESULT, attempt: 1 };
  const station = {
    name: "t",
    about: () => "",
    handle: () => Promise.reject(Object.assign(new Error("x"), { retryDelayMs: 5_000 })),
  };
  const content = {
    kind: "packet",
    packet: { traceId: "t", senderId: "s", createdAtMs: 1, body: { kind: "alert", level: "l", message: "m" } },
  } as const;
  await plant.run(deliver(flow, station)({ ...delivery, content }));
  await plant.pass(5_000);
  const { store } = flow.world;
  const away = {
    ...flow,
    world: { ...flow.world, store: around(store, { commit: () => Promise.reject("away") }) },
  };
  const failing = new Sweeper(away as never);
  await plant.run(failing.sweep().then(() => failing.settled()));
  expect((await plant.run(store.counts(PARKED_GROUP, 9))).size).toBe(1);
  await plant.pass(10_001);
  const sweeper = new Sweeper(flow);
  await plant.run(sweeper.sweep().then(() => sweeper.settled()));
  expect((await plant.run(store.counts(PARKED_GROUP, 9))).size).toBe(0);
});

test("a job whose removal does not count keeps its payloads; one that is removed takes them along", async () => {
  const { limits, retention } = defaultSettings();
  const plant = new Plant({ limits: { ...limits, inlineBytesMax: 10 } });
  const flow = plant.flow("c1");
  const admitted = await plant.admit(flow, { topic: "danger.rm", input: "x".repeat(100) });
  const id = idOf(admitted);
  const { input } = await plant.job(id);
  const ptr = input.kind === "pointer" ? input.ptr : "";
  await plant.pass(retention.jobsMs + 1_000);
  const { store, blobs } = flow.world;
  const found = plant.bench.net.store.load(JOBS, id);
  const due = { ...found, table: JOBS.name, dueMs: found?.value.dueMs } as Due;
  const stale = async () => ({ kind: "stale", table: JOBS.name, id });
  await plant.run(wake({ ...flow, world: { ...flow.world, store: around(store, { commit: stale }) } }, due));
  expect(await plant.run(blobs.get(ptr))).not.toBeNull();
  await plant.run(wake(flow, due));
  expect(plant.bench.net.store.load(JOBS, id)).toBeNull();
  expect(await plant.run(blobs.get(ptr))).toBeNull();
});

test("L20: a sweep ends while a topic drains without pause", async () => {
  const plant = new Plant();
  const flow = plant.flow("c1");
  const { store } = flow.world;
  flow.desk.drainOnce("t", () => new Promise(() => {}));
  const busy = {
    ...flow,
    world: { ...flow.world, store: around(store, { counts: async () => new Map([["t", 1]]) }) },
  };
  const sweeper = new Sweeper(busy as never);
  await plant.pass(100);
  const before = sweeper.sweptMs;
  await plant.pass(100);
  await plant.run(sweeper.sweep());
  expect(sweeper.sweptMs).toBeGreaterThan(before);
});

test("L40: one message that cannot be sent does not keep the others in the outbox", async () => {
  const plant = new Plant();
  const flow = plant.flow("c1");
  const nowMs = flow.world.clock.now();
  const packet = {
    traceId: "t",
    senderId: "s",
    createdAtMs: 1,
    body: { kind: "alert", level: "l", message: "m" },
  } as const;
  const sends = ["bad", "good"].map((id) => ({ id, subject: RESULT, packet }));
  plant.bench.net.store.commit({ org: "o", atMs: nowMs - 60_000, puts: [], guards: [], sends, watch: [] });
  const { bus } = flow.world;
  const publish = (message: { id: string }) =>
    message.id === "bad" ? Promise.reject(new Error("unreadable")) : bus.publish(message as never);
  const picky = { ...flow, world: { ...flow.world, bus: around(bus, { publish }) } };
  await plant.run(new Sweeper(picky as never).sweep());
  const left = await plant.run(flow.world.store.unsent(nowMs, 10));
  expect(left.map(({ id }) => id)).toEqual(["bad"]);
});

test("sweepers that were held up together do not sweep at the same instants ever after", async () => {
  const plant = new Plant();
  const names = ["c1", "c2", "c3"];
  const sweeps = names.map((name) => {
    const flow = plant.flow(name);
    const times: number[] = [];
    const due = (query: Parameters<typeof flow.world.store.due>[0]) => {
      times.push(plant.bench.net.timeline.nowMs);
      return flow.world.store.due(query);
    };
    new Sweeper({ ...flow, world: { ...flow.world, store: around(flow.world.store, { due }) } }).start();
    return times;
  });
  await plant.pass(5_000);
  for (const name of names) plant.process(name).pause();
  await plant.pass(3_000);
  for (const name of names) plant.process(name).resume();
  await plant.pass(60_000);
  const [first = [], ...others] = sweeps;
  expect(first.length).toBeGreaterThan(50);
  const isNear = (atMs: number) => (times: readonly number[]) => times.some((other) => Math.abs(other - atMs) < 30);
  expect(first.filter((atMs) => others.every(isNear(atMs))).length).toBeLessThan(10);
});
