import { expect, test } from "vitest";
import type { Notice } from "../../src/flow/notices.ts";
import type { Packet } from "../../src/wire/packet.ts";
import { EVENTS } from "../../src/wire/subjects.ts";
import { idOf, Plant } from "./plant.ts";

const states = (notices: readonly Notice[], jobId: string) =>
  notices.filter((notice) => notice.jobId === jobId).map((notice) => notice.state);

test("listeners hear of every change of a job, in the process that made it and in others", async () => {
  const plant = new Plant();
  const { flow: a } = await plant.control("a");
  const { flow: b } = await plant.control("b");
  const [here, there]: [Notice[], Notice[]] = [[], []];
  a.notices.listen((notice) => here.push(notice));
  b.notices.listen((notice) => there.push(notice));
  await plant.pass(100);
  const jobId = idOf(await plant.admit(a, { topic: "demo.echo", org: "acme" }));
  expect(states(here, jobId).length).toBeGreaterThan(0); // At once: no time has passed since the commit.
  await plant.pass(1_000);
  expect(new Set(states(there, jobId))).toEqual(new Set(states(here, jobId)));
  expect(there[0]).toEqual({ org: "acme", jobId, topic: "demo.echo", state: "DISPATCHED", atMs: expect.any(Number) });
});

test("the changes of one tick are one packet, and a process hears its own once", async () => {
  const plant = new Plant();
  const { flow } = await plant.control("a");
  const packets: Packet[] = [];
  const own: Notice[] = [];
  await plant.run(plant.flow("watcher").world.bus.listen(EVENTS, (packet) => packets.push(packet)));
  flow.notices.listen((notice) => own.push(notice));
  await plant.pass(100);
  const admit = (jobId: string) => plant.admit(flow, { topic: "danger.x", jobId });
  // Three commits that are answered at the same moment.
  const puts = (id: string) => [{ table: "job", value: { id, org: "o", topic: "t", state: "PENDING", updatedMs: 1 } }];
  for (const id of ["1", "2", "3"]) flow.notices.note(puts(id) as never);
  await plant.pass(100);
  expect(packets).toHaveLength(1);
  expect(own.map(({ jobId }) => jobId)).toEqual(["1", "2", "3"]);
  await admit("4");
  await plant.pass(100);
  expect(own.filter(({ jobId }) => jobId === "4")).toHaveLength(1);
});

test("what does not fit into a packet is left out of it, and counted; this process hears all", async () => {
  const plant = new Plant();
  const { flow } = await plant.control("a");
  const other = plant.flow("b");
  const [here, there]: [Notice[], Notice[]] = [[], []];
  flow.notices.listen((notice) => here.push(notice));
  other.notices.listen((notice) => there.push(notice));
  await plant.pass(100);
  const job = { id: "x", org: "o".repeat(64), topic: "t".repeat(128), state: "PENDING", updatedMs: 1 };
  for (let at = 0; at < 700; at++) flow.notices.note([{ table: "job", value: job }] as never);
  await plant.pass(100);
  expect(here).toHaveLength(700);
  expect(there).toHaveLength(500);
});

test("a process in which nobody started it tells nobody; a listener that left hears nothing", async () => {
  const plant = new Plant();
  const quiet = plant.flow("quiet");
  const packets: Packet[] = [];
  await plant.run(plant.flow("watcher").world.bus.listen(EVENTS, (packet) => packets.push(packet)));
  const heard: Notice[] = [];
  const stop = quiet.notices.listen((notice) => heard.push(notice));
  await plant.admit(quiet, { topic: "demo.echo" });
  const before = heard.length;
  stop();
  await plant.admit(quiet, { topic: "demo.echo" });
  await plant.pass(100);
  expect(before).toBeGreaterThan(0);
  expect(heard).toHaveLength(before);
  expect(packets).toEqual([]);
});

test("a listener that throws, and a packet that is not ours, disturb nobody", async () => {
  const plant = new Plant();
  const { flow } = await plant.control("a");
  const heard: Notice[] = [];
  flow.notices.listen(() => {
    throw new Error("a bug of the listener");
  });
  flow.notices.listen((notice) => heard.push(notice));
  await plant.pass(100);
  const stranger = plant.flow("stranger");
  for (const jobs of ["", "{", "{}", "[1]", '[["a"]]', '[["o","j","t",7,1]]']) {
    const body = { kind: "alert", level: "INFO", message: "", code: "jobs.changed", details: { jobs } } as const;
    stranger.world.bus.tell(EVENTS, { traceId: "", senderId: "stranger", createdAtMs: 0, body });
  }
  await plant.pass(100);
  expect(heard).toEqual([]);
  const jobId = idOf(await plant.admit(flow, { topic: "demo.echo" }));
  expect(states(heard, jobId).length).toBeGreaterThan(0);
});
