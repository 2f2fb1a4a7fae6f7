import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Budget,
  DEADLINE_MS_DEFAULT,
  formatBudget,
  isBudgetExhausted,
  OVERDUE_MS_MAX,
  parseBudget,
  type RetryState,
  recordDeliveryFailure,
  recordFailure,
} from "../../../src/core/retry/budget.ts";
import { RETRY_CLASSES } from "../../../src/core/retry/retry-classes.ts";
import { anyClass } from "./arbitraries.ts";

const anyFailures = fc.array(fc.record({ retryClass: anyClass, afterMs: fc.nat(10_000), delayMs: fc.nat(30_000) }));

describe("spend", () => {
  test("counts failures and keeps the first time and the last delay", () => {
    const once = recordFailure({}, "lock_busy", 1_000, 500);
    expect(once).toEqual({ lock_busy: { count: 1, sinceMs: 1_000, lastDelayMs: 500 } });
    expect(recordFailure(once, "lock_busy", 1_700, 640)).toEqual({
      lock_busy: { count: 2, sinceMs: 1_000, lastDelayMs: 640 },
    });
  });

  test("the first failure may be at time 0", () => {
    expect(recordFailure(recordFailure({}, "poison", 0, 1), "poison", 9, 1).poison?.sinceMs).toBe(0);
  });

  test("L4: failures of one class do not change another", () => {
    fc.assert(
      fc.property(anyFailures, anyClass, (failures, watched) => {
        const own = failuresIn(failures.filter(({ retryClass }) => retryClass === watched));
        const all = failuresIn(failures);
        // Times differ between the two histories, so only counts are compared; the next test compares everything.
        expect(all[watched]?.count).toBe(own[watched]?.count);
      }),
    );
  });

  test("L4: does not modify its arguments and shares the other classes", () => {
    fc.assert(
      fc.property(anyFailures, anyClass, (failures, retryClass) => {
        const before = deepFreeze(failuresIn(failures));
        const after = recordFailure(before, retryClass, 1e9, 5);
        for (const other of RETRY_CLASSES) {
          if (other !== retryClass) expect(after[other]).toBe(before[other]);
        }
      }),
    );
  });

  test("survives a JSON round trip", () => {
    fc.assert(
      fc.property(anyFailures, (failures) => {
        const retryState = failuresIn(failures);
        expect(JSON.parse(JSON.stringify(retryState))).toEqual(retryState);
      }),
    );
  });
});

describe("isSpent", () => {
  test("count: exhausted after three failures", () => {
    const budget: Budget = { kind: "count", max: 3 };
    expect(isBudgetExhausted({ kind: "count", max: 1 }, undefined, 0, null)).toBe(false);
    const verdicts = [1, 2, 3, 4].map((count) =>
      isBudgetExhausted(budget, { count, sinceMs: 0, lastDelayMs: 0 }, 1e12, 0),
    );
    expect(verdicts).toEqual([false, false, true, true]);
  });

  test("duration: counts from the first failure", () => {
    const budget: Budget = { kind: "duration", ms: 600_000 };
    const spent = { count: 1_000_000, sinceMs: 5_000, lastDelayMs: 500 };
    expect(isBudgetExhausted(budget, undefined, 1e12, null)).toBe(false);
    expect(isBudgetExhausted(budget, spent, 604_999, 0)).toBe(false);
    expect(isBudgetExhausted(budget, spent, 605_000, null)).toBe(true);
    expect(isBudgetExhausted(budget, spent, 0, null)).toBe(false);
  });

  test.each<{ budget: Budget; budgetMs: number }>([
    { budget: { kind: "duration", ms: 600_000 }, budgetMs: 600_000 },
    { budget: { kind: "until_deadline" }, budgetMs: DEADLINE_MS_DEFAULT },
  ])("$budget.kind: an overdue delivery counts as a minute, whatever the time shows", ({ budget, budgetMs }) => {
    for (const jumpMs of [600_000, 25 * 3_600_000]) {
      let [nowMs, failures] = [0, 0];
      let state: RetryState = {};
      const fail = (): boolean => {
        state = recordDeliveryFailure(state, "lock_busy", nowMs, 0);
        failures += 1;
        return isBudgetExhausted(budget, state.lock_busy, nowMs, null);
      };
      while (!fail()) nowMs += jumpMs;
      expect(failures).toBe(1 + budgetMs / OVERDUE_MS_MAX);
    }
  });

  test("duration: a delivery in time and a clock that goes back have no idle time", () => {
    let state = recordDeliveryFailure({}, "lock_busy", 10_000, 500);
    for (const nowMs of [10_500 + OVERDUE_MS_MAX, 9_000]) {
      state = recordDeliveryFailure(state, "lock_busy", nowMs, 0);
      expect(state.lock_busy).toMatchObject({ sinceMs: 10_000, lastMs: nowMs });
      expect(state.lock_busy).not.toHaveProperty("idleMs");
    }
  });

  test("duration: usage of earlier versions has no idle time", () => {
    const before: RetryState = { lock_busy: { count: 3, sinceMs: 1_000, lastDelayMs: 500 } };
    expect(recordDeliveryFailure(before, "lock_busy", 900_000, 400)).toEqual({
      lock_busy: { count: 4, sinceMs: 1_000, lastDelayMs: 400, lastMs: 900_000 },
    });
  });

  test("until_deadline: uses the record's deadline", () => {
    const budget: Budget = { kind: "until_deadline" };
    const spent = { count: 1_000_000, sinceMs: 5_000, lastDelayMs: 500 };
    expect(isBudgetExhausted(budget, spent, 8_999, 9_000)).toBe(false);
    expect(isBudgetExhausted(budget, spent, 9_000, 9_000)).toBe(true);
    expect(isBudgetExhausted(budget, undefined, 9_000, 9_000)).toBe(true);
    expect(isBudgetExhausted(budget, spent, 0, 0)).toBe(true);
  });

  test("L12: ends without a deadline, too", () => {
    const budget: Budget = { kind: "until_deadline" };
    const spent = { count: 1, sinceMs: 5_000, lastDelayMs: 500 };
    expect(isBudgetExhausted(budget, undefined, 1e12, null)).toBe(false);
    expect(isBudgetExhausted(budget, spent, 5_000 + DEADLINE_MS_DEFAULT - 1, null)).toBe(false);
    expect(isBudgetExhausted(budget, spent, 5_000 + DEADLINE_MS_DEFAULT, null)).toBe(true);
  });
});

describe("the config syntax", () => {
  test.each<[string, Budget]>([
    ["1", { kind: "count", max: 1 }],
    ["3", { kind: "count", max: 3 }],
    ["10000", { kind: "count", max: 10_000 }],
    ["10m", { kind: "duration", ms: 600_000 }],
    ["deadline", { kind: "until_deadline" }],
  ])("reads and writes `%s`", (text, budget) => {
    expect(parseBudget(text)).toEqual(budget);
    expect(parseBudget(` ${text} `)).toEqual(budget);
    expect(formatBudget(budget)).toBe(text);
  });

  test.each([
    ["", "retry budget ``: `` is not a duration"],
    ["forever", "`forever` is not a duration"],
    ["forever", "examples are `3` (tries), `10m` and `deadline`"],
    ["-1", "`-1` is not a duration"],
    ["0", "retry budget `0`: the number of tries must be from 1 to 10000"],
    ["10001", "retry budget `10001`: the number of tries must be from 1 to 10000"],
    ["0ms", "`0ms` is too short; the minimum is `1ms`"],
    ["721h", "`721h` is too long; the maximum is `720h`"],
  ])("refuses `%s` and says why", (text, message) => {
    expect(() => parseBudget(text)).toThrow(message);
  });
});

function failuresIn(
  failures: readonly { retryClass: (typeof RETRY_CLASSES)[number]; afterMs: number; delayMs: number }[],
) {
  let retryState: RetryState = {};
  let nowMs = 0;
  for (const { retryClass, afterMs, delayMs } of failures) {
    nowMs += afterMs;
    retryState = recordFailure(retryState, retryClass, nowMs, delayMs);
  }
  return retryState;
}

function deepFreeze(retryState: RetryState): RetryState {
  for (const spent of Object.values(retryState)) Object.freeze(spent);
  return Object.freeze(retryState);
}
