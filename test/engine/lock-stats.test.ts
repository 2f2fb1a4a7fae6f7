import { expect, test } from "vitest";
import { LockStats } from "../../src/engine/lock-stats.ts";

const busyOf = (stats: LockStats, key: string, nowMs: number) => stats.busyLastMinute(nowMs).get(key) ?? 0;
const T0 = 1_700_000_000_000;

test("counts busy answers per key for one minute", () => {
  const stats = new LockStats();
  for (let at = 0; at < 30; at++) stats.recordBusy("hot", T0 + at * 1_000);
  stats.recordBusy("mild", T0);
  expect(busyOf(stats, "hot", T0 + 30_000)).toBe(30);
  expect(busyOf(stats, "mild", T0 + 30_000)).toBe(1);
  // Events that waited for the same acquisition count, and are not consecutive answers.
  for (let at = 0; at < 5; at++) stats.recordRefused("mild", T0);
  expect(busyOf(stats, "mild", T0 + 30_000)).toBe(6);
  expect(stats.recordAcquired("mild")).toBe(1);
  expect(busyOf(stats, "cold", T0 + 30_000)).toBe(0);
  expect(busyOf(stats, "hot", T0 + 75_000)).toBeLessThan(30);
  expect(busyOf(stats, "hot", T0 + 120_000)).toBe(0);
  stats.recordBusy("hot", T0 + 120_000);
  expect(busyOf(stats, "hot", T0 + 120_000)).toBe(1);
});

test("ignores bins in the future and bounds the number of keys", () => {
  const stats = new LockStats();
  stats.recordBusy("hot", T0 + 600_000);
  expect(busyOf(stats, "hot", T0)).toBe(0);
  for (let key = 0; key < 20_000; key++) stats.recordBusy(`k${key}`, T0);
  expect(busyOf(stats, "k9999", T0)).toBe(1);
  expect(busyOf(stats, "k19999", T0)).toBe(0);
  stats.recordBusy("k1", T0);
  expect(busyOf(stats, "k1", T0)).toBe(2);
});
