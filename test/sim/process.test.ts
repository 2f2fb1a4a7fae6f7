import { describe, expect, it } from "vitest";
import { GAP_MS } from "../../src/ports/steady-clock.ts";
import { EPOCH_MS, TimeServer } from "../../src/sim/adapters/time.ts";
import { Host, Process } from "../../src/sim/process.ts";
import { SeededRandom } from "../../src/sim/random.ts";
import { Timeline } from "../../src/sim/timeline.ts";
import { openBench } from "./harness.ts";
import { NOTES, note } from "./note-table.ts";

const start = (timeline: Timeline): Process => new Process(timeline, "p", new SeededRandom(1));

describe("process", () => {
  it("has a clock with whole milliseconds of virtual time plus its skew", async () => {
    const timeline = new Timeline();
    const { clock } = new Process(timeline, "p", new SeededRandom(1), { skewMs: 25, steppedMs: () => 0 });
    await timeline.runUntil(10.75);
    expect(clock.now()).toBe(EPOCH_MS + 35);
  });

  it("after a crash timers and replies are lost, but sent requests take effect", async () => {
    const bench = openBench();
    const { process, world } = bench.enter("p");
    const calls: string[] = [];
    process.clock.after(1, () => calls.push("timer"));
    world.store.commit(note("a", 1)).then(
      () => calls.push("answer"),
      () => calls.push("error"),
    );
    process.crash();
    await bench.pass(60_000);
    expect(calls).toEqual([]);
    expect(bench.net.store.load(NOTES, "a")?.version).toBe(1);
  });

  it("sends no requests after a crash", async () => {
    const bench = openBench();
    const { process, world } = bench.enter("p");
    process.crash();
    world.store.commit(note("a", 1)).catch(() => undefined);
    await bench.pass(60_000);
    expect(bench.net.store.load(NOTES, "a")).toBeNull();
  });

  it("runs callbacks one at a time in order and counts them", async () => {
    const timeline = new Timeline();
    const process = new Process(timeline, "p", new SeededRandom(1), undefined, 2);
    const calls: string[] = [];
    const record = (what: string) => () => calls.push(`${what} at ${timeline.nowMs}`);
    process.after(10, record("first"));
    process.after(10, record("second"));
    process.after(11, record("third"));
    process.after(50, record("alone"));
    await timeline.runUntil(100);
    expect(calls).toEqual(["first at 12", "second at 14", "third at 16", "alone at 52"]);
    expect(process.steps).toBe(4);
  });

  it("a pause during a step delays its effect to the resume, a crash drops it", async () => {
    const timeline = new Timeline();
    const process = new Process(timeline, "p", new SeededRandom(1), undefined, 2);
    const calls: string[] = [];
    process.after(10, () => calls.push(`first at ${timeline.nowMs}`));
    process.after(20, () => calls.push("never"));
    await timeline.runUntil(11);
    process.pause();
    await timeline.runUntil(15);
    expect(calls).toEqual([]);
    process.resume();
    await timeline.runUntil(21);
    expect(calls).toEqual(["first at 17"]);
    process.crash();
    await timeline.runUntil(100);
    expect(calls).toEqual(["first at 17"]);
  });

  it("a pause holds timers back until the resume, in order", async () => {
    const timeline = new Timeline();
    const process = start(timeline);
    const calls: string[] = [];
    const record = (what: string) => () => calls.push(`${what} at ${timeline.nowMs}`);
    process.after(10, record("first"));
    process.after(20, record("second"));
    process.pause();
    await timeline.runUntil(100);
    expect(calls).toEqual([]);
    process.resume();
    await timeline.runUntil(100);
    expect(calls).toEqual(["first at 100", "second at 100"]);
  });

  it("cancels a held timer at the resume", async () => {
    const timeline = new Timeline();
    const process = start(timeline);
    const calls: string[] = [];
    process.after(10, () => cancel());
    const cancel = process.after(20, () => calls.push("cancelled"));
    process.pause();
    await timeline.runUntil(50);
    process.resume();
    await timeline.runUntil(100);
    expect(calls).toEqual([]);
  });

  it("a crash during a pause drops held timers", async () => {
    const timeline = new Timeline();
    const process = start(timeline);
    process.after(10, () => expect.unreachable("the process has crashed"));
    process.pause();
    await timeline.runUntil(50);
    process.crash();
    process.resume();
    await timeline.runUntil(100);
  });

  it("is silent while it is paused, partitioned or crashed, since the first of these", async () => {
    const timeline = new Timeline();
    const process = start(timeline);
    expect(process.silentSinceMs).toBeNull();
    await timeline.runUntil(5);
    process.pause();
    await timeline.runUntil(9);
    process.cut("bus");
    process.resume();
    expect(process.silentSinceMs).toBe(5);
    process.heal("bus");
    expect(process.silentSinceMs).toBeNull();
    process.crash();
    expect(process.silentSinceMs).toBe(9);
  });
});

describe("host", () => {
  it.each([39 * 60_000, -39 * 60_000])(
    "a clock step of %i ms before a boot does not change the time of the cluster",
    async (stepMs) => {
      const timeline = new Timeline();
      const server = new TimeServer(timeline);
      const host = new Host(timeline, new SeededRandom(1), { name: "h", server, boot: ({ clock }) => clock.now() });
      host.start();
      host.crash();
      host.stepClock(stepMs);
      await timeline.runUntil(2 * GAP_MS);
      host.start();
      expect(host.process?.clock.now()).toBe(EPOCH_MS + 2 * GAP_MS);
      expect(server.nowMs).toBe(EPOCH_MS + 2 * GAP_MS);
    },
  );

  it("a server clock step while no process runs counts as time that has passed", async () => {
    const timeline = new Timeline();
    const server = new TimeServer(timeline);
    const host = new Host(timeline, new SeededRandom(1), { name: "h", server, boot: ({ clock }) => clock.now() });
    host.start();
    host.crash();
    server.stepClock(3_600_000);
    await timeline.runUntil(1_000);
    host.start();
    expect(host.process?.clock.now()).toBe(EPOCH_MS + 3_601_000);
  });

  it("a server clock step does not change the time of the cluster while a process runs", async () => {
    const timeline = new Timeline();
    const server = new TimeServer(timeline);
    const hosts = ["a", "b"].map(
      (name) => new Host(timeline, new SeededRandom(1), { name, server, boot: ({ clock }) => clock.now() }),
    );
    hosts[0]?.start();
    server.stepClock(3_600_000);
    await timeline.runUntil(1_000);
    hosts[1]?.start();
    expect(hosts.map(({ process }) => process?.clock.now())).toEqual([EPOCH_MS + 1_000, EPOCH_MS + 1_000]);
  });

  it("boots each process without state and with its own random generator", () => {
    const seen: number[] = [];
    const host = new Host(new Timeline(), new SeededRandom(1), {
      name: "h",
      boot: (process) => seen.push(process.random.next()),
    });
    host.start();
    const first = host.process;
    host.start();
    expect(host.process).toBe(first);
    host.crash();
    expect([host.process, first?.isAlive]).toEqual([null, false]);
    host.start();
    expect([seen.length, new Set(seen).size]).toEqual([2, 2]);
  });
});
