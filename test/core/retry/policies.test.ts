import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatPolicy, interval, nextDelay, type Policy, parsePolicy } from "../../../src/core/retry/policies.ts";
import { anyAttempt, anyJittered, anyPolicy, anyUnit, seeded } from "./arbitraries.ts";

const FOUNDING_HELPER = "capped_exponential:1s:30s:500ms";
const JITTERED = ["bounded:500ms:0.3", "full:1s:30s", "full:1s:30s:200ms", "equal:1s:30s", "decorrelated:1s:30s"];

const anyPrevious = fc.oneof(fc.constant(undefined), fc.nat(), fc.double());

type Row = readonly [attempt: number, loMs: number, hiMs: number];

describe("the interval of each policy", () => {
  test.each<[string, ...Row[]]>([
    ["fixed:500ms", [1, 500, 500], [99, 500, 500]],
    ["bounded:500ms:0.3", [1, 350, 650], [99, 350, 650]],
    ["bounded:10ms:0.5", [1, 5, 15], [2, 5, 15]],
    ["bounded:100ms:0.29", [1, 71, 129], [2, 71, 129]],
    ["bounded:3ms:0.5", [1, 2, 4], [2, 2, 4]],
    ["bounded:500ms:1.5", [1, 0, 1_250], [2, 0, 1_250]],
    ["bounded:500ms:10", [1, 0, 5_500], [2, 0, 5_500]],
    ["capped_exponential:1s:30s:500ms", [1, 2_000, 2_500], [4, 16_000, 16_500]],
    ["capped_exponential:1s:16200ms:500ms", [4, 16_000, 16_200], [5, 16_200, 16_200]],
    ["full:1s:30s", [1, 0, 2_000], [5, 0, 30_000]],
    ["full:1s:30s:200ms", [1, 200, 2_000], [5, 200, 30_000]],
    ["equal:1s:30s", [1, 1_000, 2_000], [5, 15_000, 30_000]],
    ["equal:1s:30001ms", [4, 8_000, 16_000], [5, 15_001, 30_001]],
    ["decorrelated:1s:30s", [1, 1_000, 3_000], [3, 1_000, 27_000], [4, 1_000, 30_000]],
  ])("%s", (text, ...expected: Row[]) => {
    for (const [attempt, loMs, hiMs] of expected) {
      expect(interval(parsePolicy(text), attempt)).toEqual({ loMs, hiMs });
    }
  });

  test("decorrelated follows the previous delay, whatever the attempt", () => {
    const policy = parsePolicy("decorrelated:1s:30s");
    expect(interval(policy, 7, 2_000)).toEqual({ loMs: 1_000, hiMs: 6_000 });
    expect(interval(policy, 7, 2_000.9)).toEqual({ loMs: 1_000, hiMs: 6_000 });
    expect(interval(policy, 7, 30_000)).toEqual({ loMs: 1_000, hiMs: 30_000 });
    for (const senseless of [0, -5, Number.NaN]) {
      expect(interval(policy, 7, senseless)).toEqual({ loMs: 1_000, hiMs: 3_000 });
    }
    expect(interval(policy, 7, Number.POSITIVE_INFINITY)).toEqual({ loMs: 1_000, hiMs: 30_000 });
  });

  test("clamps invalid attempts", () => {
    const policy = parsePolicy("full:1s:30s");
    for (const attempt of [0, -3, Number.NaN, 1.9]) expect(interval(policy, attempt).hiMs).toBe(2_000);
    expect(interval(policy, 2.9).hiMs).toBe(4_000);
    expect(interval(policy, Number.POSITIVE_INFINITY).hiMs).toBe(30_000);
  });

  test("no attempt overflows", () => {
    fc.assert(
      fc.property(anyPolicy, anyAttempt, anyPrevious, (policy, attempt, previousMs) => {
        const { loMs, hiMs } = interval(policy, attempt, previousMs);
        expect(Number.isSafeInteger(loMs) && Number.isSafeInteger(hiMs)).toBe(true);
        expect(0 <= loMs && loMs <= hiMs).toBe(true);
      }),
    );
    expect(interval({ kind: "full", baseMs: 1, maxMs: 86_400_000, floorMs: 0 }, 1e9).hiMs).toBe(86_400_000);
    expect(interval({ kind: "decorrelated", baseMs: 86_399_999, maxMs: 86_400_000 }, 1e9).hiMs).toBe(86_400_000);
  });
});

describe("the next delay", () => {
  test("is an integer inside the interval, always", () => {
    fc.assert(
      fc.property(anyPolicy, anyAttempt, anyUnit, anyPrevious, (policy, attempt, unit, previousMs) => {
        const { loMs, hiMs } = interval(policy, attempt, previousMs);
        const delayMs = nextDelay(policy, attempt, () => unit, previousMs);
        expect(Number.isSafeInteger(delayMs)).toBe(true);
        expect(loMs <= delayMs && delayMs <= hiMs).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  test.each([
    [Number.NaN, "loMs"],
    [-1, "loMs"],
    [0, "loMs"],
    [1, "hiMs"],
    [Number.POSITIVE_INFINITY, "hiMs"],
  ] as const)("stays inside when the random number is %d: the end is %s", (random, end) => {
    for (const policy of JITTERED.map(parsePolicy)) {
      expect(nextDelay(policy, 3, () => random)).toBe(interval(policy, 3)[end]);
    }
  });

  test("reaches both ends and is uniform between them", () => {
    const policy = parsePolicy("bounded:10ms:0.5");
    const random = seeded(1);
    const counts = new Map<number, number>();
    for (let draw = 0; draw < 11_000; draw += 1) {
      const delayMs = nextDelay(policy, 1, random);
      counts.set(delayMs, (counts.get(delayMs) ?? 0) + 1);
    }
    expect([...counts.keys()].sort((a, b) => a - b)).toEqual([5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    for (const count of counts.values()) expect(Math.abs(count - 1_000)).toBeLessThan(150);
  });

  test("a floor moves the lower end without collecting delays there", () => {
    const policy = parsePolicy("full:1s:30s:1500ms");
    const random = seeded(2);
    const delays = Array.from({ length: 10_000 }, () => nextDelay(policy, 1, random));
    // max(1500, U[0, 2000]) would give 1500 in three of four cases.
    expect(delays.filter((delayMs) => delayMs === 1_500).length).toBeLessThan(100);
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(1_500);
  });

  test("fixed draws no random number", () => {
    const refuse = () => {
      throw new Error("drew a random number");
    };
    expect(nextDelay(parsePolicy("fixed:500ms"), 3, refuse)).toBe(500);
  });

  test("capped_exponential equals the baseline helper: min(base·2^attempt + jitter, max)", () => {
    const policy = parsePolicy("capped_exponential:1s:16200ms:500ms");
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), anyUnit, (attempt, unit) => {
        const jitterMs = Math.floor(unit * 501);
        expect(nextDelay(policy, attempt, () => unit)).toBe(Math.min(1_000 * 2 ** attempt + jitterMs, 16_200));
      }),
    );
  });
});

describe("the cap", () => {
  test("L9: the baseline helper collapses there, its documented weakness", () => {
    const policy = parsePolicy(FOUNDING_HELPER);
    const random = seeded(3);
    for (const attempt of [5, 6, 100, 1e9]) {
      expect(interval(policy, attempt)).toEqual({ loMs: 30_000, hiMs: 30_000 });
      expect(new Set(Array.from({ length: 1_000 }, () => nextDelay(policy, attempt, random)))).toEqual(
        new Set([30_000]),
      );
    }
  });

  test("L9: no other jittered policy collapses, at any attempt", () => {
    fc.assert(
      fc.property(anyJittered, anyAttempt, anyPrevious, (policy, attempt, previousMs) => {
        const { loMs, hiMs } = interval(policy, attempt, previousMs);
        expect(hiMs - loMs).toBeGreaterThanOrEqual(1);
      }),
    );
  });

  test.each(JITTERED)("L9: a thousand contenders on `%s` stay apart there", (text) => {
    const policy = parsePolicy(text);
    const random = seeded(4);
    let delays: number[] = Array.from({ length: 1_000 }, () => 30_000);
    for (const attempt of [50, 51, 52])
      delays = delays.map((previousMs) => nextDelay(policy, attempt, random, previousMs));
    const { loMs, hiMs } = interval(policy, 52, 30_000);
    const fullest = fullestOf(delays, loMs, hiMs, 10);
    // Ten bins hold 100 each on average; a clipped cap or floor would fill one of them.
    expect(new Set(delays).size).toBeGreaterThan(250);
    expect(fullest).toBeLessThan(text.startsWith("decorrelated") ? 250 : 150);
  });

  test("L11: a thousand clients get different delays", () => {
    const policy = parsePolicy("bounded:5s:0.5");
    const random = seeded(5);
    expect(new Set(Array.from({ length: 1_000 }, () => nextDelay(policy, 1, random))).size).toBeGreaterThan(500);
  });
});

describe("the config syntax", () => {
  test.each<[string, Policy]>([
    ["fixed:500ms", { kind: "fixed", delayMs: 500 }],
    ["bounded:500ms:0.3", { kind: "bounded", baseMs: 500, pct: 0.3 }],
    [FOUNDING_HELPER, { kind: "capped_exponential", baseMs: 1_000, maxMs: 30_000, jitterMs: 500 }],
    ["capped_exponential:1s:30s:0ms", { kind: "capped_exponential", baseMs: 1_000, maxMs: 30_000, jitterMs: 0 }],
    ["full:1s:30s", { kind: "full", baseMs: 1_000, maxMs: 30_000, floorMs: 0 }],
    ["full:1s:1s", { kind: "full", baseMs: 1_000, maxMs: 1_000, floorMs: 0 }],
    ["full:1s:30s:1ms", { kind: "full", baseMs: 1_000, maxMs: 30_000, floorMs: 1 }],
    ["equal:1s:30s", { kind: "equal", baseMs: 1_000, maxMs: 30_000 }],
    ["decorrelated:1s:30s", { kind: "decorrelated", baseMs: 1_000, maxMs: 30_000 }],
  ])("reads and writes `%s`", (text, policy) => {
    expect(parsePolicy(text)).toEqual(policy);
    expect(parsePolicy(` ${text}\n`)).toEqual(policy);
    expect(formatPolicy(policy)).toBe(text);
  });

  test("reads back every policy that it writes", () => {
    fc.assert(
      fc.property(anyPolicy, (policy) => {
        expect(parsePolicy(formatPolicy(policy))).toEqual(policy);
      }),
    );
  });

  test.each([
    ["", "unknown retry policy ``; examples are `fixed:500ms`, `bounded:500ms:0.3`"],
    ["toString:1s", "unknown retry policy `toString:1s`"],
    ["fixed", "retry policy `fixed`: 1 values expected, got 0; an example is `fixed:500ms`"],
    ["full:1s", "retry policy `full:1s`: 2 values expected, got 1; an example is `full:1s:30s`"],
    ["fixed:1s:2s:3s", "`2s:3s`"],
    ["full:1s:30x", "retry policy `full:1s:30x`: `30x` is not a duration"],
    ["full:1:30s", "`1` is not a duration"],
    ["fixed:0ms", "`0ms` is too short; the minimum is `1ms`"],
    ["equal:1s:25h", "`25h` is too long; the maximum is `24h`"],
    ["full:30s:1s", "the base `30s` is longer than the maximum `1s`"],
    ["capped_exponential:2s:1s:0ms", "the base `2s` is longer than the maximum `1s`"],
    ["bounded:500ms:0", "`0` is not a fraction above 0 and at most 10, with at most 4 decimals"],
    ["bounded:500ms:30%", "`30%` is not a fraction"],
    ["bounded:500ms:.3", "`.3` is not a fraction"],
    ["bounded:500ms:1.", "`1.` is not a fraction"],
    ["bounded:500ms:-0.3", "`-0.3` is not a fraction"],
    ["bounded:500ms:10.1", "`10.1` is not a fraction"],
    ["bounded:500ms:0.00001", "`0.00001` is not a fraction"],
    ["bounded:1ms:0.3", "no room for jitter: the first delay would be between `1ms` and `1ms`"],
    ["full:1s:30s:2s", "no room for jitter: the first delay would be between `2s` and `2s`"],
    ["full:1s:30s:5s", "no room for jitter: the first delay would be between `5s` and `2s`"],
    ["decorrelated:1s:1s", "no room for jitter"],
    ["equal:1ms:1ms", "no room for jitter"],
  ])("refuses `%s`, shows the bad part and an example", (text, message) => {
    expect(() => parsePolicy(text)).toThrow(message);
  });

  test("shortens bad input in errors", () => {
    for (const text of ["x".repeat(1e6), `fixed:${"9".repeat(1e6)}`]) {
      const message = messageOf(() => parsePolicy(text));
      expect(message).toContain("fixed:500ms");
      expect(message.length).toBeLessThan(400);
    }
  });
});

function fullestOf(delays: readonly number[], loMs: number, hiMs: number, bins: number): number {
  const counts = Array.from({ length: bins }, () => 0);
  for (const delayMs of delays) {
    const bin = Math.min(bins - 1, Math.floor(((delayMs - loMs) / (hiMs - loMs)) * bins));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return Math.max(...counts);
}

function messageOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("the work should have failed");
}
