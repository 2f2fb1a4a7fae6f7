import { describe, expect, test } from "vitest";
import { BackgroundTasks } from "../../src/engine/background-tasks.ts";
import { ManualClock } from "../contract/manual-clock.ts";

/** A task whose runs end one by one on request. */
function stepped() {
  const ends: (() => void)[] = [];
  let runs = 0;
  const task = (): Promise<void> => {
    runs += 1;
    return new Promise((resolve) => ends.push(resolve));
  };
  const end = async (): Promise<void> => {
    ends.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { task, end, runs: () => runs };
}

describe("an exclusive task", () => {
  test("runs once at a time, and once more after any number of calls", async () => {
    const tasks = new BackgroundTasks();
    const { task, end, runs } = stepped();
    for (let call = 0; call < 3; call++) tasks.runExclusive("a", task);
    expect(runs()).toBe(1);
    await end();
    expect(runs()).toBe(2);
    await end();
    expect(runs()).toBe(2);
    tasks.runExclusive("a", task);
    expect(runs()).toBe(3);
  });

  test("does not hold up other keys", () => {
    const tasks = new BackgroundTasks();
    const { task, runs } = stepped();
    tasks.runExclusive("a", task);
    tasks.runExclusive("b", task);
    expect(runs()).toBe(2);
  });

  test("does not run again after the close, which waits for it", async () => {
    const tasks = new BackgroundTasks();
    const { task, end, runs } = stepped();
    let isClosed = false;
    tasks.runExclusive("a", task);
    tasks.runExclusive("a", task);
    const closed = tasks.close().then(() => (isClosed = true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(isClosed).toBe(false);
    await end();
    await closed;
    expect([runs(), isClosed, tasks.isClosed]).toEqual([1, true, true]);
  });
});

describe("a timer", () => {
  test("fires after its delay, and not after the close", async () => {
    const [clock, tasks] = [new ManualClock(), new BackgroundTasks()];
    const fired: string[] = [];
    tasks.after(clock, 10, () => fired.push("early"));
    tasks.after(clock, 30, () => fired.push("late"));
    await clock.pass(9);
    expect(fired).toEqual([]);
    await clock.pass(1);
    expect(fired).toEqual(["early"]);
    await tasks.close();
    tasks.after(clock, 1, () => fired.push("after the close"));
    await clock.pass(100);
    expect(fired).toEqual(["early"]);
  });

  test("is dropped beyond 10,000 unless it is vital, and fired timers make room", async () => {
    const [clock, tasks] = [new ManualClock(), new BackgroundTasks()];
    const fired: string[] = [];
    tasks.after(clock, 1, () => fired.push("first"));
    for (let at = 1; at < 10_000; at++) tasks.after(clock, 1_000, () => {});
    tasks.after(clock, 1, () => fired.push("dropped"));
    tasks.after(clock, 1, () => fired.push("vital"), true);
    await clock.pass(1);
    expect(fired).toEqual(["first", "vital"]);
    tasks.after(clock, 1, () => fired.push("next"));
    await clock.pass(1);
    expect(fired).toEqual(["first", "vital", "next"]);
    await tasks.close();
  });
});
