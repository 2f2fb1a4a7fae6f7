import { expect, test } from "vitest";
import type { JobUpdate, RunUpdate } from "../../../src/engine/observe/event-feed.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { EVENTS } from "../../../src/protocol/subjects.ts";
import { Harness, idOf } from "../harness.ts";

const states = (updates: readonly JobUpdate[], jobId: string) =>
  updates.filter((update) => update.jobId === jobId).map((update) => update.state);

test("subscribers receive every job update, in the same process and in others", async () => {
  const harness = new Harness();
  const { engine: a } = await harness.control("a");
  const { engine: b } = await harness.control("b");
  const [here, there]: [JobUpdate[], JobUpdate[]] = [[], []];
  a.events.subscribe((update) => here.push(update));
  b.events.subscribe((update) => there.push(update));
  await harness.pass(100);
  const jobId = idOf(await harness.admit(a, { topic: "demo.echo", org: "acme" }));
  expect(states(here, jobId).length).toBeGreaterThan(0); // Without any time passing since the commit.
  await harness.pass(1_000);
  expect(new Set(states(there, jobId))).toEqual(new Set(states(here, jobId)));
  expect(there[0]).toEqual({
    org: "acme",
    jobId,
    topic: "demo.echo",
    state: "DISPATCHED",
    atMs: expect.any(Number),
    version: 1,
  });
});

test("broadcasts the updates of one tick as one packet, and a process receives its own once", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const packets: Packet[] = [];
  const own: JobUpdate[] = [];
  await harness.run(harness.engine("watcher").world.bus.subscribe(EVENTS, (packet) => packets.push(packet)));
  engine.events.subscribe((update) => own.push(update));
  await harness.pass(100);
  const admit = (jobId: string) => harness.admit(engine, { topic: "danger.x", jobId });
  // Three commits answered in the same tick.
  const puts = (id: string) => [{ table: "job", value: { id, org: "o", topic: "t", state: "PENDING", updatedMs: 1 } }];
  for (const id of ["1", "2", "3"]) engine.events.record(puts(id) as never);
  await harness.pass(100);
  expect(packets).toHaveLength(1);
  expect(own.map(({ jobId }) => jobId)).toEqual(["1", "2", "3"]);
  await admit("4");
  await harness.pass(100);
  expect(own.filter(({ jobId }) => jobId === "4")).toHaveLength(1);
});

test("drops and counts updates that do not fit into a packet; local subscribers receive all", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const other = harness.engine("b");
  const [here, there]: [JobUpdate[], JobUpdate[]] = [[], []];
  engine.events.subscribe((update) => here.push(update));
  other.events.subscribe((update) => there.push(update));
  await harness.pass(100);
  const job = { id: "x", org: "o".repeat(64), topic: "t".repeat(128), state: "PENDING", updatedMs: 1 };
  for (let at = 0; at < 700; at++) engine.events.record([{ table: "job", value: job }] as never);
  await harness.pass(100);
  expect(here).toHaveLength(700);
  expect(there).toHaveLength(500);
});

test("also broadcasts run updates, whatever the number of job updates", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const other = harness.engine("b");
  const [here, there]: [RunUpdate[], RunUpdate[]] = [[], []];
  const packets: Packet[] = [];
  await harness.run(harness.engine("watcher").world.bus.subscribe(EVENTS, (packet) => packets.push(packet)));
  engine.events.subscribeRuns((update) => here.push(update));
  const stop = other.events.subscribeRuns((update) => there.push(update));
  await harness.pass(100);
  const job = { id: "r1:s@1", org: "acme", topic: "t", state: "PENDING", updatedMs: 1 };
  const run = { id: "r1", org: "acme", workflowId: "order", state: "RUNNING", updatedMs: 2, steps: {}, labels: {} };
  const jobs = Array.from({ length: 600 }, () => ({ table: "job", value: job }));
  engine.events.record([...jobs, { table: "run", value: run }, { table: "run", value: null }] as never);
  await harness.pass(100);
  const expected = { org: "acme", runId: "r1", workflowId: "order", state: "RUNNING", atMs: 2, version: 1 };
  expect(here).toEqual([expected]);
  expect(there).toEqual([expected]);
  expect(packets).toHaveLength(1);
  for (let at = 0; at < 300; at++) engine.events.record([{ table: "run", value: run }] as never);
  await harness.pass(100);
  expect(there).toHaveLength(201);
  stop();
  engine.events.record([{ table: "run", value: run }] as never);
  await harness.pass(100);
  expect(there).toHaveLength(201);
});

test("a packet without run updates keeps the format that older processes read", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const packets: Packet[] = [];
  await harness.run(harness.engine("watcher").world.bus.subscribe(EVENTS, (packet) => packets.push(packet)));
  await harness.pass(100);
  const job = { id: "j", org: "o", topic: "t", state: "PENDING", updatedMs: 1 };
  engine.events.record([{ table: "job", value: job, expect: 7 }] as never);
  await harness.pass(100);
  // Older processes read the first five fields of a row.
  const details = { jobs: '[["o","j","t","PENDING",1,8]]', left_out: "0" };
  expect(packets.map(({ body }) => (body.kind === "alert" ? body.details : null))).toEqual([details]);
});

test("a feed that is not started broadcasts nothing; an unsubscribed listener receives nothing", async () => {
  const harness = new Harness();
  const notStarted = harness.engine("quiet");
  const packets: Packet[] = [];
  await harness.run(harness.engine("watcher").world.bus.subscribe(EVENTS, (packet) => packets.push(packet)));
  const received: JobUpdate[] = [];
  const stop = notStarted.events.subscribe((update) => received.push(update));
  await harness.admit(notStarted, { topic: "demo.echo" });
  const before = received.length;
  stop();
  await harness.admit(notStarted, { topic: "demo.echo" });
  await harness.pass(100);
  expect(before).toBeGreaterThan(0);
  expect(received).toHaveLength(before);
  expect(packets).toEqual([]);
});

test("ignores malformed packets and isolates listeners that throw", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const received: JobUpdate[] = [];
  engine.events.subscribe(() => {
    throw new Error("listener failed");
  });
  engine.events.subscribe((update) => received.push(update));
  await harness.pass(100);
  const foreign = harness.engine("stranger");
  const runs: RunUpdate[] = [];
  engine.events.subscribeRuns((update) => runs.push(update));
  for (const rows of ["", "{", "{}", "[1]", '[["a"]]', '[["o","j","t",7,1]]']) {
    const details = { jobs: rows, runs: rows };
    const body = { kind: "alert", level: "INFO", message: "", code: "jobs.changed", details } as const;
    foreign.world.bus.broadcast(EVENTS, { traceId: "", senderId: "stranger", createdAtMs: 0, body });
  }
  await harness.pass(100);
  expect(received).toEqual([]);
  expect(runs).toEqual([]);
  const jobId = idOf(await harness.admit(engine, { topic: "demo.echo" }));
  expect(states(received, jobId).length).toBeGreaterThan(0);
});
