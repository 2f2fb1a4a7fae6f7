import { expect, test } from "vitest";
import { BusyKeys } from "../../src/engine/busy-keys.ts";

const T0 = 1_700_000_000_000;

test("each key is counted for a minute, give or take a bin, and then forgotten", () => {
  const keys = new BusyKeys();
  for (let at = 0; at < 30; at++) keys.note("hot", T0 + at * 1_000);
  keys.note("mild", T0);
  expect(keys.lastMinute("hot", T0 + 30_000)).toBe(30);
  expect(keys.lastMinute("mild", T0 + 30_000)).toBe(1);
  expect(keys.lastMinute("cold", T0 + 30_000)).toBe(0);
  expect(keys.lastMinute("hot", T0 + 75_000)).toBeLessThan(30);
  expect(keys.lastMinute("hot", T0 + 120_000)).toBe(0);
  keys.note("hot", T0 + 120_000);
  expect(keys.lastMinute("hot", T0 + 120_000)).toBe(1);
});

test("what lies ahead of a clock that was set back does not count, and memory is bounded", () => {
  const keys = new BusyKeys();
  keys.note("hot", T0 + 600_000);
  expect(keys.lastMinute("hot", T0)).toBe(0);
  for (let key = 0; key < 20_000; key++) keys.note(`k${key}`, T0);
  expect(keys.lastMinute("k9999", T0)).toBe(1);
  expect(keys.lastMinute("k19999", T0)).toBe(0);
  keys.note("k1", T0);
  expect(keys.lastMinute("k1", T0)).toBe(2);
});
