import { describe, expect, it } from "vitest";
import { Timeline } from "../../src/sim/timeline.ts";

describe("timeline", () => {
  it("runs events by time, then in insertion order", async () => {
    const timeline = new Timeline();
    const seen: string[] = [];
    timeline.after(20, () => seen.push("c"));
    timeline.after(10, () => seen.push("a"));
    timeline.post(10, () => seen.push("b"));
    timeline.postQuiet(30, () => seen.push("late"));
    await timeline.runUntil(20);
    expect(seen).toEqual(["a", "b", "c"]);
    expect([timeline.nowMs, timeline.events]).toEqual([20, 3]);
  });

  it("keeps the order of thousands of events", async () => {
    const timeline = new Timeline();
    const seen: number[] = [];
    const delays = Array.from({ length: 5_000 }, (_, index) => (index * 7_919) % 977);
    for (const delay of delays) timeline.after(delay, () => seen.push(delay));
    await timeline.runUntil(1_000);
    expect(seen).toEqual([...delays].sort((a, b) => a - b));
  });

  it("neither runs nor counts cancelled events", async () => {
    const timeline = new Timeline();
    const seen: string[] = [];
    const cancel = timeline.after(2, () => seen.push("cancelled"));
    timeline.after(1, cancel);
    await timeline.runUntil(5);
    expect([seen, timeline.events]).toEqual([[], 1]);
  });

  it("keeps the order when most events are cancelled", async () => {
    const timeline = new Timeline();
    const seen: number[] = [];
    const kept: number[] = [];
    const cancels: (() => void)[] = [];
    for (let index = 0; index < 6_000; index += 1) {
      const delayMs = 1 + ((index * 7_919) % 977);
      if (index % 3 === 0) cancels.push(timeline.afterQuiet(delayMs, () => seen.push(-1)));
      else if (index % 3 === 1) cancels.push(timeline.after(delayMs, () => seen.push(-1)));
      else {
        kept.push(delayMs);
        timeline.after(delayMs, () => seen.push(delayMs));
      }
    }
    const cancelAll = (some: readonly (() => void)[]): void => {
      for (const cancel of some) cancel();
    };
    // A second cancel has no effect.
    cancelAll(cancels.slice(2_000));
    cancelAll(cancels.slice(2_000));
    timeline.post(0, () => cancelAll(cancels));
    await timeline.runUntil(1_000);
    expect(seen).toEqual(kept.toSorted((a, b) => a - b));
    expect(timeline.events).toBe(2_001);
  });

  it("drains all microtasks before the next event", async () => {
    const timeline = new Timeline();
    const seen: string[] = [];
    const chain = async (name: string, length: number): Promise<void> => {
      for (let step = 0; step < length; step += 1) await Promise.resolve();
      seen.push(`${name} at ${timeline.nowMs}`);
    };
    timeline.after(1, () => void chain("long", 500));
    timeline.after(1, () => void Promise.all([chain("short", 1), chain("longer", 900)]).then(() => chain("then", 50)));
    timeline.after(2, () => seen.push("event at 2"));
    await timeline.runUntil(2);
    expect(seen).toEqual(["long at 1", "short at 1", "longer at 1", "then at 1", "event at 2"]);
  });

  it("runs events scheduled by events and stops when the promise settles", async () => {
    const timeline = new Timeline();
    const later = (ms: number): Promise<number> =>
      new Promise((resolve) => void timeline.after(ms, () => resolve(timeline.nowMs)));
    const twice = later(5).then(() => later(7));
    timeline.after(1_000, () => expect.unreachable("scheduled after the promise settles"));
    expect(await timeline.runUntilSettled(twice)).toBe(12);
    expect(timeline.nowMs).toBe(12);
  });

  it("rejects when the promise cannot settle", async () => {
    const timeline = new Timeline();
    await expect(timeline.runUntilSettled(new Promise(() => undefined))).rejects.toThrow("did not settle");
  });

  it("rejects a delay that is not finite", () => {
    expect(() => new Timeline().after(Number.NaN, () => undefined)).toThrow("finite");
  });

  it("rejects an instant that never ends", async () => {
    const timeline = new Timeline();
    const again = (): void => timeline.postQuiet(0, again);
    timeline.postQuiet(1, again);
    await expect(timeline.runUntil(2)).rejects.toThrow("for ever");
  });

  it("waits for its gate before the next event", async () => {
    const timeline = new Timeline();
    const seen: string[] = [];
    let open = (): void => {};
    let isOpen = true;
    timeline.gate = () => (isOpen ? null : new Promise((resolve) => (open = resolve)));
    timeline.post(1, () => {
      seen.push("first");
      isOpen = false;
      setImmediate(() => {
        seen.push("real work");
        isOpen = true;
        open();
      });
    });
    timeline.post(2, () => seen.push("second"));
    await timeline.runUntil(5);
    expect(seen).toEqual(["first", "real work", "second"]);
  });

  it("rejects with the error of its gate", async () => {
    const timeline = new Timeline();
    timeline.gate = () => Promise.reject(new Error("hung"));
    await expect(timeline.runUntil(5)).rejects.toThrow("hung");
  });

  it("keeps the distance of events when time is skipped", async () => {
    const timeline = new Timeline();
    const seen: [string, number][] = [];
    for (const [name, delay] of [
      ["b", 20],
      ["a", 10],
    ] as const) {
      timeline.after(delay, () => seen.push([name, timeline.nowMs]));
    }
    timeline.skip(1_000);
    timeline.skip(-5);
    timeline.after(15, () => seen.push(["new", timeline.nowMs]));
    await timeline.runWhile(() => seen.length === 2, 5_000);
    expect([seen, timeline.nowMs]).toEqual([
      [
        ["a", 1_010],
        ["new", 1_015],
      ],
      1_015,
    ]);
    await timeline.runWhile(() => false, 5_000);
    expect([seen.at(-1), timeline.nowMs]).toEqual([["b", 1_020], 5_000]);
  });
});
