import { describe, expect, it } from "vitest";
import { CHECKERS } from "../../src/sim/checks/violations.ts";
import { MUTANTS } from "../../src/sim/mutants/registry.ts";
import { simulate } from "../../src/sim/simulate.ts";
import { SEEDS, SWARM } from "./harness.ts";

/**
 * Each mutant must be caught by one of its checkers in one of the seeds. Without it they have no violations: seeds.test.ts.
 *
 * Most mutants are caught by seed 1. For others, the seed that catches them is tried first; it is found again, only slower,
 * after the simulation has changed.
 */
const CAUGHT_BY: Readonly<Record<number, readonly string[]>> = {
  2: [
    ...["one-org-first", "kill-not-audited", "slot-not-guarded", "ended-run-lives-on", "failure-forgotten"],
    ...["loop-without-bound", "rollback-not-propagated", "measured-after-the-horizon"],
  ],
  3: ["replaced-payloads", "kill-not-read", "timers-on-wall-time", "second-rollout-not-refused"],
  4: ["window-forgotten-at-restart"],
  5: ["backlog-quota-not-guarded"],
  6: ["keeps-for-ever"],
  7: ["velocity-counted-after-the-commit"],
  8: ["answer-before-commit"],
  12: ["verdict-lost-on-failed-write"],
  14: [
    ...["slot-without-reservation", "schedule-moved-after-its-run", "schedule-moved-before-its-run"],
    ...["overlap-ignored", "pause-ignored", "catch-up-without-end", "jitter-ignored", "slot-not-armed"],
  ],
  15: ["arm-follows-the-share", "results-not-measured"],
  19: ["queue-of-two-slots"],
  21: [
    ...["half-open-unlimited", "approval-of-another-policy", "rerun-keeps-approval", "approvals-kept-unaudited"],
    ...["lock-not-asked-for", "parent-not-told", "compensation-skipped", "compensation-run-twice"],
    ...["compensation-in-order-of-completion", "compensation-not-awaited", "failed-compensation-counted-as-undone"],
  ],
  23: ["closed-lease-not-guarded"],
};

function seedsFor(name: string): Iterable<number> {
  return new Set([...SEEDS.filter((seed) => CAUGHT_BY[seed]?.includes(name)), ...SEEDS]);
}

describe("mutants", () => {
  it.each(MUTANTS)(
    "$name: $about",
    async (mutant) => {
      const seen = new Set<string>();
      for (const seed of seedsFor(mutant.name)) {
        const { violations } = await simulate({ ...SWARM, seed, mutant, stopOn: mutant.caughtBy });
        for (const { checker } of violations) seen.add(checker);
        if (violations.some(({ checker }) => mutant.caughtBy.includes(checker))) return;
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
