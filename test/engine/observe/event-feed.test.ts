import { expect, test } from "vitest";
import type { JobUpdate, RunUpdate } from "../../../src/engine/observe/event-feed.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { EVENTS } from "../../../src/protocol/subjects.ts";
import { Harness, idOf } from "../harness.ts";

const states = (notices: readonly JobUpdate[], jobId: string) =>
  notices.filter((notice) => notice.jobId === jobId).map((notice) => notice.state);

test("listeners hear of every change of a job, in the process that made it and in others", async () => {
  const harness = new Harness();
  const { engine: a } = await harness.control("a");
  const { engine: b } = await harness.control("b");
  const [here, there]: [JobUpdate[], JobUpdate[]] = [[], []];
  a.events.subscribe((notice) => here.push(notice));
  b.events.subscribe((notice) => there.push(notice));
  await harness.pass(100);
  const jobId = idOf(await harness.admit(a, { topic: "demo.echo", org: "acme" }));
  expect(states(here, jobId).length).toBeGreaterThan(0); // At once: no time has passed since the commit.
  await harness.pass(1_000);
  expect(new Set(states(there, jobId))).toEqual(new Set(states(here, jobId)));
  expect(there[0]).toEqual({ org: "acme", jobId, topic: "demo.echo", state: "DISPATCHED", atMs: expect.any(Number) });
});

test("the changes of one tick are one packet, and a process hears its own once", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const packets: Packet[] = [];
  const own: JobUpdate[] = [];
  await harness.run(harness.engine("watcher").world.bus.subscribe(EVENTS, (packet) => packets.push(packet)));
  engine.events.subscribe((notice) => own.push(notice));
  await harness.pass(100);
  const admit = (jobId: string) => harness.admit(engine, { topic: "danger.x", jobId });
  // Three commits that are answered at the same moment.
  const puts = (id: string) => [{ table: "job", value: { id, org: "o", topic: "t", state: "PENDING", updatedMs: 1 } }];
  for (const id of ["1", "2", "3"]) engine.events.record(puts(id) as never);
  await harness.pass(100);
  expect(packets).toHaveLength(1);
  expect(own.map(({ jobId }) => jobId)).toEqual(["1", "2", "3"]);
  await admit("4");
  await harness.pass(100);
  expect(own.filter(({ jobId }) => jobId === "4")).toHaveLength(1);
});

test("what does not fit into a packet is left out of it, and counted; this process hears all", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const other = harness.engine("b");
  const [here, there]: [JobUpdate[], JobUpdate[]] = [[], []];
  engine.events.subscribe((notice) => here.push(notice));
  other.events.subscribe((notice) => there.push(notice));
  await harness.pass(100);
  const job = { id: "x", org: "o".repeat(64), topic: "t".repeat(128), state: "PENDING", updatedMs: 1 };
  for (let at = 0; at < 700; at++) engine.events.record([{ table: "job", value: job }] as never);
  await harness.pass(100);
  expect(here).toHaveLength(700);
  expect(there).toHaveLength(500);
});

test("runs are told, too, here and in other processes, whatever the number of their jobs", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const other = harness.engine("b");
  const [here, there]: [RunUpdate[], RunUpdate[]] = [[], []];
  const packets: Packet[] = [];
  await harness.run(harness.engine("watcher").world.bus.subscribe(EVENTS, (packet) => packets.push(packet)));
  engine.events.subscribeRuns((notice) => here.push(notice));
  const stop = other.events.subscribeRuns((notice) => there.push(notice));
  await harness.pass(100);
  const job = { id: "r1:s@1", org: "acme", topic: "t", state: "PENDING", updatedMs: 1 };
  const run = { id: "r1", org: "acme", workflowId: "order", state: "RUNNING", updatedMs: 2, steps: {}, labels: {} };
  const jobs = Array.from({ length: 600 }, () => ({ table: "job", value: job }));
  engine.events.record([...jobs, { table: "run", value: run }, { table: "run", value: null }] as never);
  await harness.pass(100);
  const told = { org: "acme", runId: "r1", workflowId: "order", state: "RUNNING", atMs: 2 };
  expect(here).toEqual([told]);
  expect(there).toEqual([told]);
  expect(packets).toHaveLength(1);
  for (let at = 0; at < 300; at++) engine.events.record([{ table: "run", value: run }] as never);
  await harness.pass(100);
  expect(there).toHaveLength(201);
  stop();
  engine.events.record([{ table: "run", value: run }] as never);
  await harness.pass(100);
  expect(there).toHaveLength(201);
});

test("a packet without runs looks as it did before there were any: older processes read it", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const packets: Packet[] = [];
  await harness.run(harness.engine("watcher").world.bus.subscribe(EVENTS, (packet) => packets.push(packet)));
  await harness.pass(100);
  const job = { id: "j", org: "o", topic: "t", state: "PENDING", updatedMs: 1 };
  engine.events.record([{ table: "job", value: job }] as never);
  await harness.pass(100);
  const details = { jobs: '[["o","j","t","PENDING",1]]', left_out: "0" };
  expect(packets.map(({ body }) => (body.kind === "alert" ? body.details : null))).toEqual([details]);
});

test("a process in which nobody started it tells nobody; a listener that left hears nothing", async () => {
  const harness = new Harness();
  const quiet = harness.engine("quiet");
  const packets: Packet[] = [];
  await harness.run(harness.engine("watcher").world.bus.subscribe(EVENTS, (packet) => packets.push(packet)));
  const heard: JobUpdate[] = [];
  const stop = quiet.events.subscribe((notice) => heard.push(notice));
  await harness.admit(quiet, { topic: "demo.echo" });
  const before = heard.length;
  stop();
  await harness.admit(quiet, { topic: "demo.echo" });
  await harness.pass(100);
  expect(before).toBeGreaterThan(0);
  expect(heard).toHaveLength(before);
  expect(packets).toEqual([]);
});

test("a listener that throws, and a packet that is not ours, disturb nobody", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("a");
  const heard: JobUpdate[] = [];
  engine.events.subscribe(() => {
    throw new Error("a bug of the listener");
  });
  engine.events.subscribe((notice) => heard.push(notice));
  await harness.pass(100);
  const stranger = harness.engine("stranger");
  const runs: RunUpdate[] = [];
  engine.events.subscribeRuns((notice) => runs.push(notice));
  for (const rows of ["", "{", "{}", "[1]", '[["a"]]', '[["o","j","t",7,1]]']) {
    const details = { jobs: rows, runs: rows };
    const body = { kind: "alert", level: "INFO", message: "", code: "jobs.changed", details } as const;
    stranger.world.bus.broadcast(EVENTS, { traceId: "", senderId: "stranger", createdAtMs: 0, body });
  }
  await harness.pass(100);
  expect(heard).toEqual([]);
  expect(runs).toEqual([]);
  const jobId = idOf(await harness.admit(engine, { topic: "demo.echo" }));
  expect(states(heard, jobId).length).toBeGreaterThan(0);
});
