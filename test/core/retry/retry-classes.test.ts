import { expect, test } from "vitest";
import { isRetryClass, RETRY_CLASSES } from "../../../src/core/retry/retry-classes.ts";

test("the names of the classes", () => {
  expect(RETRY_CLASSES).toEqual([
    "poison",
    "unclassified",
    "lock_busy",
    "store_unavailable",
    "safety_unavailable",
    "no_worker",
    "throttled",
  ]);
});

test("isRetryClass accepts them only", () => {
  for (const retryClass of RETRY_CLASSES) expect(isRetryClass(retryClass)).toBe(true);
  for (const other of ["LOCK_BUSY", "lock", "", "length", 0, null, undefined, ["poison"]]) {
    expect(isRetryClass(other)).toBe(false);
  }
});
