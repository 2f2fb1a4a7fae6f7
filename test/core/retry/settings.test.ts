import { describe, expect, test } from "vitest";
import { formatBudget } from "../../../src/core/retry/budget.ts";
import { formatPolicy, interval } from "../../../src/core/retry/policies.ts";
import { RETRY_CLASSES } from "../../../src/core/retry/retry-classes.ts";
import {
  BASELINE_ADMISSION_POLL,
  BASELINE_BUS_LIMITS,
  BASELINE_RETRY,
  DEFAULT_ADMISSION_POLL,
  DEFAULT_BUS_LIMITS,
  DEFAULT_RETRY,
  type RetrySettings,
} from "../../../src/core/retry/settings.ts";

test("the default numbers", () => {
  expect(written(DEFAULT_RETRY)).toEqual({
    poison: "fixed:5s, 3",
    unclassified: "full:1s:30s, 8",
    lock_busy: "bounded:500ms:0.3, 10m",
    store_unavailable: "full:1s:30s, deadline",
    safety_unavailable: "full:1s:30s, deadline",
    no_worker: "full:1s:30s, deadline",
    throttled: "full:1s:30s, deadline",
  });
  expect(formatPolicy(DEFAULT_ADMISSION_POLL)).toBe("bounded:10ms:0.5");
  expect(DEFAULT_BUS_LIMITS).toEqual({ parkAfterMs: 2_000, poisonMax: 3, poisonDelayMs: 5_000 });
});

test("the baseline numbers", () => {
  expect(written(BASELINE_RETRY)).toEqual({
    poison: "fixed:5s, 3",
    unclassified: "capped_exponential:1s:30s:500ms, 8",
    lock_busy: "fixed:500ms, 10m",
    store_unavailable: "capped_exponential:1s:30s:500ms, deadline",
    safety_unavailable: "fixed:5s, deadline",
    no_worker: "capped_exponential:1s:30s:500ms, deadline",
    throttled: "fixed:5s, deadline",
  });
  expect(formatPolicy(BASELINE_ADMISSION_POLL)).toBe("fixed:10ms");
  expect(BASELINE_BUS_LIMITS).toEqual({ parkAfterMs: null, poisonMax: 3, poisonDelayMs: 5_000 });
});

describe("one policy per class", () => {
  test("L10: a hot lock is never backed off exponentially", () => {
    for (const attempt of [1, 10, 1_000]) {
      expect(interval(DEFAULT_RETRY.lock_busy.policy, attempt)).toEqual({ loMs: 350, hiMs: 650 });
    }
    expect(interval(DEFAULT_RETRY.safety_unavailable.policy, 1_000).hiMs).toBe(30_000);
  });

  test("L9: no default for a thundering herd collapses, on any attempt", () => {
    for (const retryClass of RETRY_CLASSES) {
      if (retryClass === "poison") continue;
      const { loMs, hiMs } = interval(DEFAULT_RETRY[retryClass].policy, 1_000);
      expect(hiMs - loMs).toBeGreaterThanOrEqual(300);
    }
  });
});

test("the tables are frozen", () => {
  for (const table of [DEFAULT_RETRY, BASELINE_RETRY]) {
    for (const rule of Object.values(table)) {
      for (const part of [table, rule, rule.policy, rule.budget]) expect(Object.isFrozen(part)).toBe(true);
    }
  }
  for (const part of [DEFAULT_ADMISSION_POLL, BASELINE_ADMISSION_POLL, DEFAULT_BUS_LIMITS, BASELINE_BUS_LIMITS]) {
    expect(Object.isFrozen(part)).toBe(true);
  }
});

function written(settings: RetrySettings): Record<string, string> {
  const rules = Object.entries(settings).map(([name, { policy, budget }]) => [
    name,
    `${formatPolicy(policy)}, ${formatBudget(budget)}`,
  ]);
  return Object.fromEntries(rules);
}
