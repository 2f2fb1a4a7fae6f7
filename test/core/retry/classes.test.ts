import { expect, test } from "vitest";
import { isRetryClass, RETRY_CLASSES } from "../../../src/core/retry/classes.ts";

test("the classes are these, spelled so", () => {
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

test("the guard knows them and nothing else", () => {
  for (const retryClass of RETRY_CLASSES) expect(isRetryClass(retryClass)).toBe(true);
  for (const other of ["LOCK_BUSY", "lock", "", "length", 0, null, undefined, ["poison"]]) {
    expect(isRetryClass(other)).toBe(false);
  }
});
