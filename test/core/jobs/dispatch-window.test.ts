import { describe, expect, test } from "vitest";
import {
  type Answer,
  type DispatchWindow,
  FIRST_WINDOW,
  narrow,
  widen,
} from "../../../src/core/jobs/dispatch-window.ts";

/** By default, an answer after 100 ms of a deadline of 1,000 ms. */
const answer = (facts: Partial<Answer> = {}): Answer => ({
  sentMs: 100,
  nowMs: 200,
  executionMs: undefined,
  deadlineMs: 1_000,
  sizeMax: 100,
  ...facts,
});
const ofSize = (size: number, facts: Partial<DispatchWindow> = {}) => ({ ...FIRST_WINDOW, size, ...facts });

/** The window after a number of answers. */
function windowAfter(count: number, window: DispatchWindow, facts: Partial<Answer> = {}): DispatchWindow {
  let now = window;
  for (let at = 0; at < count; at++) now = widen(now, answer(facts));
  return now;
}

describe("a window grows", () => {
  test("twofold after each round within a quarter of the deadline", () => {
    const sizes = [0, 1, 2, 3, 6, 7, 14, 15].map((count) => windowAfter(count, FIRST_WINDOW, { nowMs: 350 }).size);
    expect(sizes).toEqual([1, 2, 2, 4, 4, 8, 8, 16]);
  });

  test("by one place after a slower round", () => {
    const slow = { nowMs: 351 };
    expect([3, 4, 8, 9].map((count) => windowAfter(count, ofSize(4), slow).size)).toEqual([4, 5, 5, 6]);
    // The slowest answer of the round counts.
    expect(windowAfter(3, widen(ofSize(4), answer(slow))).size).toBe(5);
  });

  test("up to the configured size", () => {
    expect(windowAfter(4, ofSize(4), { sizeMax: 6 }).size).toBe(6);
    expect(windowAfter(6, ofSize(6), { sizeMax: 6 }).size).toBe(6);
  });
});

describe("a window shrinks", () => {
  test("by a quarter after a late answer of a job that waited inside the worker", () => {
    const late = { sentMs: 0, nowMs: 600 };
    expect(widen(ofSize(8, { answered: 3, slowestMs: 9 }), answer({ ...late, executionMs: 399 }))).toEqual(
      ofSize(6, { shrunkMs: 600, fastestMs: 600 }),
    );
    // Without a measured time, the fastest answer stands for the execution.
    expect(widen(ofSize(8, { fastestMs: 399 }), answer(late)).size).toBe(6);
    expect(widen(ofSize(8), answer({ ...late, executionMs: 400 }))).toMatchObject({ size: 8, answered: 1 });
    expect(widen(ofSize(8), answer({ sentMs: 0, nowMs: 500, executionMs: 1 }))).toMatchObject({ size: 8, answered: 1 });
    expect(widen(ofSize(1), answer({ ...late, executionMs: 1 })).size).toBe(1);
  });

  test("to a half after a lost attempt", () => {
    expect(narrow(ofSize(9, { answered: 3, slowestMs: 9 }), 10, 20)).toEqual(
      ofSize(4, { shrunkMs: 20, lostAt: 9, caution: 2 }),
    );
    expect(narrow(ofSize(1, { caution: 64 }), 10, 20)).toEqual(ofSize(1, { shrunkMs: 20, lostAt: 2, caution: 64 }));
  });
});

test("after a loss, it grows by one place per round, and the rounds at the size of the loss are repeated", () => {
  const lost = narrow(ofSize(4), 10, 20);
  expect(lost).toMatchObject({ size: 2, lostAt: 4, caution: 2 });
  expect([1, 2, 7, 8, 15].map((count) => windowAfter(count, lost).size)).toEqual([2, 3, 3, 4, 4]);
  const passed = windowAfter(16, lost);
  expect(passed).toMatchObject({ size: 5, lostAt: Number.POSITIVE_INFINITY, caution: 1 });
  expect(windowAfter(5, passed).size).toBe(10);
});

test("attempts that were sent before the last change say nothing about it", () => {
  const window = ofSize(4, { shrunkMs: 50, answered: 3 });
  expect(widen(window, answer({ sentMs: 49, nowMs: 60 }))).toEqual({ ...window, fastestMs: 11 });
  expect(widen(window, answer({ sentMs: 50, nowMs: 60 })).size).toBe(8);
  expect(narrow(window, 49, 60)).toEqual(window);
  expect(narrow(window, 50, 60).size).toBe(2);
});
