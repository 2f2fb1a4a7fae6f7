import { describe, expect, test } from "vitest";
import { advanceSharedTime, GAP_MS, isGap, SteadyClock } from "../../src/ports/steady-clock.ts";
import { ManualTime } from "../contract/manual-time.ts";

const DAY_MS = 25 * 3_600_000;

describe("steady clock", () => {
  test.each([DAY_MS, -DAY_MS])("does not follow a step of the system clock by %i ms", async (stepMs) => {
    const time = new ManualTime();
    const clock = new SteadyClock(time);
    const startMs = clock.now();
    time.step(stepMs);
    expect(clock.now()).toBe(startMs);
    for (let second = 1; second <= 100; second++) {
      await time.pass(1_000);
      // Within the share by which it approaches the system clock.
      expect(Math.abs(clock.now() - startMs - second * 1_000)).toBeLessThanOrEqual(second * 5 + 1);
    }
    expect(Math.sign(clock.now() - startMs - 100_000)).toBe(Math.sign(stepMs));
    expect(clock.deviationMs).toBeCloseTo(stepMs, -4);
  });

  test("never goes back, and reaches a system clock that is a little behind", async () => {
    const time = new ManualTime();
    const clock = new SteadyClock(time);
    time.step(-1_000);
    let last = clock.now();
    for (let second = 0; second < 220; second++) {
      await time.pass(1_000);
      expect(clock.now()).toBeGreaterThanOrEqual(last);
      last = clock.now();
    }
    expect(Math.abs(clock.deviationMs)).toBeLessThanOrEqual(6);
  });

  test("counts a suspend of the machine as time that has passed", async () => {
    const time = new ManualTime();
    const clock = new SteadyClock(time);
    const startMs = clock.now();
    time.suspend(DAY_MS);
    await time.pass(1_000);
    expect(clock.now()).toBe(startMs + DAY_MS + 1_000);
    await time.pass(5_000);
    expect(clock.now()).toBe(startMs + DAY_MS + 6_000);
  });

  test("continues from a stored time that is ahead, not from one that has passed", () => {
    const time = new ManualTime();
    const clock = new SteadyClock(time);
    const startMs = clock.now();
    clock.continueFrom(startMs - 1);
    expect(clock.now()).toBe(startMs);
    clock.continueFrom(startMs + DAY_MS);
    expect(clock.now()).toBe(startMs + DAY_MS);
  });

  test("follows a shared time in both directions and then ignores the system clock", async () => {
    const time = new ManualTime();
    const clock = new SteadyClock(time);
    expect(clock.followedMs).toBeNull();
    for (const sharedMs of [5_000_000, 1_000_000]) {
      clock.follow(sharedMs);
      expect([clock.now(), clock.followedMs]).toEqual([sharedMs, sharedMs]);
    }
    // A moment behind: the clock waits.
    clock.follow(999_500);
    expect(clock.now()).toBe(1_000_000);
    time.step(DAY_MS);
    await time.pass(10_000);
    expect(clock.now()).toBe(1_009_500);
  });
});

describe("shared time", () => {
  const last = { atMs: 1_000_000, wallMs: 1_000_000 };

  test.each([
    ["starts with the clock of the server", null, 50, null, 50],
    ["continues with the time of a process if the store has lost it", null, 50, 999, 999],
    ["advances with the clock of the server", last, 1_001_000, 1_001_000, 1_001_000],
    ["takes a slow read for no step", last, 1_002_000, 1_000_500, 1_002_000],
    ["ignores a step forwards", last, 1_001_000 + DAY_MS, 1_001_000, 1_001_000],
    ["ignores a step back", last, 1_001_000 - DAY_MS, 1_001_000, 1_001_000],
    ["does not go back", last, 1_001_000 - DAY_MS, 900_000, 1_000_000],
    ["does not believe a process that was behind before", last, 1_001_000, 900_000, 1_001_000],
    ["passes while no process runs", last, 1_000_000 + DAY_MS, null, 1_000_000 + DAY_MS],
    ["stands still if the clock of the server was set back while no process ran", last, 0, null, 1_000_000],
  ] as const)("%s", (_, before, wallMs, ownMs, expected) => {
    expect(advanceSharedTime(before, wallMs, ownMs)).toEqual({ atMs: expected, wallMs });
  });

  test("approaches the clock of the server slowly", () => {
    const next = advanceSharedTime({ atMs: 2_000_000, wallMs: 1_000_000 }, 1_001_000, 2_001_000);
    expect(next.atMs).toBe(2_001_000 - 5);
  });

  test("finds a gap after a step and after a time without reads", () => {
    expect(isGap(null, 5)).toBe(false);
    expect(isGap(last, last.wallMs + GAP_MS)).toBe(false);
    expect(isGap(last, last.wallMs + GAP_MS + 1)).toBe(true);
    expect(isGap(last, last.wallMs - 1)).toBe(true);
  });
});
