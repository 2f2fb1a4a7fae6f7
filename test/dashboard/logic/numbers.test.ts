import { expect, test } from "vitest";
import { bytes, counted, duration, percent, rate } from "../../../dashboard/src/kit/numbers.ts";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

test.each([
  [0, "0 ms"],
  [0.4, "<1 ms"],
  [999, "999 ms"],
  [1_500, "1.5 s"],
  [3_000, "3 s"],
  [59_999, "59 s"],
  [125_000, "2 min 5 s"],
  [12 * 60_000 + 30_000, "12 min"],
  [3_600_000 * 3 + 60_000, "3 h 1 min"],
  [86_400_000 * 12, "12 d"],
])("%s ms is %s", (ms, text) => expect(plain(duration(ms))).toBe(text));

test("numbers have units", () => {
  expect([rate(0.251), counted(1, "job"), counted(1_200, "job"), bytes(1_234), bytes(12)].map(plain)).toEqual([
    "0.25/s",
    "1 job",
    "1,200 jobs",
    "1.23 kB",
    "12 B",
  ]);
  expect([percent(0), percent(0.001), percent(0.5)].map(plain)).toEqual(["0 %", "<1 %", "50 %"]);
});
