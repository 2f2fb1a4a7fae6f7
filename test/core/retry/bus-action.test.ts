import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  actionFor,
  afterDeadLetter,
  afterPark,
  type BusAction,
  type DeliveryOutcome,
  isDeliveryCapNear,
} from "../../../src/core/retry/bus-action.ts";
import { DELAY_MS_MAX } from "../../../src/core/retry/duration.ts";
import { BASELINE_BUS_LIMITS, DEFAULT_BUS_LIMITS } from "../../../src/core/retry/settings.ts";
import { anyClass } from "./arbitraries.ts";

const retryable = (
  delayMs: number,
  more: { isBudgetExhausted?: boolean; isDeliveryCapNear?: boolean } = {},
): DeliveryOutcome => ({
  kind: "retryable",
  delayMs,
  retryClass: "lock_busy",
  isBudgetExhausted: false,
  ...more,
});

/** Rows of the contract: outcome, action, and the baseline action where it differs. */
const ROWS: [string, DeliveryOutcome, BusAction, BusAction?][] = [
  ["done", { kind: "done" }, { kind: "ack" }],
  ["L2: permanent", { kind: "permanent" }, { kind: "deadLetter", reason: "permanent" }],
  ["undecodable, 1st delivery", { kind: "undecodable", delivery: 1 }, { kind: "nakDelay", delayMs: 5_000 }],
  ["undecodable, 3rd delivery", { kind: "undecodable", delivery: 3 }, { kind: "nakDelay", delayMs: 5_000 }],
  ["undecodable, 4th delivery", { kind: "undecodable", delivery: 4 }, { kind: "deadLetter", reason: "undecodable" }],
  ["retryable at once", retryable(0), { kind: "nak" }],
  ["retryable, 1 ms", retryable(1), { kind: "nakDelay", delayMs: 1 }],
  ["retryable, 2 s", retryable(2_000), { kind: "nakDelay", delayMs: 2_000 }],
  ["L5: retryable, longer", retryable(2_001), { kind: "park", delayMs: 2_001 }, { kind: "nakDelay", delayMs: 2_001 }],
  [
    "L12: budget spent, short delay",
    retryable(1, { isBudgetExhausted: true }),
    { kind: "deadLetter", reason: "budget" },
  ],
  ["L12: budget spent, no delay", retryable(0, { isBudgetExhausted: true }), { kind: "deadLetter", reason: "budget" }],
  [
    "L12: budget spent, long delay",
    retryable(9_999, { isBudgetExhausted: true }),
    { kind: "deadLetter", reason: "budget" },
  ],
  [
    "L3: near the broker's cap",
    retryable(500, { isDeliveryCapNear: true }),
    { kind: "park", delayMs: 500 },
    { kind: "deadLetter", reason: "budget" },
  ],
  ["rounds a fraction up", retryable(0.2), { kind: "nakDelay", delayMs: 1 }],
  ["a negative delay", retryable(-3), { kind: "nak" }],
  ["NaN", retryable(Number.NaN), { kind: "nak" }],
];

describe("actionFor", () => {
  test.each(ROWS)("%s", (_, outcome, action, baseline = action) => {
    expect(actionFor(outcome, DEFAULT_BUS_LIMITS)).toEqual(action);
    expect(actionFor(outcome, BASELINE_BUS_LIMITS)).toEqual(baseline);
  });

  test("clamps an infinite delay to the longest timer", () => {
    const outcome = retryable(Number.POSITIVE_INFINITY);
    expect(actionFor(outcome, DEFAULT_BUS_LIMITS)).toEqual({ kind: "park", delayMs: DELAY_MS_MAX });
    expect(actionFor(outcome, BASELINE_BUS_LIMITS)).toEqual({ kind: "nakDelay", delayMs: DELAY_MS_MAX });
  });

  test("applies the configured limits", () => {
    const limits = { parkAfterMs: 0, poisonMax: 1, poisonDelayMs: 0 };
    expect(actionFor(retryable(1), limits)).toEqual({ kind: "park", delayMs: 1 });
    expect(actionFor(retryable(0), limits)).toEqual({ kind: "nak" });
    expect(actionFor({ kind: "undecodable", delivery: 1 }, limits)).toEqual({ kind: "nak" });
    expect(actionFor({ kind: "undecodable", delivery: 2 }, limits).kind).toBe("deadLetter");
  });

  const anyFailed: fc.Arbitrary<DeliveryOutcome> = fc.oneof(
    fc.record({ kind: fc.constant("permanent" as const) }),
    fc.record({ kind: fc.constant("undecodable" as const), delivery: fc.oneof(fc.integer(), fc.double()) }),
    fc.record({
      kind: fc.constant("retryable" as const),
      delayMs: fc.double(),
      retryClass: anyClass,
      isBudgetExhausted: fc.boolean(),
      isDeliveryCapNear: fc.boolean(),
    }),
  );
  const anyLimits = fc.record({
    parkAfterMs: fc.option(fc.nat()),
    poisonMax: fc.nat(10),
    poisonDelayMs: fc.double(),
  });

  test("L1: never acknowledges a failure", () => {
    fc.assert(
      fc.property(anyFailed, anyLimits, (outcome, limits) => {
        expect(actionFor(outcome, limits).kind).not.toBe("ack");
      }),
    );
  });

  test("L5: parks every delay longer than the limit", () => {
    fc.assert(
      fc.property(anyFailed, fc.nat(), (outcome, parkAfterMs) => {
        const limits = { ...DEFAULT_BUS_LIMITS, parkAfterMs };
        const action = actionFor(outcome, limits);
        if (outcome.kind === "retryable" && action.kind === "nakDelay") {
          expect(outcome.delayMs).toBeLessThanOrEqual(parkAfterMs);
        }
      }),
    );
  });

  test("L12: dead-letters an exhausted budget of every class and delay", () => {
    fc.assert(
      fc.property(fc.double(), anyClass, anyLimits, (delayMs, retryClass, limits) => {
        const action = actionFor({ kind: "retryable", delayMs, retryClass, isBudgetExhausted: true }, limits);
        expect(action).toEqual({ kind: "deadLetter", reason: "budget" });
      }),
    );
  });

  test("gives the broker whole positive delays", () => {
    fc.assert(
      fc.property(anyFailed, anyLimits, (outcome, limits) => {
        const action = actionFor(outcome, limits);
        if (action.kind === "nakDelay") expect(Number.isSafeInteger(action.delayMs) && action.delayMs > 0).toBe(true);
        if (action.kind === "park") expect(Number.isSafeInteger(action.delayMs) && action.delayMs >= 0).toBe(true);
      }),
    );
  });
});

describe("settlement after the write", () => {
  test("L3: terminates only after the dead letter is written", () => {
    expect(afterDeadLetter(true, 500)).toEqual({ kind: "term" });
    expect(afterDeadLetter(false, 500)).toEqual({ kind: "nakDelay", delayMs: 500 });
  });

  test("L1: acknowledges only a parked message", () => {
    expect(afterPark(true, 500)).toEqual({ kind: "ack" });
    expect(afterPark(false, 500)).toEqual({ kind: "nakDelay", delayMs: 500 });
  });

  test.each([0, -1, Number.NaN])("delays the retry of a failed write (delay %d)", (delayMs) => {
    expect(afterDeadLetter(false, delayMs)).toEqual({ kind: "nakDelay", delayMs: 1_000 });
    expect(afterPark(false, delayMs)).toEqual({ kind: "nakDelay", delayMs: 1_000 });
  });
});

describe("isDeliveryCapNear", () => {
  test.each([
    [49, 100, true, false],
    [50, 100, true, true],
    [100, 100, true, true],
    [89, 100, false, false],
    [90, 100, false, true],
    [1, 5, true, false],
    [3, 5, false, false],
    [4, 5, false, true],
    [1, 1, true, true],
    [1_000_000, -1, true, false],
    [1, 0, false, false],
  ])("delivery %d of %d is near (can be parked: %s): %s", (delivery, deliverMax, canPark, near) => {
    expect(isDeliveryCapNear(delivery, deliverMax, canPark)).toBe(near);
  });

  test("L3: is true for the last delivery", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e6 }), fc.boolean(), (deliverMax, canPark) => {
        expect(isDeliveryCapNear(deliverMax, deliverMax, canPark)).toBe(true);
      }),
    );
  });
});
