import { expect, test } from "vitest";
import { MEASURED_PER_SECOND, MeasuredUnits } from "../../../src/core/rollout/measured-units.ts";

/** Expected number of measured units per second, with units at an even rate. */
function measuredPerSecond(perSecond: number, seconds: number): readonly number[] {
  const units = new MeasuredUnits();
  return Array.from({ length: seconds }, (_, second) => {
    let measured = 0;
    for (let at = 0; at < perSecond; at++) measured += units.shareAt(1_000 * (second + at / perSecond));
    return measured;
  });
}

test("measures every unit up to the limit", () => {
  expect(measuredPerSecond(MEASURED_PER_SECOND, 3)).toEqual([50, 50, 50]);
});

test("measures the limit per second at any rate, and little more when the rate rises", () => {
  for (const perSecond of [200, 10_000]) {
    const [first, ...others] = measuredPerSecond(perSecond, 4);
    expect(first).toBeLessThan(MEASURED_PER_SECOND * (1.1 + Math.log(perSecond / MEASURED_PER_SECOND)));
    for (const measured of others) expect(measured).toBeCloseTo(MEASURED_PER_SECOND, 6);
  }
});

test("measures every unit again after a second without one", () => {
  const units = new MeasuredUnits();
  for (let at = 0; at < 1_000; at++) units.shareAt(500);
  expect(units.shareAt(1_500)).toBe(MEASURED_PER_SECOND / 1_000);
  expect(units.shareAt(3_500)).toBe(1);
});
