import { describe, expect, test } from "vitest";
import { cronTimes } from "../../../src/core/schedule/cron.ts";
import { timeZoneProblem } from "../../../src/core/schedule/time-zone.ts";
import { timesOf } from "./cron-oracle.ts";

const HOUR_MS = 3_600_000;

function timesBetween(cron: string, timeZone: string, fromMs: number, untilMs: number): readonly number[] {
  const times: number[] = [];
  const { next } = cronTimes(cron, timeZone);
  for (let ms = next(fromMs); ms !== null && ms < untilMs; ms = next(ms)) times.push(ms);
  return times;
}

const slots = (cron: string, timeZone: string, from: string, count: number): readonly string[] => {
  const { next } = cronTimes(cron, timeZone);
  const times: string[] = [];
  for (let ms = next(Date.parse(from)); ms !== null && times.length < count; ms = next(ms)) {
    times.push(new Date(ms).toISOString().slice(0, 16));
  }
  return times;
};

/** Gaps and repetitions of an hour, half an hour and a day. */
const CHANGES: readonly (readonly [zone: string, day: string])[] = [
  ["Europe/Berlin", "2026-03-29"],
  ["Europe/Berlin", "2026-10-25"],
  ["America/New_York", "2026-11-01"],
  ["Australia/Lord_Howe", "2026-04-05"],
  ["Australia/Lord_Howe", "2026-10-04"],
  ["America/Sao_Paulo", "2018-11-04"],
  ["Pacific/Apia", "2011-12-30"],
  ["Asia/Kolkata", "2026-01-01"],
];
const CRONS = ["30 2 * * *", "0 * * * *", "*/20 2 * * *", "0 1-3 * * *", "45 1,2 * * *", "15 0 * * *", "59 23 * * *"];

describe("daylight saving time", () => {
  test.each(CHANGES)("the times of %s around %s are those of a minute-by-minute model", (zone, day) => {
    const fromMs = Date.parse(`${day}T00:00:00Z`) - 14 * HOUR_MS;
    const untilMs = fromMs + 44 * HOUR_MS;
    for (const cron of CRONS) {
      expect(timesBetween(cron, zone, fromMs, untilMs), cron).toEqual(timesOf(cron, zone, fromMs, untilMs));
    }
  });

  test("a fixed time in a gap fires once at its end, one in a repeated hour at the first", () => {
    expect(slots("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2)).toEqual([
      "2026-03-29T01:00",
      "2026-03-30T00:30",
    ]);
    expect(slots("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2)).toEqual([
      "2026-10-25T00:30",
      "2026-10-26T01:30",
    ]);
  });

  test("a recurring time does not fire in a gap, and fires twice in a repeated hour", () => {
    expect(slots("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 3)).toEqual([
      "2026-10-25T00:00",
      "2026-10-25T01:00",
      "2026-10-25T02:00",
    ]);
    expect(slots("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 1)).toEqual(["2026-03-30T00:00"]);
    expect(slots("30 2 25 10 *", "Europe/Berlin", "2026-10-25T00:30:00Z", 1)).toEqual(["2027-10-25T00:30"]);
    expect(slots("*/30 2 25 10 *", "Europe/Berlin", "2026-10-25T00:30:00Z", 2)).toEqual([
      "2026-10-25T01:00",
      "2026-10-25T01:30",
    ]);
  });
});

describe("expressions", () => {
  test("nicknames, names, `L`, `W`, `#`, and leap days", () => {
    const from = "2026-01-15T00:00:00Z";
    expect(slots("@daily", "UTC", from, 1)).toEqual(["2026-01-16T00:00"]);
    expect(slots("0 9 * JAN MON-FRI", "UTC", from, 1)).toEqual(["2026-01-15T09:00"]);
    expect(slots("0 0 L * *", "UTC", from, 2)).toEqual(["2026-01-31T00:00", "2026-02-28T00:00"]);
    expect(slots("0 0 * * 1#1", "UTC", from, 1)).toEqual(["2026-02-02T00:00"]);
    expect(slots("0 0 15W * *", "UTC", "2026-02-01T00:00:00Z", 1)).toEqual(["2026-02-16T00:00"]);
    expect(slots("0 0 29 2 *", "UTC", from, 2)).toEqual(["2028-02-29T00:00", "2032-02-29T00:00"]);
  });

  test.each([
    ["0 0 30 2 *", null],
    ["0 0 31 4,6,9,11 *", null],
  ])("`%s` matches no date", (cron, expected) => {
    expect(cronTimes(cron, "UTC").next(0)).toBe(expected);
  });

  test.each([
    ["* * * *", "4 fields instead of 5"],
    ["* * * * * *", "6 fields instead of 5"],
    ["60 * * * *", "Invalid value for minute: 60"],
    ["*/0 * * * *", "illegal stepping: 0"],
    ["5-2 * * * *", "larger"],
    ["? * * * *", "a character that cron does not know"],
    ["2026-01-01T00:00:00Z", "1 field instead of 5"],
    ["@reboot", "unknown nickname"],
    [`${"1,".repeat(100)}1 * * * *`, "longer than 200 characters"],
  ])("rejects `%s`: %s", (cron, problem) => {
    expect(() => cronTimes(cron, "UTC")).toThrow(problem);
  });

  test.each(["Mars/Phobos", "", "+25:00", "Europe/Berlin\u0000", "x".repeat(1_000)])("`%s` is no time zone", (zone) => {
    expect(timeZoneProblem(zone)).toContain("IANA");
  });

  test.each(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])("`%s` is a time zone", (zone) => {
    expect(timeZoneProblem(zone)).toBeNull();
  });
});
