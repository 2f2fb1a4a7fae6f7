import { describe, expect, test } from "vitest";
import { compile } from "../../../src/core/policy/compile.ts";
import { readPolicy } from "../../../src/core/policy/document.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { decide, policy, REQUEST } from "./samples.ts";

/** Whether an instant is within the hours. */
function isOpen(at: string, timeZone: string, hours: string): boolean {
  const when = `business_hours(now, "${timeZone}", "${hours}")`;
  const { effect } = decide(policy([{ match: { when } }]), { nowMs: Date.parse(at) });
  return effect === "allow";
}

const problemOf = (when: string): string => {
  const read = readPolicy({ name: "p", text: `rules:\n  - {id: a, decision: allow, match: {when: '${when}'}}` });
  return read.kind === "bad" ? read.problems.join("\n") : "";
};

describe("business_hours", () => {
  test.each([
    // Winter: UTC+1. Summer: UTC+2.
    ["2026-01-05T07:59:59Z", "Europe/Berlin", "Mon-Fri 09:00-17:00", false],
    ["2026-01-05T08:00:00Z", "Europe/Berlin", "Mon-Fri 09:00-17:00", true],
    ["2026-07-06T06:59:59Z", "Europe/Berlin", "Mon-Fri 09:00-17:00", false],
    ["2026-07-06T07:00:00Z", "Europe/Berlin", "Mon-Fri 09:00-17:00", true],
    ["2026-07-06T14:59:59Z", "Europe/Berlin", "Mon-Fri 09:00-17:00", true],
    ["2026-07-06T15:00:00Z", "Europe/Berlin", "Mon-Fri 09:00-17:00", false],
    // Sunday in Berlin, Saturday in New York.
    ["2026-03-01T01:00:00Z", "Europe/Berlin", "Sun 00:00-24:00", true],
    ["2026-03-01T01:00:00Z", "America/New_York", "Sun 00:00-24:00", false],
    // 29 March 2026: 02:00 is followed by 03:00 in Berlin.
    ["2026-03-29T00:59:59Z", "Europe/Berlin", "Sun 01:00-02:30", true],
    ["2026-03-29T01:00:00Z", "Europe/Berlin", "Sun 01:00-02:30", false],
    ["2026-03-29T01:00:00Z", "Europe/Berlin", "Sun 03:00-04:00", true],
    // 25 October 2026: 02:00 to 03:00 occurs twice.
    ["2026-10-25T00:30:00Z", "Europe/Berlin", "Sun 02:00-03:00", true],
    ["2026-10-25T01:30:00Z", "Europe/Berlin", "Sun 02:00-03:00", true],
    ["2026-10-25T02:00:00Z", "Europe/Berlin", "Sun 02:00-03:00", false],
    // A zone with an offset of 45 minutes.
    ["2026-01-05T03:15:00Z", "Asia/Kathmandu", "Mon 09:00-10:00", true],
    ["2026-01-05T03:14:59Z", "Asia/Kathmandu", "Mon 09:00-10:00", false],
    // The end is on the next day.
    ["2026-01-05T23:00:00Z", "UTC", "Mon 22:00-06:00", true],
    ["2026-01-06T05:59:59Z", "UTC", "Mon 22:00-06:00", true],
    ["2026-01-06T06:00:00Z", "UTC", "Mon 22:00-06:00", false],
    ["2026-01-05T05:00:00Z", "UTC", "Mon 22:00-06:00", false],
    // Lists, ranges across the weekend, several windows.
    ["2026-01-04T12:00:00Z", "UTC", "Fri-Mon 09:00-17:00", true],
    ["2026-01-07T12:00:00Z", "UTC", "Fri-Mon 09:00-17:00", false],
    ["2026-01-07T12:00:00Z", "UTC", "mon, wed 09:00-17:00", true],
    ["2026-01-09T15:30:00Z", "UTC", "Mon-Thu 09:00-17:00; Fri 09:00-15:00", false],
    ["2026-01-08T15:30:00Z", "UTC", "Mon-Thu 09:00-17:00; Fri 09:00-15:00", true],
  ])("%s in %s, %s: %s", (at, timeZone, hours, expected) => {
    expect(isOpen(at, timeZone, hours)).toBe(expected);
  });

  test.each([
    ['business_hours(now, "Berlin/Mitte", "Mon 09:00-17:00")', "time zone `Berlin/Mitte`, which is not a time zone"],
    ['business_hours(now, "UTC", "Mon-Fri")', "`Mon-Fri` is not of the form"],
    ['business_hours(now, "UTC", "Monday 09:00-17:00")', "`Monday` is not a day"],
    ['business_hours(now, "UTC", "Mon 09:00-25:00")', "times are between"],
    ['business_hours(now, "UTC", "Mon 09:75-17:00")', "times are between"],
    ['business_hours(now, "UTC", "Mon 09:00-09:00")', "a whole day is `00:00-24:00`"],
    [`business_hours(now, "UTC", "${"Mon 09:00-17:00;".repeat(20)}")`, "longer than 256 characters"],
    ["business_hours(now, tenant, topic)", "needs a literal time zone and literal hours"],
    ['business_hours(topic, "UTC", "Mon 09:00-17:00")', "no matching overload"],
  ])("refuses %s at its line", (when, problem) => {
    expect(problemOf(when)).toMatch(/^p:2: `when` /);
    expect(problemOf(when)).toContain(problem);
  });

  test("charges each call, so that a loop of calls ends at the limit", () => {
    const call = 'business_hours(now, "Europe/Berlin", "Mon 09:00-17:00")';
    const snapshot = compile(policy([{ match: { when: `input.all(x, !${call} || ${call})` }, decision: "deny" }]));
    const input = Array.from({ length: 2_000 }, (_, at) => at);
    const { reason } = evaluate(snapshot, { ...REQUEST, input, nowMs: Date.parse("2026-01-06T12:00:00Z") });
    expect(reason).toContain("exceeded the limit");
  });
});
