import { expect, test } from "vitest";
import { OneServer } from "../../src/lab/one-server.ts";
import { spreadOf } from "../../src/lab/spread.ts";
import { SeededRandom } from "../../src/sim/random.ts";

test("a stream of pure chance is as uneven as it is said to be", () => {
  let ratios = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const random = new SeededRandom(seed);
    const times = Array.from({ length: 1_000 }, () => random.between(5_000, 20_000));
    ratios += spreadOf(times, 5_000, 15_000)?.to_poisson ?? 0;
  }
  expect(ratios / 20).toBeGreaterThan(0.95);
  expect(ratios / 20).toBeLessThan(1.05);
});

test("who comes all at once is in one bin, and only the window is looked at", () => {
  const times = [...Array.from({ length: 100 }, () => 1_000), 999, 16_000];
  expect(spreadOf(times, 1_000, 15_000)).toMatchObject({
    arrivals: 100,
    bin_ms: 1_500,
    peak: 100,
    mean: 10,
    peak_to_mean: 10,
  });
});

test("too few say nothing", () => {
  expect(spreadOf([1, 2, 3], 0, 10)).toBeNull();
});

test("one server: who comes together waits for those before him, who comes later for nobody", () => {
  const server = new OneServer(5);
  expect([server.take(0), server.take(0), server.take(2)]).toEqual([5, 10, 13]);
  expect(server.take(100)).toBe(5);
});
