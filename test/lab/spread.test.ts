import { expect, test } from "vitest";
import { SerialServer } from "../../src/lab/simulation.ts";
import { spreadOf } from "../../src/lab/spread.ts";
import { SeededRandom } from "../../src/sim/random.ts";

test("gives a ratio of 1 for a Poisson stream", () => {
  let ratios = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const random = new SeededRandom(seed);
    const times = Array.from({ length: 1_000 }, () => random.between(5_000, 20_000));
    ratios += spreadOf(times, 5_000, 15_000)?.to_poisson ?? 0;
  }
  expect(ratios / 20).toBeGreaterThan(0.95);
  expect(ratios / 20).toBeLessThan(1.05);
});

test("counts simultaneous arrivals in one bin and ignores arrivals outside of the window", () => {
  const times = [...Array.from({ length: 100 }, () => 1_000), 999, 16_000];
  expect(spreadOf(times, 1_000, 15_000)).toMatchObject({
    arrivals: 100,
    bin_ms: 1_500,
    peak: 100,
    mean: 10,
    peak_to_mean: 10,
  });
});

test("gives null below 50 arrivals", () => {
  expect(spreadOf([1, 2, 3], 0, 10)).toBeNull();
});

test("a serial server queues simultaneous requests", () => {
  const server = new SerialServer(5);
  expect([server.enqueue(0), server.enqueue(0), server.enqueue(2)]).toEqual([5, 10, 13]);
  expect(server.enqueue(100)).toBe(5);
});
