import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ENTRIES_MAX,
  entriesOf,
  insert,
  inWindow,
  merged,
  roomAt,
  toStored,
  totalOf,
  type WindowEntry,
  withoutFuture,
} from "../../../../src/core/policy/limits/window.ts";

const entry = (atMs: number, amount = 1): WindowEntry => ({ atMs, amount });

/** Brute force: whether any span of the duration, from any entry, contains more than the limit. */
function isExceeded(entries: readonly WindowEntry[], max: number, withinMs: number): boolean {
  return entries.some(({ atMs: fromMs }) => {
    const inside = entries.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + withinMs);
    return totalOf(inside) > max + 1e-6;
  });
}

/** Brute force: every millisecond from now is tried. */
function firstRoom(entries: readonly WindowEntry[], max: number, withinMs: number, amount: number, nowMs: number) {
  for (let atMs = nowMs; ; atMs++) if (!isExceeded([...entries, entry(atMs, amount)], max, withinMs)) return atMs;
}

const CASES = fc.record({
  max: fc.integer({ min: 1, max: 5 }),
  withinMs: fc.integer({ min: 1, max: 40 }),
  requests: fc.array(fc.record({ afterMs: fc.integer({ min: 0, max: 12 }), amount: fc.integer({ min: 1, max: 3 }) }), {
    maxLength: 30,
  }),
});

describe("a sliding window", () => {
  test("admits as a brute-force model does, and never more than the limit in any span", () => {
    fc.assert(
      fc.property(CASES, ({ max, withinMs, requests }) => {
        let nowMs = 1_000;
        let stored: readonly WindowEntry[] = [];
        const all: WindowEntry[] = [];
        for (const { afterMs, amount } of requests) {
          nowMs += afterMs;
          const counting = inWindow(stored, { max, withinMs }, nowMs);
          const isFree = amount <= max && firstRoom(all, max, withinMs, amount, nowMs) === nowMs;
          expect(roomAt(counting, { max, withinMs }, amount, nowMs) === nowMs).toBe(isFree);
          if (!isFree) continue;
          stored = insert(counting, entry(nowMs, amount));
          all.push(entry(nowMs, amount));
        }
        expect(isExceeded(all, max, withinMs)).toBe(false);
      }),
    );
  });

  test("gives the earliest slot, also into gaps that cancelled jobs left", () => {
    const removed = fc.array(fc.nat(29), { maxLength: 10 });
    fc.assert(
      fc.property(CASES, removed, ({ max, withinMs, requests }, gaps) => {
        let slots: readonly WindowEntry[] = [];
        for (const [at, { afterMs }] of requests.entries()) {
          const nowMs = 1_000 + afterMs;
          const atMs = roomAt(slots, { max, withinMs }, 1, nowMs);
          expect(atMs).toBe(firstRoom(slots, max, withinMs, 1, nowMs));
          slots = insert(slots, entry(atMs));
          if (gaps.includes(at)) slots = slots.filter((_, index) => index !== at % slots.length);
        }
        expect(isExceeded(slots, max, withinMs)).toBe(false);
      }),
    );
  });

  test("does not admit twice the limit around a boundary", () => {
    const late = Array.from({ length: 10 }, () => entry(59_900));
    expect(roomAt(late, { max: 10, withinMs: 60_000 }, 1, 60_000)).toBe(119_900);
  });

  test("has no room for an amount above the limit, and rounds sums of fractions", () => {
    expect(roomAt([], { max: 10, withinMs: 1_000 }, 11, 5)).toBe(Number.POSITIVE_INFINITY);
    const some = [entry(1, 0.1), entry(2, 0.2)];
    expect(roomAt(some, { max: 0.6, withinMs: 1_000 }, 0.3, 5)).toBe(5);
    expect(roomAt(some, { max: 0.6, withinMs: 1_000 }, 0.300001, 5)).toBe(1_001);
  });

  test("merges to the strict side, and stays bounded", () => {
    const withinMs = 600_000;
    const many = Array.from({ length: ENTRIES_MAX + 1 }, (_, at) => entry(at * 250));
    const fewer = merged(many, withinMs);
    expect(fewer.length).toBeLessThanOrEqual(514);
    expect(totalOf(fewer)).toBe(many.length);
    // Whatever the time, the merged window counts at least as much.
    for (let nowMs = 0; nowMs < 1_200_000; nowMs += 10_007) {
      const [exact, coarse] = [many, fewer].map((entries) => totalOf(inWindow(entries, { max: 1, withinMs }, nowMs)));
      expect(coarse).toBeGreaterThanOrEqual(exact ?? 0);
    }
  });

  test("is not blocked by times of a clock that was wrong", () => {
    const limit = { max: 1, withinMs: 1_000 };
    const wrong = withoutFuture([entry(10 ** 12)], limit, 5_000);
    expect(roomAt(wrong, limit, 1, 5_000)).toBe(6_000);
    // A clock that is a little ahead is no reason to forget.
    expect(withoutFuture([entry(5_900)], limit, 5_000)).toEqual([entry(5_900)]);
  });

  test("is stored as differences and read back", () => {
    const entries = [entry(1_700_000_000_000), entry(1_700_000_000_000), entry(1_700_000_000_777)];
    const about = { org: "acme", ruleId: "r", withinMs: 60_000 };
    const stored = toStored(entries, about);
    expect(stored).toEqual({
      org: "acme",
      ruleId: "r",
      dueMs: 1_700_000_060_777,
      times: [1_700_000_000_000, 0, 777],
    });
    expect(entriesOf(stored)).toEqual(entries);
    const sums = [entry(5, 2.5), entry(9, 1)];
    expect(entriesOf(toStored(sums, about))).toEqual(sums);
  });

  test("decides on a full window in a few milliseconds", () => {
    const withinMs = 60_000;
    const full = Array.from({ length: ENTRIES_MAX - 1 }, (_, at) => entry(1_000 + Math.floor(at / 1_000) * withinMs));
    const beganMs = performance.now();
    expect(roomAt(full, { max: 1_000, withinMs }, 1, 1_000)).toBe(1_000 + 2 * withinMs);
    // A quadratic scan of the spans takes seconds.
    expect(performance.now() - beganMs).toBeLessThan(500);
  });
});
