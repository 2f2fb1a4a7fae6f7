import { expect, test } from "vitest";
import { barsOf, nearest, placeOf } from "../../../dashboard/src/pages/simulator/flows.ts";
import {
  before,
  conditionsAt,
  describe,
  type Entry,
  entryOf,
  isAbout,
  lanesOf,
  spansOf,
} from "../../../dashboard/src/pages/simulator/history.ts";
import { simulate } from "../../../src/sim/simulate.ts";

const entry = (source: string, action: string, subject = "", at_ms = 0): Entry => ({ at_ms, source, action, subject });

test("every entry of real histories is described in words", async () => {
  const unknown = new Set<string>();
  for (const seed of [7, 23]) {
    const { trace } = await simulate({ seed, runs: 15, faults: "swarm", keepsTrace: true });
    for (const { source, action, subject } of trace) {
      const text = describe(entry(source, action, subject));
      // Without a text of its own, a fault would be shown as its raw action.
      if (subject === "" && text.endsWith(` ${action}`)) unknown.add(action);
      expect(text).not.toMatch(/undefined|NaN/);
    }
  }
  expect([...unknown]).toEqual([]);
});

test("a span lasts from its fault to the repair of the same kind", () => {
  const trace = [
    entry("control-1", "crash"),
    entry("control-1", "cut bus"),
    entry("control-1", "cut store"),
    entry("control-1", "start"),
    entry("control-1", "heal bus"),
  ];
  expect(spansOf(trace)).toEqual([
    { lane: "control-1", condition: "down", detail: "", from: 0, to: 3 },
    { lane: "control-1", condition: "cut", detail: "bus", from: 1, to: 4 },
    { lane: "control-1", condition: "cut", detail: "store", from: 2, to: 5 },
  ]);
  const at = (index: number) =>
    conditionsAt(spansOf(trace), index)
      .get("control-1")
      ?.map(({ condition }) => condition);
  expect(at(2)).toEqual(["down", "cut", "cut"]);
  expect(at(4)).toEqual(["cut"]);
});

test("a clock is wrong by the sum of its steps until the next one", () => {
  const trace = [entry("worker-1", "clock 5000"), entry("worker-1", "crash"), entry("worker-1", "clock -65000")];
  expect(spansOf(trace).filter(({ condition }) => condition === "clock")).toEqual([
    { lane: "worker-1", condition: "clock", detail: "+5\u00a0s", from: 0, to: 2 },
    { lane: "worker-1", condition: "clock", detail: "−1\u00a0min", from: 2, to: 3 },
  ]);
});

test("a time is placed between the entries around it", () => {
  const trace = [10, 20, 20, 40].map((at_ms) => entry("control-1", "lock", "a", at_ms));
  expect([5, 10, 15, 20, 30, 40, 99].map((ms) => placeOf(trace, ms))).toEqual([-0.5, 0, 0.5, 2, 2.5, 3.5, 3.5]);
});

test("lock holds of one row do not overlap, and a lock keeps its row", () => {
  const [a, b] = ["cordum:scheduler:job:a", "cordum:scheduler:job:b"];
  const of = (key: string, from_ms: number, to_ms: number | null) => ({
    ...{ key, holder: "control-1", fence: 1, from_ms, to_ms, expired: false },
  });
  const holds = [of(a, 0, 30), of(b, 10, 20), of(b, 40, 50), of(a, 45, null)];
  const trace = holds.map(({ key, from_ms }) => entry("control-1", "lock", key, from_ms));
  const bars = barsOf({ trace, holds } as never);
  expect(bars.map(({ row }) => row)).toEqual([0, 1, 1, 0]);
  expect(bars.at(-1)).toMatchObject({ from: 3, to: 4 });
});

test("of many messages the nearest to the cursor are drawn", () => {
  const all = Array.from({ length: 100 }, (_, at) => ({ from: at, to: at + 1 }));
  const window = { first: 20, columns: 40, at: 50 };
  expect(nearest(all, window, 3).map(({ from }) => from)).toEqual([48, 49, 50]);
  expect(nearest(all, window, 1_000)[0]).toEqual({ from: 19, to: 20 });
});

test("a hanging kernel that refuses then is one outage after the other", () => {
  const trace = [entry("kernel", "hangs"), entry("kernel", "up"), entry("kernel", "refuses"), entry("kernel", "up")];
  expect(spansOf(trace).map(({ from, to }) => [from, to])).toEqual([
    [0, 1],
    [2, 3],
  ]);
});

test("an id matches its messages, not the ids that begin with it", () => {
  expect(isAbout(entry("control-1", "sys.job.submit", "submit:job-1"), "job-1")).toBe(true);
  expect(isAbout(entry("control-1", "sys.job.result", "result:job-1@2:worker-1"), "job-1")).toBe(true);
  expect(isAbout(entry("control-1", "lock", "cordum:scheduler:job:job-1"), "job-1")).toBe(true);
  expect(isAbout(entry("job", "PENDING", "job-12"), "job-1")).toBe(false);
  expect(isAbout(entry("job", "PENDING", "birch~job-1"), "birch~job-1")).toBe(true);
  expect(isAbout(entry("job", "PENDING", "run-1:s0@1"), "run-1")).toBe(true);
});

test("a violation is preceded by the entries of its record and the faults among them", () => {
  const trace = [
    entry("job", "PENDING", "job-1", 10),
    entry("job", "PENDING", "job-2", 20),
    entry("control-1", "crash", "", 30),
    entry("job", "FAILED", "job-1", 40),
    entry("job", "FAILED", "job-2", 50.4),
    entry("control-1", "start", "", 60),
  ];
  const violation = { checker: "moves", invariant: "", id: "job-1", hint: "", at_ms: 50 };
  expect(entryOf(trace, violation)).toBe(4);
  expect(before(trace, violation)).toEqual([0, 2, 3]);
  // The checker names a message; its job is in the hint.
  const hint = "a success was acknowledged, but its job job-1 is DISPATCHED";
  expect(before(trace, { ...violation, id: "result:1", hint })).toEqual([0, 2, 3]);
});

test("control processes come before workers, records last", () => {
  const trace = ["job", "worker-2", "kernel", "control-2", "run", "worker-1", "control-1"].map((one) =>
    entry(one, "x"),
  );
  expect(lanesOf(trace)).toEqual(["control-1", "control-2", "worker-1", "worker-2", "kernel", "job", "run"]);
});
