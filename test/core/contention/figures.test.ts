import { describe, expect, test } from "vitest";
import { isSampled, keyHash } from "../../../src/core/contention/acquisition.ts";
import { busiestWindow, figuresOf, recordedOutcomes, weightedQuantiles } from "../../../src/core/contention/figures.ts";
import { traceOf } from "../../../src/core/contention/trace.ts";
import { acquisition, record } from "./fixtures.ts";

type Change = Parameters<typeof acquisition>[0];

const recorded = (...changes: readonly Change[]) => {
  const trace = traceOf([record({ acquisitions: changes.map(acquisition) })]);
  return figuresOf(trace, recordedOutcomes(trace));
};

describe("figures of recorded acquisitions", () => {
  test("count attempts, first retries and refusals", () => {
    const figures = recorded(
      { key: 1, attempts: 1 },
      { key: 2, attempts: 2, waitMs: 20 },
      { key: 5, attempts: 2, waitMs: 20 },
      { key: 3, attempts: 2, waitMs: 30, isRefused: true },
      { key: 4, attempts: 5, waitMs: 40 },
    );
    expect(figures).toMatchObject({ acquisitions: 5, busyRetries: 7, attemptsPerAcquisition: 2.4, refused: 1 });
    expect(figures.firstRetrySuccess).toBe(0.5);
    expect(figures.waitMs).toEqual({ p50: 20, p95: 40, p99: 40 });
    expect(figures.latencyMs).toEqual({ p50: 25, p95: 45, p99: 45 });
  });

  test("are zero without acquisitions, and have no share of first retries without retries", () => {
    expect(recorded()).toMatchObject({ acquisitions: 0, attemptsPerAcquisition: 0, firstRetrySuccess: null });
    expect(recorded({}).firstRetrySuccess).toBeNull();
    expect(recorded().drainMs).toEqual({ p50: 0, p95: 0, max: 0 });
  });

  test("count a busy period with the weight of its own acquisitions", () => {
    const key = Array.from({ length: 64 }, (_, at) => keyHash(`key ${at}`)).find((hash) => isSampled(hash, 1))!;
    const period = (atMs: number, level: number, holdMs: number) => {
      const acquisitions = [0, 1].map((afterMs) => acquisition({ key, arrivedMs: atMs + afterMs, holdMs }));
      return record({ fromMs: atMs, toMs: atMs + 1_000, level, acquisitions });
    };
    const trace = traceOf([period(0, 1, 60), period(600_000, 0, 10)]);
    const { drainMs, acquisitions } = figuresOf(trace, recordedOutcomes(trace));
    expect(acquisitions).toBe(6);
    expect(drainMs).toEqual({ p50: 61, p95: 61, max: 61 });
  });

  test.each<[string, readonly Change[], number]>([
    ["of one acquisition is none", [{ arrivedMs: 1_000, holdMs: 50 }], 0],
    [
      "lasts from the first arrival to the last commit",
      [
        { arrivedMs: 1_000, holdMs: 50 },
        { arrivedMs: 1_010, waitMs: 40, holdMs: 10 },
      ],
      60,
    ],
    [
      "continues with an arrival at its end",
      [
        { arrivedMs: 1_000, holdMs: 50 },
        { arrivedMs: 1_050, holdMs: 10 },
      ],
      60,
    ],
    [
      "ends before a later arrival",
      [
        { arrivedMs: 1_000, holdMs: 50 },
        { arrivedMs: 1_051, holdMs: 10 },
      ],
      0,
    ],
    [
      "ends with the slowest commit, not with the last arrival",
      [
        { arrivedMs: 1_000, holdMs: 500 },
        { arrivedMs: 1_010, holdMs: 10 },
      ],
      500,
    ],
    [
      "is one per lock",
      [
        { key: 1, arrivedMs: 1_000, holdMs: 50 },
        { key: 2, arrivedMs: 1_010, holdMs: 10 },
      ],
      0,
    ],
    [
      "is the longest of several",
      [
        { arrivedMs: 1_000, holdMs: 50 },
        { arrivedMs: 1_010, waitMs: 40, holdMs: 10 },
        { arrivedMs: 9_000, holdMs: 5 },
        { arrivedMs: 9_001, waitMs: 4, holdMs: 5 },
      ],
      60,
    ],
  ])("a busy period %s", (_what, changes, maxMs) => {
    expect(recorded(...changes).drainMs.max).toBe(maxMs);
  });
});

describe("weighted quantiles", () => {
  const quantile = weightedQuantiles(Float64Array.of(30, 10, 20), Float64Array.of(1, 2, 1));

  test.each([
    [0, 10],
    [0.5, 10],
    [0.51, 20],
    [0.75, 20],
    [0.76, 30],
    [1, 30],
  ])("share %d is %d", (share, value) => {
    expect(quantile(share)).toBe(value);
  });

  test("are 0 without values", () => {
    expect(weightedQuantiles(new Float64Array(0), new Float64Array(0))(0.5)).toBe(0);
  });
});

test("the busiest window begins with the most first attempts within a second", () => {
  const at = (arrivedMs: number, key: number) => acquisition({ arrivedMs, key });
  const arrivals = [at(1_000, 1), at(5_000, 2), at(5_400, 3), at(5_999, 4), at(6_000, 5), at(9_000, 6), at(9_100, 7)];
  const trace = traceOf([record({ acquisitions: arrivals })]);
  expect(busiestWindow(trace, 50, 20)).toEqual({ fromMs: 4_000, binMs: 50, bins: 20 });
  expect(busiestWindow(traceOf([]), 50, 20)).toEqual({ fromMs: 0, binMs: 50, bins: 20 });
});
