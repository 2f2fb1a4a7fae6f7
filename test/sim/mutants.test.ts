import { describe, expect, it } from "vitest";
import { CHECKERS } from "../../src/sim/checks/violations.ts";
import { MUTANTS } from "../../src/sim/mutants/registry.ts";
import { simulate } from "../../src/sim/simulate.ts";

/** Each mutant must be caught by one of its checkers within a few seeds, and that seed must have no violations without it. */
const OPTIONS = { runs: 120, faults: "swarm" } as const;
/** The seeds that catch the rare mutants come early: each seed costs half a second. */
const EARLY = [1, 2, 3, 21, 13, 15];
const SEEDS = [...new Set([...EARLY, ...Array.from({ length: 30 }, (_, index) => index + 1)])];

/** Reports without a mutant by seed, because most mutants are caught by the same few seeds. */
const unmutated = new Map<number, ReturnType<typeof simulate>>();
function withoutMutant(seed: number): ReturnType<typeof simulate> {
  const known = unmutated.get(seed) ?? simulate({ ...OPTIONS, seed });
  unmutated.set(seed, known);
  return known;
}

describe("mutants", () => {
  it.each(MUTANTS)(
    "$name: $about",
    async (mutant) => {
      const seen = new Set<string>();
      for (const seed of SEEDS) {
        const { violations } = await simulate({ ...OPTIONS, seed, mutant });
        for (const { checker } of violations) seen.add(checker);
        if (!violations.some(({ checker }) => mutant.caughtBy.includes(checker))) continue;
        expect((await withoutMutant(seed)).violations).toEqual([]);
        return;
      }
      expect.unreachable(
        `not caught by ${mutant.caughtBy.join(" or ")} in ${SEEDS.length} seeds; seen: ${[...seen].join(" ")}`,
      );
    },
    180_000,
  );

  it("cover all checkers", () => {
    const tested = new Set(MUTANTS.flatMap(({ caughtBy }) => caughtBy));
    const untested = Object.keys(CHECKERS).filter((checker) => !tested.has(checker as keyof typeof CHECKERS));
    expect(untested).toEqual([]);
  });

  it("have unique names", () => {
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
    expect(MUTANTS.length).toBeGreaterThanOrEqual(12);
  });
});
