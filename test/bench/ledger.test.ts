import { describe, expect, it } from "vitest";
import { Ledger } from "../../bench/child/ledger.ts";

const WHOLE = { isWorkHere: true, isDrained: true };

describe("ledger of runs", () => {
  it("has no fault when every step was processed once, in order", () => {
    const ledger = opened(3, 1);
    for (const step of [0, 1, 2]) ledger.work(0, step);
    ledger.end(0, 1);
    expect(ledger.faults(WHOLE)).toEqual([]);
  });

  it.each([
    ["a missing step", [0, 1], "1 of 1 runs have unprocessed steps"],
    ["a repeated step", [0, 1, 2, 1], "1 of 1 runs were processed more than once"],
    ["a step out of order", [0, 2, 1], "1 of 1 runs have a step that was processed out of order"],
  ])("finds %s", (_what, steps, message) => {
    const ledger = opened(3, 1);
    for (const step of steps) ledger.work(0, step);
    ledger.end(0, 1);
    expect(ledger.faults(WHOLE)).toEqual([message]);
  });
});

describe("ledger of jobs", () => {
  it("finds jobs that never ended, ended twice, were never processed, were processed twice or are unknown", () => {
    const ledger = opened(1, 4);
    for (const n of [0, 1, 1, 2, 9]) ledger.work(n);
    for (const n of [1, 2, 2, 3]) ledger.end(n, 1);
    expect(ledger.faults(WHOLE)).toEqual([
      "1 of 4 jobs never ended",
      "1 of 4 jobs ended more than once",
      "1 of 4 jobs were never processed",
      "1 of 4 jobs were processed more than once",
      "1 of 4 jobs were not submitted",
    ]);
  });

  it("ignores work of other processes and jobs that still wait", () => {
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
