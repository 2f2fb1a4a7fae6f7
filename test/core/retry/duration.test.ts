import fc from "fast-check";
import { expect, test } from "vitest";
import { clampDelay, DELAY_MS_MAX, formatDuration, parseDuration, quote } from "../../../src/core/retry/duration.ts";

const DAY = { msMin: 1, msMax: 24 * 3_600_000 };

test.each([
  ["500ms", 500],
  ["1s", 1_000],
  ["1.5s", 1_500],
  ["1.001s", 1_001],
  ["10m", 600_000],
  ["24h", 86_400_000],
])("reads `%s`", (text, ms) => {
  expect(parseDuration(text, DAY)).toBe(ms);
});

test.each([
  ["", "`` is not a duration; write a number and `ms`, `s`, `m` or `h`, as in `500ms`"],
  ["500", "`500` is not a duration"],
  ["5 s", "`5 s` is not a duration"],
  ["-5s", "`-5s` is not a duration"],
  ["5S", "`5S` is not a duration"],
  ["1e3ms", "`1e3ms` is not a duration"],
  ["5d", "`5d` is not a duration"],
  ["s", "`s` is not a duration"],
  ["1.s", "`1.s` is not a duration"],
  [".5s", "`.5s` is not a duration"],
  ["1.5ms", "`1.5ms` is not a whole number of milliseconds"],
  ["0ms", "`0ms` is too short; the minimum is `1ms`"],
  ["25h", "`25h` is too long; the maximum is `24h`"],
])("refuses `%s` and says why", (text, message) => {
  expect(() => parseDuration(text, DAY)).toThrow(message);
});

test.each([
  [0, "0ms"],
  [1, "1ms"],
  [1_000, "1s"],
  [1_500, "1500ms"],
  [90_000, "90s"],
  [600_000, "10m"],
  [7_200_000, "2h"],
])("writes %d as `%s`", (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test("round-trips through text", () => {
  fc.assert(
    fc.property(fc.integer({ min: DAY.msMin, max: DAY.msMax }), (ms) => {
      expect(parseDuration(formatDuration(ms), DAY)).toBe(ms);
    }),
  );
});

test("clamps delays to what a timer supports", () => {
  fc.assert(
    fc.property(fc.double(), (delayMs) => {
      const clamped = clampDelay(delayMs);
      expect(clamped >= 0 && clamped <= DELAY_MS_MAX).toBe(true);
      if (delayMs > 0 && delayMs <= DELAY_MS_MAX) expect(clamped).toBe(delayMs);
    }),
  );
  expect(clampDelay(Number.NaN)).toBe(0);
  expect(clampDelay(Number.POSITIVE_INFINITY)).toBe(2_147_483_647);
});

test("shortens long input in quotes", () => {
  expect(quote("abc")).toBe("`abc`");
  expect(quote("x".repeat(60))).toBe(`\`${"x".repeat(60)}\``);
  expect(quote("x".repeat(5_000))).toBe(`\`${"x".repeat(60)}…\``);
});
