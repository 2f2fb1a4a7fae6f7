import { describe, expect, it } from "vitest";
import { EPOCH_MS, Host, Process } from "../../src/sim/process.ts";
import { SeededRandom } from "../../src/sim/random.ts";
import { Timeline } from "../../src/sim/timeline.ts";
import { NOTES, note } from "./documents.ts";
import { openBench } from "./harness.ts";

const start = (timeline: Timeline): Process => new Process(timeline, "p", new SeededRandom(1));

describe("process", () => {
  it("has a clock of whole milliseconds that is the timeline's", async () => {
    const timeline = new Timeline();
    const { clock } = new Process(timeline, "p", new SeededRandom(1), 25);
    await timeline.runUntil(10.75);
    expect(clock.now()).toBe(EPOCH_MS + 35);
  });

  it("crashes: timers never fire, answers never come, but what it asked for is done", async () => {
    const bench = openBench();
    const { process, world } = bench.enter("p");
    const heard: string[] = [];
    process.clock.after(1, () => heard.push("timer"));
    world.store.commit(note("a", 1)).then(
      () => heard.push("answer"),
      () => heard.push("error"),
    );
    process.crash();
    await bench.pass(60_000);
    expect(heard).toEqual([]);
    expect(bench.net.store.load(NOTES, "a")?.version).toBe(1);
  });

  it("does nothing new once it is dead", async () => {
    const bench = openBench();
    const { process, world } = bench.enter("p");
    process.crash();
    world.store.commit(note("a", 1)).catch(() => undefined);
    await bench.pass(60_000);
    expect(bench.net.store.load(NOTES, "a")).toBeNull();
  });

  it("is one thread: what comes while it is busy waits, in its order, and it counts", async () => {
    const timeline = new Timeline();
    const process = new Process(timeline, "p", new SeededRandom(1), 0, 2);
    const heard: string[] = [];
    const say = (what: string) => () => heard.push(`${what} at ${timeline.nowMs}`);
    process.after(10, say("first"));
    process.after(10, say("second"));
    process.after(11, say("third"));
    process.after(50, say("alone"));
    await timeline.runUntil(100);
    expect(heard).toEqual(["first at 12", "second at 14", "third at 16", "alone at 52"]);
    expect(process.steps).toBe(4);
  });

  it("is stopped in the middle of a step: what that would have done is done at the resume, or never", async () => {
    const timeline = new Timeline();
    const process = new Process(timeline, "p", new SeededRandom(1), 0, 2);
    const heard: string[] = [];
    process.after(10, () => heard.push(`first at ${timeline.nowMs}`));
    process.after(20, () => heard.push("never"));
    await timeline.runUntil(11);
    process.pause();
    await timeline.runUntil(15);
    expect(heard).toEqual([]);
    process.resume();
    await timeline.runUntil(21);
    expect(heard).toEqual(["first at 17"]);
    process.crash();
    await timeline.runUntil(100);
    expect(heard).toEqual(["first at 17"]);
  });

  it("pauses: timers and answers come at the resume, in their order, and time has gone on", async () => {
    const timeline = new Timeline();
    const process = start(timeline);
    const heard: string[] = [];
    const say = (what: string) => () => heard.push(`${what} at ${timeline.nowMs}`);
    process.after(10, say("first"));
    process.after(20, say("second"));
    process.pause();
    await timeline.runUntil(100);
    expect(heard).toEqual([]);
    process.resume();
    await timeline.runUntil(100);
    expect(heard).toEqual(["first at 100", "second at 100"]);
  });

  it("can cancel, at the resume, a timer that was held back", async () => {
    const timeline = new Timeline();
    const process = start(timeline);
    const heard: string[] = [];
    process.after(10, () => cancel());
    const cancel = process.after(20, () => heard.push("cancelled"));
    process.pause();
    await timeline.runUntil(50);
    process.resume();
    await timeline.runUntil(100);
    expect(heard).toEqual([]);
  });

  it("dies in its sleep: nothing comes at the resume", async () => {
    const timeline = new Timeline();
    const process = start(timeline);
    process.after(10, () => expect.unreachable("it is dead"));
    process.pause();
    await timeline.runUntil(50);
    process.crash();
    process.resume();
    await timeline.runUntil(100);
  });

  it("is silent while it is paused, cut off or dead, since the first of these", async () => {
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
  it("boots each life with nothing remembered and chance of its own", () => {
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
    expect([host.boots, new Set(seen).size]).toEqual([2, 2]);
  });
});
