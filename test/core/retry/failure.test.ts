import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OVERDUE_MS_MAX, type RetryState, recordFailure } from "../../../src/core/retry/budget.ts";
import { actionFor, type BusAction, isDeliveryCapNear } from "../../../src/core/retry/bus-action.ts";
import { classifyFailure, delayFor, type FailureContext } from "../../../src/core/retry/failure.ts";
import { permanent, retryAfter } from "../../../src/core/retry/intent.ts";
import { interval, parsePolicy } from "../../../src/core/retry/policies.ts";
import { RETRY_CLASSES } from "../../../src/core/retry/retry-classes.ts";
import {
  BASELINE_BUS_LIMITS,
  BASELINE_RETRY,
  DEFAULT_BUS_LIMITS,
  DEFAULT_RETRY,
} from "../../../src/core/retry/settings.ts";
import { anyClass, anyStatement, anyWrappings, seeded, wrapAll } from "./arbitraries.ts";

const PROFILES = [
  { settings: DEFAULT_RETRY, limits: DEFAULT_BUS_LIMITS },
  { settings: BASELINE_RETRY, limits: BASELINE_BUS_LIMITS },
];

const at = (more: Partial<FailureContext> = {}): FailureContext => ({
  settings: DEFAULT_RETRY,
  retryState: {},
  nowMs: 0,
  deadlineMs: null,
  random: seeded(1),
  ...more,
});

describe("classifyFailure", () => {
  test("L1: never acknowledges a thrown value", () => {
    fc.assert(
      fc.property(fc.anything(), fc.nat(20), fc.constantFrom(...PROFILES), (thrown, failed, { settings, limits }) => {
        let retryState: RetryState = {};
        for (let count = 0; count <= failed; count += 1) {
          const failure = classifyFailure(thrown, at({ settings, retryState, nowMs: count }));
          retryState = failure.retryState;
          expect(failure.outcome).toMatchObject({
            kind: "retryable",
            retryClass: "unclassified",
            isBudgetExhausted: count >= 7,
          });
          expect(actionFor(failure.outcome, limits).kind).not.toBe("ack");
        }
      }),
    );
  });

  test("uses the unclassified policy for an error without intent", () => {
    let retryState: RetryState = {};
    for (let attempt = 1; attempt <= 8; attempt += 1) {
      const failure = classifyFailure(new Error("x"), at({ retryState, random: () => 0.999_999 }));
      expect(failure.outcome).toMatchObject({ delayMs: interval(DEFAULT_RETRY.unclassified.policy, attempt).hiMs });
      retryState = failure.retryState;
    }
  });

  test("uses and counts a stated delay", () => {
    const error = new Error("outer", { cause: retryAfter("run lock busy", 432, "lock_busy") });
    expect(classifyFailure(error, at({ nowMs: 7 }))).toEqual({
      outcome: {
        kind: "retryable",
        delayMs: 432,
        retryClass: "lock_busy",
        isBudgetExhausted: false,
        isDeliveryCapNear: false,
      },
      retryState: { lock_busy: { count: 1, sinceMs: 7, lastDelayMs: 432, lastMs: 7 } },
    });
    expect(classifyFailure(error, at({ isDeliveryCapNear: true })).outcome).toMatchObject({ isDeliveryCapNear: true });
  });

  test("L2: dead-letters a permanent error at once and charges no budget", async () => {
    const property = fc.asyncProperty(anyWrappings, async (wrappings) => {
      const retryState = recordFailure({}, "lock_busy", 0, 1);
      const failure = classifyFailure(await wrapAll(permanent("invalid transition"), wrappings), at({ retryState }));
      expect(failure.retryState).toBe(retryState);
      expect(actionFor(failure.outcome, DEFAULT_BUS_LIMITS)).toEqual({ kind: "deadLetter", reason: "permanent" });
    });
    await fc.assert(property);
  });

  test("L4: charges lock_busy to its own budget only", () => {
    let retryState: RetryState = recordFailure({}, "poison", 0, 5_000);
    const others = Object.entries(retryState);
    for (let nowMs = 0; nowMs < 9 * 60_000; nowMs += 500) {
      const failure = classifyFailure(retryAfter("busy", 500, "lock_busy"), at({ retryState, nowMs }));
      expect(failure.outcome).toMatchObject({ isBudgetExhausted: false });
      retryState = failure.retryState;
    }
    for (const [other, spent] of others) expect(retryState[other as "poison"]).toBe(spent);
    expect(classifyFailure(new Error("x"), at({ retryState })).outcome).toMatchObject({ isBudgetExhausted: false });
  });

  test("L12: dead-letters every class when its budget ends", () => {
    fc.assert(
      fc.property(anyClass, fc.nat(30_000), fc.option(fc.nat(1e8)), fc.constantFrom(...PROFILES), (...context) => {
        const [retryClass, delayMs, deadlineMs, { settings, limits }] = context;
        const error = retryAfter("x", delayMs, retryClass);
        let retryState: RetryState = {};
        let last: BusAction = { kind: "nak" };
        // Two days, without idle time: more failures than any count, later than any deadline.
        for (let nowMs = 0; nowMs <= 48 * 3_600_000; nowMs += delayMs + OVERDUE_MS_MAX) {
          const failure = classifyFailure(error, at({ settings, retryState, nowMs, deadlineMs }));
          retryState = failure.retryState;
          last = actionFor(failure.outcome, limits);
        }
        expect(last).toEqual({ kind: "deadLetter", reason: "budget" });
      }),
    );
  });

  test("changes only the retry state of its own class", async () => {
    const property = fc.asyncProperty(anyStatement, anyWrappings, anyClass, async (error, wrappings, earlier) => {
      const before = recordFailure({}, earlier, 0, 1);
      const { outcome, retryState } = classifyFailure(
        await wrapAll(error, wrappings),
        at({ retryState: before, nowMs: 5 }),
      );
      for (const retryClass of RETRY_CLASSES) {
        const own = outcome.kind === "retryable" && outcome.retryClass === retryClass;
        if (!own) expect(retryState[retryClass]).toBe(before[retryClass]);
      }
    });
    await fc.assert(property);
  });
});

describe("L3: a lock that is busy until its budget ends", () => {
  test.each(PROFILES)("never naks the last delivery", ({ settings, limits }) => {
    const DELIVER_MAX = 100;
    let retryState: RetryState = {};
    let delivery = 1;
    let last: BusAction = { kind: "nak" };
    for (let nowMs = 0; last.kind !== "deadLetter"; ) {
      const circumstances = at({
        settings,
        retryState,
        nowMs,
        isDeliveryCapNear: isDeliveryCapNear(delivery, DELIVER_MAX, limits.parkAfterMs !== null),
      });
      const delayMs = delayFor("lock_busy", circumstances);
      const failure = classifyFailure(retryAfter("run lock busy", delayMs, "lock_busy"), circumstances);
      last = actionFor(failure.outcome, limits);
      retryState = failure.retryState;
      nowMs += delayMs;
      if (last.kind === "nakDelay") expect(delivery).toBeLessThan(DELIVER_MAX);
      // A parked message returns as a new one.
      delivery = last.kind === "park" ? 1 : delivery + 1;
    }
    expect(last.reason).toBe("budget");
    // The defaults use the whole ten minutes, with more deliveries than the broker allows.
    if (limits === DEFAULT_BUS_LIMITS) expect(retryState.lock_busy?.count).toBeGreaterThan(10 * DELIVER_MAX - 100);
  });
});

describe("delayFor", () => {
  test("continues from the attempt and delay of its class", () => {
    const retryState: RetryState = {
      no_worker: { count: 3, sinceMs: 0, lastDelayMs: 9_000 },
      lock_busy: { count: 50, sinceMs: 0, lastDelayMs: 1 },
    };
    const random = () => 0.999_999_9;
    expect(delayFor("no_worker", { settings: DEFAULT_RETRY, retryState, random })).toBe(16_000);
    expect(delayFor("store_unavailable", { settings: DEFAULT_RETRY, retryState, random })).toBe(2_000);
    expect(delayFor("lock_busy", { settings: DEFAULT_RETRY, retryState, random })).toBe(650);
    const rule = { ...DEFAULT_RETRY.no_worker, policy: parsePolicy("decorrelated:1s:60s") };
    const settings = { ...DEFAULT_RETRY, no_worker: rule };
    expect(delayFor("no_worker", { settings, retryState, random })).toBe(27_000);
  });
});
