import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/sim/random.ts";

const draws = (random: SeededRandom, count: number): number[] => Array.from({ length: count }, () => random.next());

describe("seeded random", () => {
  it("draws the same values for the same seed on every machine", () => {
    expect(draws(new SeededRandom(7), 100)).toEqual(draws(new SeededRandom(7), 100));
    expect(draws(new SeededRandom(1), 3)).toEqual(FIRST_OF_SEED_1);
  });

  it("draws other values for other seeds, including neighbours and seeds beyond 32 bits", () => {
    const firsts = new Set(
      [0, 1, 2, 3, -1, 2 ** 32, 2 ** 32 + 1, 2 ** 40].map((seed) => new SeededRandom(seed).next()),
    );
    expect(firsts.size).toBe(8);
  });

  it("forks by name, independent of earlier draws", () => {
    const fresh = new SeededRandom(3);
    const used = new SeededRandom(3);
    draws(used, 50);
    expect(draws(used.fork("a"), 20)).toEqual(draws(fresh.fork("a"), 20));
    expect(draws(fresh.fork("a"), 20)).not.toEqual(draws(fresh.fork("b"), 20));
    expect(fresh.fork("a").fork("b").next()).not.toBe(fresh.fork("b").fork("a").next());
  });

  it("is uniform and has no correlation between neighbours", () => {
    const random = new SeededRandom(11);
    const tenths = Array<number>(10).fill(0);
    let correlation = 0;
    let last = random.next();
    let outside = 0;
    for (let count = 0; count < 100_000; count += 1) {
      const next = random.next();
      if (next < 0 || next >= 1) outside += 1;
      tenths[Math.floor(next * 10)]! += 1;
      correlation += (next - 0.5) * (last - 0.5);
      last = next;
    }
    expect(outside).toBe(0);
    for (const share of tenths) expect(Math.abs(share - 10_000)).toBeLessThan(500);
    expect(Math.abs(correlation / 100_000)).toBeLessThan(0.002);
  });

  it("creates ids that are unique, short and URL-safe", () => {
    const root = new SeededRandom(5);
    const ids = ["a", "b", "c"].flatMap((name) => {
      const fork = root.fork(name);
      return Array.from({ length: 2_000 }, () => fork.id());
    });
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9_-]{1,36}$/);
  });

  it("draws within bounds", () => {
    const random = new SeededRandom(9);
    for (let count = 0; count < 1_000; count += 1) {
      expect([0, 1, 2]).toContain(random.below(3));
      const wide = random.logarithmic(0.5, 500);
      expect(wide >= 0.5 && wide <= 500).toBe(true);
      expect(random.exponential(10)).toBeGreaterThanOrEqual(0);
      expect(random.chance(0)).toBe(false);
    }
    expect(() => random.pick([])).toThrow("nothing to pick");
  });
});

const FIRST_OF_SEED_1 = [0.13443968957290053, 0.38245170656591654, 0.9937089539598674];
