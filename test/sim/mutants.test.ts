import { describe, expect, it } from "vitest";
import { CHECKERS } from "../../src/sim/checks/violations.ts";
import { MUTANTS } from "../../src/sim/mutants/mutants.ts";
import { simulate } from "../../src/sim/simulate.ts";

/**
 * A checker that never caught anything proves nothing. Each planted bug must be found, by a checker that is about it,
 * within a few seeds; and the seed that shows it must be clean without it, or it would show nothing.
 */
const OPTIONS = { runs: 120, faults: "swarm" } as const;
const SEEDS_MAX = 30;

/** Most of them are found by the same few seeds: what these show without any is looked at once. */
const plain = new Map<number, ReturnType<typeof simulate>>();
function withoutPlant(seed: number): ReturnType<typeof simulate> {
  const known = plain.get(seed) ?? simulate({ ...OPTIONS, seed });
  plain.set(seed, known);
  return known;
}

describe("planted bugs", () => {
  it.each(MUTANTS)("$name: $about", async (mutant) => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= SEEDS_MAX; seed += 1) {
      const { violations } = await simulate({ ...OPTIONS, seed, mutant });
      for (const { checker } of violations) seen.add(checker);
      if (!violations.some(({ checker }) => mutant.caughtBy.includes(checker))) continue;
      expect((await withoutPlant(seed)).violations).toEqual([]);
      return;
    }
    expect.unreachable(
      `not caught by ${mutant.caughtBy.join(" or ")} in ${SEEDS_MAX} seeds; seen: ${[...seen].join(" ")}`,
    );
  });

  it("leave no checker untested", () => {
    const tested = new Set(MUTANTS.flatMap(({ caughtBy }) => caughtBy));
    const untested = Object.keys(CHECKERS).filter((checker) => !tested.has(checker as keyof typeof CHECKERS));
    expect(untested).toEqual([]);
  });

  it("have names of their own", () => {
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
    expect(MUTANTS.length).toBeGreaterThanOrEqual(12);
  });
});
