import { describe, expect, test } from "vitest";
import { exhaustedText } from "../../../src/core/jobs/budget.ts";
import {
  BudgetReplay,
  budgetEvents,
  type RecordedSpends,
  recordedSpends,
} from "../../../src/core/jobs/replay-budgets.ts";
import type { Job } from "../../../src/core/model/job.ts";
import { fresh } from "./stages.ts";

const DECISION = {
  effect: "allow",
  ruleId: "models",
  budgets: [{ per: "tenant", tokens: 100, reserveTokens: 40 }],
} as const;
const ran = (from: number, until: number, more: Partial<Job> = {}): Job => ({
  ...fresh(),
  ...{ state: "SUCCEEDED", attempt: 1, dispatchedMs: from, updatedMs: until },
  ...more,
});
const refusedOf = (jobs: readonly Job[]): readonly number[] => {
  const spends = jobs.flatMap((job, at) => {
    const found = recordedSpends(job, DECISION, job.dispatchedMs ?? job.createdMs);
    return found === null ? [] : [{ ...found, at }];
  });
  const replay = new BudgetReplay();
  return budgetEvents<RecordedSpends & { readonly at: number }>(spends).flatMap((event) =>
    replay.apply(event) === null ? [] : [event.job.at],
  );
};
const used = (totalTokens: number): Partial<Job> => ({ resultDetails: { usage: { totalTokens } } });

test("an exhausted budget says what is needed and left, and never less than nothing", () => {
  const day = { ruleId: "models", per: "day", key: "2026-01-31" } as const;
  expect(exhaustedText(day, "tokens", { needed: 40, used: 120, limit: 100 })).toBe(
    "budget of rule `models` per day `2026-01-31` exhausted: 40 tokens needed, 0 tokens left of 100 tokens",
  );
  const tenant = { ...day, per: "tenant", key: "" } as const;
  expect(exhaustedText(tenant, "microUsd", { needed: 250_000, used: 1_900_000, limit: 2_000_000 })).toBe(
    "budget of rule `models` per tenant exhausted: 0.25 USD needed, 0.1 USD left of 2 USD",
  );
});

describe("budgets over recorded jobs", () => {
  test("jobs at the same time reserve, and the third has no room", () => {
    expect(refusedOf([ran(1, 10), ran(2, 10), ran(3, 10)])).toEqual([2]);
  });

  test("a job spends what it reported, and gives back the rest of its reservation", () => {
    expect(refusedOf([ran(1, 2, used(10)), ran(3, 4, used(10)), ran(5, 6, used(60)), ran(7, 8)])).toEqual([3]);
  });

  test("settled amounts count before the usage of the last attempt", () => {
    const settled = {
      budgets: [{ ruleId: "old", per: "job", key: "j", limit: {}, reserved: {}, spent: { tokens: 70 } }],
    } as const;
    expect(refusedOf([ran(1, 2, { ...used(10), ...settled }), ran(3, 4)])).toEqual([1]);
  });

  test("a failed job without a report spends nothing, and one that was never sent reserves nothing", () => {
    const failed = { state: "FAILED" } as const;
    const unsent = { ...failed, attempt: 0 };
    expect(refusedOf([ran(1, 2, failed), ran(3, 4, unsent), ran(5, 9), ran(6, 9)])).toEqual([]);
  });

  test("a job that was denied, or refused for a budget, is taken to spend its reservation", () => {
    const denied = { state: "DENIED", attempt: 0 } as const;
    const exhausted = { state: "FAILED", attempt: 0, error: { name: "BudgetExhausted", message: "" } } as const;
    expect(refusedOf([ran(1, 2, denied), ran(3, 4, exhausted), ran(5, 6)])).toEqual([2]);
  });

  test("a job in progress keeps its reservation", () => {
    expect(refusedOf([ran(1, 0, { state: "RUNNING" }), ran(2, 3), ran(4, 5)])).toEqual([2]);
  });
});
