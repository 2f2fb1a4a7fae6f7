import { expect, test } from "vitest";
import { verdictOf } from "../../../dashboard/src/pages/waves/verdict.ts";
import { BINS, poissonCounts } from "../../../src/engine/observe/index.ts";

const spreadOf = (counts: readonly number[]) => ({
  total: counts.reduce((sum, count) => sum + count, 0),
  peak: Math.max(...counts),
});
const verdict = (counts: readonly number[]) =>
  verdictOf({ ...spreadOf(counts), poisson: spreadOf(poissonCounts(counts, 1)) });
const binsOf = (count: (bin: number) => number) => Array.from({ length: BINS }, (_, bin) => count(bin));

test("arrivals every 500 ms are waves", () => {
  expect(verdict(binsOf((bin) => (bin % 10 === 0 ? 20 : 0)))).toBe("waves");
});

test("one burst is a wave", () => {
  expect(verdict(binsOf((bin) => (bin === 600 ? 100 : 0)))).toBe("waves");
});

test("arrivals that are spread over a short incident are no waves", () => {
  expect(verdict(binsOf((bin) => (bin >= 600 && bin < 800 ? 40 : 0)))).toBe("spread");
});

test("a Poisson stream is spread", () => {
  for (const total of [30, 400, 5_000]) {
    const counts = poissonCounts(
      binsOf((bin) => (bin === 0 || bin === BINS - 1 ? total / 2 : 0)),
      7,
    );
    expect(verdict(counts)).toBe("spread");
  }
});

test("few arrivals are not judged", () => {
  expect(verdict(binsOf((bin) => (bin === 600 ? 10 : 0)))).toBe("few");
});
