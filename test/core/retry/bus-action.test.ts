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

/** Each row of the contract: the outcome, the action, and the founding action where it is another. */
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
  ["a fraction, rounded up", retryable(0.2), { kind: "nakDelay", delayMs: 1 }],
  ["a negative delay", retryable(-3), { kind: "nak" }],
  ["NaN", retryable(Number.NaN), { kind: "nak" }],
];

describe("actionFor", () => {
  test.each(ROWS)("%s", (_, outcome, action, founding = action) => {
    expect(actionFor(outcome, DEFAULT_BUS_LIMITS)).toEqual(action);
    expect(actionFor(outcome, BASELINE_BUS_LIMITS)).toEqual(founding);
  });

  test("an endless delay is as long as a timer can hold", () => {
    const outcome = retryable(Number.POSITIVE_INFINITY);
    expect(actionFor(outcome, DEFAULT_BUS_LIMITS)).toEqual({ kind: "park", delayMs: DELAY_MS_MAX });
    expect(actionFor(outcome, BASELINE_BUS_LIMITS)).toEqual({ kind: "nakDelay", delayMs: DELAY_MS_MAX });
  });

  test("limits are settings", () => {
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

  test("L1: nothing that failed is acknowledged", () => {
    fc.assert(
      fc.property(anyFailed, anyLimits, (outcome, limits) => {
        expect(actionFor(outcome, limits).kind).not.toBe("ack");
      }),
    );
  });

  test("L5: no wait longer than the limit stays in the broker's window", () => {
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

  test("L12: a spent budget goes to the dead letters, whatever its class and delay", () => {
    fc.assert(
      fc.property(fc.double(), anyClass, anyLimits, (delayMs, retryClass, limits) => {
        const action = actionFor({ kind: "retryable", delayMs, retryClass, isBudgetExhausted: true }, limits);
        expect(action).toEqual({ kind: "deadLetter", reason: "budget" });
      }),
    );
  });

  test("delays for the broker are whole and positive", () => {
    fc.assert(
      fc.property(anyFailed, anyLimits, (outcome, limits) => {
        const action = actionFor(outcome, limits);
        if (action.kind === "nakDelay") expect(Number.isSafeInteger(action.delayMs) && action.delayMs > 0).toBe(true);
        if (action.kind === "park") expect(Number.isSafeInteger(action.delayMs) && action.delayMs >= 0).toBe(true);
      }),
    );
  });
});

describe("after the write", () => {
  test("L3: only a dead letter that stands is finished", () => {
    expect(afterDeadLetter(true, 500)).toEqual({ kind: "term" });
    expect(afterDeadLetter(false, 500)).toEqual({ kind: "nakDelay", delayMs: 500 });
  });

  test("L1: only what is parked is acknowledged", () => {
    expect(afterPark(true, 500)).toEqual({ kind: "ack" });
    expect(afterPark(false, 500)).toEqual({ kind: "nakDelay", delayMs: 500 });
  });

  test.each([0, -1, Number.NaN])("a store that failed is not asked again at once (delay %d)", (delayMs) => {
    expect(afterDeadLetter(false, delayMs)).toEqual({ kind: "nakDelay", delayMs: 1_000 });
    expect(afterPark(false, delayMs)).toEqual({ kind: "nakDelay", delayMs: 1_000 });
  });
});

describe("the broker's own cap", () => {
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

  test("L3: the last delivery is always near it", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e6 }), fc.boolean(), (deliverMax, canPark) => {
        expect(isDeliveryCapNear(deliverMax, deliverMax, canPark)).toBe(true);
      }),
    );
  });
});
