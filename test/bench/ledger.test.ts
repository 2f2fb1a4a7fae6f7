// The books of the benchmarks: a figure is worth nothing when what it counts was lost, doubled or out of order.

import { describe, expect, it } from "vitest";
import { Ledger } from "../../bench/child/ours/ledger.ts";

const WHOLE = { isWorkHere: true, isDrained: true };

describe("a ledger of runs", () => {
  it("has no fault when every step was worked on once, in order", () => {
    const ledger = opened(3, 1);
    for (const step of [0, 1, 2]) ledger.work(0, step);
    ledger.end(0, 1);
    expect(ledger.faults(WHOLE)).toEqual([]);
  });

  it.each([
    ["a step that is missing", [0, 1], "1 of 1 runs were not worked on in all their steps"],
    ["a step that was done again", [0, 1, 2, 1], "1 of 1 runs were worked on more than once"],
    ["a step before its time", [0, 2, 1], "1 of 1 runs had a step worked on before the one before it"],
  ])("finds %s", (_what, steps, sentence) => {
    const ledger = opened(3, 1);
    for (const step of steps) ledger.work(0, step);
    ledger.end(0, 1);
    expect(ledger.faults(WHOLE)).toEqual([sentence]);
  });
});

describe("a ledger of jobs", () => {
  it("finds what never ended, ended twice, was never worked on, worked on twice, or is a stranger", () => {
    const ledger = opened(1, 4);
    for (const n of [0, 1, 1, 2, 9]) ledger.work(n);
    for (const n of [1, 2, 2, 3]) ledger.end(n, 1);
    expect(ledger.faults(WHOLE)).toEqual([
      "1 of 4 jobs never ended",
      "1 of 4 jobs ended more than once",
      "1 of 4 jobs were never worked on",
      "1 of 4 jobs were worked on more than once",
      "1 of 4 jobs were seen that nobody had submitted",
    ]);
  });

  it("leaves out what is not this process's to know", () => {
    const ledger = opened(1, 2);
    ledger.end(0, 1);
    expect(ledger.faults({ isWorkHere: false, isDrained: false })).toEqual([]);
  });
});

function opened(stepsEach: number, count: number): Ledger {
  const ledger = new Ledger(stepsEach);
  for (let n = 0; n < count; n++) ledger.submit(0);
  return ledger;
}
