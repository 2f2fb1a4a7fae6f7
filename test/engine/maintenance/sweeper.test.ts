import { expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { RESERVATIONS } from "../../../src/core/jobs/idempotency.ts";
import { AUDIT_PENDING, AUDIT_PENDING_GROUP } from "../../../src/core/model/audit.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { PARKED, PARKED_GROUP } from "../../../src/core/model/parked-message.ts";
import { deliverTo } from "../../../src/engine/delivery/deliver-message.ts";
import { composeEngine } from "../../../src/engine/engine.ts";
import { onDue } from "../../../src/engine/maintenance/due-timers.ts";
import { Sweeper } from "../../../src/engine/maintenance/sweeper.ts";
import { type Due, put } from "../../../src/ports/store.ts";
import { toBase64 } from "../../../src/protocol/base64.ts";
import { encodePacket } from "../../../src/protocol/codec.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness, idOf } from "../harness.ts";

const base64 = toBase64(
  encodePacket({ traceId: "t", senderId: "s", createdAtMs: 1, body: { kind: "alert", level: "info", message: "m" } }),
);

function parkMany(harness: Harness, count: number, dueMs: (index: number) => number): void {
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
    harness.sim.net.store.commit({
      org: "o",
      atMs: 0,
      puts: [put(PARKED, `p${index}`, null, parked)],
      guards: [],
      sends: [],
      watch: [],
    });
  }
}

test("a sweep continues until nothing is due: 20,000 timers of one instant", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const nowMs = engine.world.clock.now();
  parkMany(harness, 20_000, () => nowMs);
  const sweeper = new Sweeper(engine);
  await harness.run(sweeper.sweep().then(() => sweeper.settled()));
  expect((await harness.run(engine.world.store.counts(PARKED_GROUP, 9))).get("unclassified") ?? 0).toBe(0);
  // Virtual time of one sweep: twenty batches of a few round trips.
  expect(engine.world.clock.now() - nowMs).toBeLessThan(5_000);
}, 120_000);

test("claims timers ahead of time in small batches and overdue ones in full batches", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const nowMs = engine.world.clock.now();
  const { horizonMs } = engine.settings.current.sweep;
  parkMany(harness, 3_000, (index) => (index < 2_000 ? nowMs : nowMs + horizonMs / 2 + (index % 50)));
  const claimed: { readonly late: number; readonly ahead: number }[] = [];
  const due = async (query: Parameters<typeof engine.world.store.due>[0]) => {
    const items = await engine.world.store.due(query);
    const late = items.filter(({ dueMs }) => dueMs <= query.nowMs).length;
    claimed.push({ late, ahead: items.length - late });
    return items;
  };
  const sweeper = new Sweeper(
    composeEngine({ ...engine, world: { ...engine.world, store: around(engine.world.store, { due }) } }),
  );
  await harness.run(sweeper.sweep());
  expect(claimed.reduce((sum, { ahead }) => sum + ahead, 0)).toBe(1_000);
  expect(claimed.filter(({ late }) => late > 0).length).toBeLessThan(5);
  // Only the batch that reaches the timers ahead of time is large.
  expect(claimed.filter(({ late, ahead }) => late === 0 && ahead > 100)).toEqual([]);
  await harness.pass(horizonMs);
  expect((await harness.run(engine.world.store.counts(PARKED_GROUP, 9))).get("unclassified") ?? 0).toBe(0);
});

test("L20: health is progress: a loop that only fails is late, the others are not", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  let isUnavailable = true;
  const unsent = (...args: Parameters<typeof engine.world.store.unsent>) =>
    isUnavailable ? Promise.reject(new Error("unavailable")) : engine.world.store.unsent(...args);
  const sweeper = new Sweeper(
    composeEngine({ ...engine, world: { ...engine.world, store: around(engine.world.store, { unsent }) } }),
  );
  sweeper.start();
  const late = () => sweeper.duties().flatMap((duty) => duty.late ?? []);
  await harness.pass(15_500);
  expect(late()).toEqual([]);
  await harness.pass(1_000);
  expect(late()).toEqual([expect.stringMatching(/^the outbox loop is 15\d\d\d ms behind \(limit 15000 ms\)/)]);
  expect(sweeper.duties().filter(({ lagMs }) => lagMs > 1_000)).toMatchObject([{ name: "outbox" }]);
  isUnavailable = false;
  await harness.pass(1_000);
  expect(late()).toEqual([]);
});

test("L20: due work fires in time while the audit chain never catches up", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const { net } = harness.sim;
  let nextId = 0;
  const arrive = () => {
    const id = `acme/${String(nextId++).padStart(9, "0")}`;
    const line = { at: engine.world.clock.now(), kind: "decision", who: "w", what: "allow" } as const;
    const change = put(AUDIT_PENDING, id, null, { org: "acme", lines: [line] });
    net.store.commit({ org: "acme", atMs: 0, puts: [change], guards: [], sends: [], watch: [] });
  };
  // Every read of pending entries finds more than it may return.
  const pending = () => net.store.counts(AUDIT_PENDING_GROUP, 9).get("acme") ?? 0;
  const list: typeof engine.world.store.list = async (table, query) => {
    if (table.name === AUDIT_PENDING.name) {
      while (pending() <= query.limit) arrive();
      await new Promise<void>((resolve) => engine.world.clock.after(100, resolve));
    }
    return engine.world.store.list(table, query);
  };
  const sweeper = new Sweeper(
    composeEngine({ ...engine, world: { ...engine.world, store: around(engine.world.store, { list }) } }),
  );
  arrive();
  sweeper.start();
  await harness.pass(3_000);
  const dueMs = engine.world.clock.now() + 2_500;
  parkMany(harness, 10, () => dueMs);
  await harness.pass(2_500);
  await harness.pass(50);
  expect(net.store.counts(PARKED_GROUP, 9).size).toBe(0);
  expect(pending()).toBeGreaterThan(0);
  expect(sweeper.duties().flatMap((duty) => duty.late ?? [])).toEqual([]);
});

test("many records past their retention do not delay leases and deadlines", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const nowMs = engine.world.clock.now();
  const reservation = { jobId: "j", traceId: "t", fingerprint: "f", dueMs: nowMs - 60_000 };
  // More than the queue of removals holds.
  const puts = Array.from({ length: 50_000 }, (_, n) => put(RESERVATIONS, `r${n}`, null, reservation));
  harness.sim.net.store.commit({ org: "o", atMs: 0, puts, guards: [], sends: [], watch: [] });
  parkMany(harness, 10, (index) => nowMs + 200 * index);
  // Removals hang: they must not use up the places of timers.
  const commit: typeof engine.world.store.commit = (change) =>
    change.puts.some(({ table }) => table === RESERVATIONS.name)
      ? new Promise(() => {})
      : engine.world.store.commit(change);
  const sweeper = new Sweeper(
    composeEngine({ ...engine, world: { ...engine.world, store: around(engine.world.store, { commit }) } }),
  );
  sweeper.start();
  for (let index = 0; index < 10; index++) {
    await harness.pass(index === 0 ? 1_000 : 200);
    expect(harness.sim.net.store.counts(PARKED_GROUP, 9).get("unclassified") ?? 0).toBeLessThan(10 - index);
  }
  expect(sweeper.duties().flatMap((duty) => duty.late ?? [])).toEqual([]);
});

test("removes all records past their retention, and fires old timers among them", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const nowMs = engine.world.clock.now();
  const reservation = { jobId: "j", traceId: "t", fingerprint: "f" };
  const puts = Array.from({ length: 30_000 }, (_, n) =>
    put(RESERVATIONS, `r${n}`, null, { ...reservation, dueMs: nowMs - 90_000 + 2 * n }),
  );
  harness.sim.net.store.commit({ org: "o", atMs: 0, puts, guards: [], sends: [], watch: [] });
  parkMany(harness, 100, (index) => nowMs - 80_000 + 300 * index);
  const sweeper = new Sweeper(engine);
  sweeper.start();
  const { store } = harness.sim.net;
  const left = () => puts.filter(({ id }) => store.load(RESERVATIONS, id) !== null).length;
  for (let second = 0; second < 120 && left() > 0; second++) await harness.pass(1_000);
  expect([left(), store.counts(PARKED_GROUP, 9).size]).toEqual([0, 0]);
}, 120_000);

test("fires what was claimed although the claim of older records fails", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  parkMany(harness, 10, () => engine.world.clock.now());
  const due: typeof engine.world.store.due = (query) =>
    query.fromMs === undefined ? Promise.reject(new Error("unavailable")) : engine.world.store.due(query);
  new Sweeper(
    composeEngine({ ...engine, world: { ...engine.world, store: around(engine.world.store, { due }) } }),
  ).start();
  await harness.pass(2_000);
  expect(harness.sim.net.store.counts(PARKED_GROUP, 9).size).toBe(0);
});

test("L18: a record whose handler fails is claimed again after its lease ends", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const delivery = { id: "m", subject: RESULT, attempt: 1 };
  const messageHandler = {
    name: "t",
    about: () => "",
    handle: () => Promise.reject(Object.assign(new Error("x"), { retryDelayMs: 5_000 })),
  };
  const content = {
    kind: "packet",
    packet: { traceId: "t", senderId: "s", createdAtMs: 1, body: { kind: "alert", level: "l", message: "m" } },
  } as const;
  await harness.run(deliverTo(engine, messageHandler)({ ...delivery, content }));
  await harness.pass(5_000);
  const { store } = engine.world;
  const unavailable = composeEngine({
    ...engine,
    world: { ...engine.world, store: around(store, { commit: () => Promise.reject("unavailable") }) },
  });
  const failing = new Sweeper(unavailable as never);
  await harness.run(failing.sweep().then(() => failing.settled()));
  expect((await harness.run(store.counts(PARKED_GROUP, 9))).size).toBe(1);
  await harness.pass(10_001);
  const sweeper = new Sweeper(engine);
  await harness.run(sweeper.sweep().then(() => sweeper.settled()));
  expect((await harness.run(store.counts(PARKED_GROUP, 9))).size).toBe(0);
});

test("keeps the payloads of a job whose removal is stale, and deletes them with the job", async () => {
  const { limits, retention } = defaultSettings();
  const harness = new Harness({ limits: { ...limits, inlineBytesMax: 10 } });
  const engine = harness.engine("c1");
  const admitted = await harness.admit(engine, { topic: "danger.rm", input: "x".repeat(100) });
  const id = idOf(admitted);
  const { input } = await harness.job(id);
  const ptr = input.kind === "pointer" ? input.ptr : "";
  await harness.pass(retention.jobsMs + 1_000);
  const { store, blobs } = engine.world;
  const found = harness.sim.net.store.load(JOBS, id);
  const due = { ...found, table: JOBS.name, dueMs: found?.value.dueMs } as Due;
  const stale = async () => ({ kind: "stale", table: JOBS.name, id });
  await harness.run(
    onDue(composeEngine({ ...engine, world: { ...engine.world, store: around(store, { commit: stale }) } }), due),
  );
  expect(await harness.run(blobs.get(ptr))).not.toBeNull();
  await harness.run(onDue(engine, due));
  expect(harness.sim.net.store.load(JOBS, id)).toBeNull();
  expect(await harness.run(blobs.get(ptr))).toBeNull();
});

test("L20: the loops stay in time while a topic drains without pause", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const { store } = engine.world;
  engine.tasks.runExclusive("t", () => new Promise(() => {}));
  const busy = composeEngine({
    ...engine,
    world: { ...engine.world, store: around(store, { counts: async () => new Map([["t", 1]]) }) },
  });
  const sweeper = new Sweeper(busy as never);
  sweeper.start();
  await harness.pass(20_000);
  expect(sweeper.duties().flatMap((duty) => duty.late ?? [])).toEqual([]);
});

test("L40: a message that cannot be sent does not block the rest of the outbox", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1");
  const nowMs = engine.world.clock.now();
  const packet = {
    traceId: "t",
    senderId: "s",
    createdAtMs: 1,
    body: { kind: "alert", level: "l", message: "m" },
  } as const;
  const sends = ["bad", "good"].map((id) => ({ id, subject: RESULT, packet }));
  harness.sim.net.store.commit({ org: "o", atMs: nowMs - 60_000, puts: [], guards: [], sends, watch: [] });
  const { bus } = engine.world;
  const publish = (message: { id: string }) =>
    message.id === "bad" ? Promise.reject(new Error("unreadable")) : bus.publish(message as never);
  const selective = composeEngine({ ...engine, world: { ...engine.world, bus: around(bus, { publish }) } });
  await harness.run(new Sweeper(selective as never).sweep());
  const left = await harness.run(engine.world.store.unsent(nowMs, 10));
  expect(left.map(({ id }) => id)).toEqual(["bad"]);
});

test("sweepers paused together do not stay in step afterwards", async () => {
  const harness = new Harness();
  const names = ["c1", "c2", "c3"];
  const sweeps = names.map((name) => {
    const engine = harness.engine(name);
    const times: number[] = [];
    const due = (query: Parameters<typeof engine.world.store.due>[0]) => {
      times.push(harness.sim.net.timeline.nowMs);
      return engine.world.store.due(query);
    };
    new Sweeper(
      composeEngine({ ...engine, world: { ...engine.world, store: around(engine.world.store, { due }) } }),
    ).start();
    return times;
  });
  await harness.pass(5_000);
  for (const name of names) harness.process(name).pause();
  await harness.pass(3_000);
  for (const name of names) harness.process(name).resume();
  await harness.pass(60_000);
  const [first = [], ...others] = sweeps;
  expect(first.length).toBeGreaterThan(50);
  const isNear = (atMs: number) => (times: readonly number[]) => times.some((other) => Math.abs(other - atMs) < 30);
  expect(first.filter((atMs) => others.every(isNear(atMs))).length).toBeLessThan(10);
});
