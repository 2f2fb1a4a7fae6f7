import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DELAY_MS_MAX } from "../../../src/core/retry/duration.ts";
import {
  intentOf,
  isPermanent,
  permanent,
  retryAfter,
  retryClassOf,
  retryDelay,
  toWire,
} from "../../../src/core/retry/intent.ts";
import { anyClass, anyDelayMs, anyStatement, anyWrappings, WRAPPINGS, wrapAll } from "./arbitraries.ts";

// A second copy of the package, as with two versions in one dependency tree.
const COPY_PATH = "../../../src/core/retry/intent.ts?copy=2";
const copy: typeof import("../../../src/core/retry/intent.ts") = await import(/* @vite-ignore */ COPY_PATH);

describe("retryAfter", () => {
  test("wraps an error: its message, its cause, the delay and the class", () => {
    const cause = new TypeError("connection reset");
    const error = retryAfter(cause, 500, "store_unavailable");
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({
      name: "RetryableError",
      message: "connection reset",
      retryClass: "store_unavailable",
    });
    expect(error.cause).toBe(cause);
    expect(error.retryDelay()).toBe(500);
  });

  test.each([undefined, null])("nothing to wrap (%s) makes `retry requested`", (nothing) => {
    const error = retryAfter(nothing, 1);
    expect(error.message).toBe("retry requested");
    expect("cause" in error).toBe(false);
  });

  test("wraps other values as the cause", () => {
    expect(retryAfter("run lock busy", 1)).toMatchObject({ message: "run lock busy", cause: "run lock busy" });
    expect(retryAfter(Symbol("odd"), 1).message).toBe("Symbol(odd)");
    expect(retryAfter({ status: 503 }, 1).message).toBe("error without a message");
    expect(retryAfter(() => 1, 1).message).toBe("a function was thrown");
  });

  test("keeps long messages in memory", () => {
    expect(retryAfter(new Error("x".repeat(100_000)), 1).message).toHaveLength(100_000);
  });

  test.each([
    [-1, 0],
    [Number.NaN, 0],
    [Number.NEGATIVE_INFINITY, 0],
    [-0, 0],
    [0.5, 0.5],
    [Number.POSITIVE_INFINITY, DELAY_MS_MAX],
  ])("a delay of %d becomes %d", (context, expected) => {
    const error = retryAfter(new Error("x"), context);
    expect(error.retryDelay()).toBe(expected);
    expect(retryDelay(error)).toBe(expected);
  });

  test("without a class it is `unclassified`", () => {
    expect(retryClassOf(retryAfter(new Error("x"), 1))).toBe("unclassified");
  });

  test("logs show the statement and no methods", () => {
    expect(Object.keys(retryAfter(new Error("x"), 1))).toEqual(["retryDelayMs", "retryClass"]);
    expect(Object.keys(permanent(new Error("x")))).toEqual(["retryNever"]);
  });

  test("a copy by spreading or assigning still states it", () => {
    const error = retryAfter(new Error("x"), 70, "lock_busy");
    const expected = { kind: "retry", delayMs: 70, retryClass: "lock_busy" };
    expect(intentOf({ ...error })).toEqual(expected);
    expect(intentOf(Object.assign(new Error("copy"), error))).toEqual(expected);
  });
});

describe("permanent", () => {
  test("wraps an error and marks it permanent", () => {
    const cause = new Error("invalid transition");
    const error = permanent(cause);
    expect(error).toMatchObject({ name: "PermanentError", message: "invalid transition", retryNever: true });
    expect(error.cause).toBe(cause);
    expect(isPermanent(error)).toBe(true);
    expect(permanent(undefined).message).toBe("permanent failure");
    expect(permanent(null).message).toBe("permanent failure");
  });

  test.each([
    "permanent",
    { permanent: true },
    { retryNever: "true" },
    { retryNever: 1 },
    { fatal: true },
    Object.assign(new Error("x"), { retryable: false }),
  ])("nothing else says it: %j", (other) => {
    expect(isPermanent(other)).toBe(false);
  });
});

describe("reading by shape", () => {
  test.each([
    ["a method, of any class", { retryDelay: () => 500 }, 500],
    [
      "a method that needs its object",
      new (class {
        wait = 7;
        retryDelay() {
          return this.wait;
        }
      })(),
      7,
    ],
    ["a number, as in parsed JSON", { retryDelayMs: 500 }, 500],
    ["a method before a number", { retryDelay: () => 1, retryDelayMs: 2 }, 1],
    ["a negative method", { retryDelay: () => -5 }, 0],
    ["NaN", { retryDelay: () => Number.NaN }, 0],
    ["a negative number", { retryDelayMs: -5 }, 0],
    ["a broken method beside a number", { retryDelay: () => "soon", retryDelayMs: 2 }, 2],
    ["nothing", new Error("x"), undefined],
    [
      "a method that throws",
      {
        retryDelay: () => {
          throw new Error("no");
        },
      },
      undefined,
    ],
    ["a method that returns no number", { retryDelay: () => "500" }, undefined],
    ["a method that returns a promise", { retryDelay: async () => 500 }, undefined],
    ["a property that is no method", { retryDelay: 500 }, undefined],
    ["a number as text", { retryDelayMs: "500" }, undefined],
    ["null", null, undefined],
    ["undefined", undefined, undefined],
    ["text", "retryDelayMs", undefined],
    ["a number itself", 500, undefined],
  ])("%s", (_, error, expected) => {
    expect(retryDelay(error)).toBe(expected);
    expect(intentOf(error).kind).toBe(expected === undefined ? "unclassified" : "retry");
  });

  test("a broken statement does not hide a good one below it", () => {
    const broken = {
      retryDelay: () => {
        throw new Error("no");
      },
      cause: retryAfter("x", 9, "no_worker"),
    };
    expect(intentOf(broken)).toEqual({ kind: "retry", delayMs: 9, retryClass: "no_worker" });
  });

  test("an unknown class is still a retry", () => {
    const newer = { retryDelayMs: 5, retryClass: "quota_exceeded" };
    expect(intentOf(newer)).toEqual({ kind: "retry", delayMs: 5, retryClass: "unclassified" });
  });

  test("a class without a delay states nothing", () => {
    expect(intentOf({ retryClass: "lock_busy" })).toEqual({ kind: "unclassified" });
    expect(retryClassOf({ retryClass: "lock_busy" })).toBe("unclassified");
  });
});

describe("the outermost statement wins", () => {
  const inner = new Error("inner");

  test("the wrapper overrides the inner error", () => {
    expect(isPermanent(permanent(retryAfter(inner, 5)))).toBe(true);
    expect(isPermanent(retryAfter(permanent(inner), 5))).toBe(false);
    expect(intentOf(retryAfter(retryAfter(inner, 5, "lock_busy"), 9, "no_worker"))).toEqual({
      kind: "retry",
      delayMs: 9,
      retryClass: "no_worker",
    });
  });

  test("breadth-first: a shallow member of an aggregate before a deep cause", () => {
    const deep = new Error("1", { cause: new Error("2", { cause: retryAfter(inner, 1) }) });
    expect(retryDelay(new AggregateError([retryAfter(inner, 2)], "several", { cause: deep }))).toBe(2);
  });

  test("on one level: the cause, then the errors in their order", () => {
    const members = [retryAfter(inner, 2), retryAfter(inner, 3)];
    expect(retryDelay(new AggregateError(members))).toBe(2);
    expect(retryDelay(new AggregateError(members, "several", { cause: retryAfter(inner, 1) }))).toBe(1);
    expect(isPermanent(new AggregateError([permanent(inner), ...members]))).toBe(true);
    expect(isPermanent(new AggregateError([...members, permanent(inner)]))).toBe(false);
  });

  test("`retryNever` wins over a delay on the same error; the delay is still readable", () => {
    const both = { retryNever: true, retryDelayMs: 5 };
    expect(isPermanent(both)).toBe(true);
    expect(retryDelay(both)).toBe(5);
  });

  test("retryDelay is no verdict: it finds the delay below `never again`", () => {
    expect(retryDelay(permanent(retryAfter(inner, 5, "lock_busy")))).toBe(5);
    expect(retryClassOf(permanent(retryAfter(inner, 5, "lock_busy")))).toBe("lock_busy");
  });
});

describe("intent survives", () => {
  test("the second copy is a separate module", () => {
    expect(copy.retryAfter).not.toBe(retryAfter);
  });

  test.each(Object.entries(WRAPPINGS))("%s", async (_, wrapping) => {
    const error = retryAfter(new Error("x"), 500, "lock_busy");
    expect(intentOf(await wrapping(error))).toEqual({ kind: "retry", delayMs: 500, retryClass: "lock_busy" });
    expect(isPermanent(await wrapping(permanent(error)))).toBe(true);
  });

  test("any mix of wrapping, re-throwing and shipping, read by either copy", async () => {
    const property = fc.asyncProperty(anyStatement, anyWrappings, async (error, wrappings) => {
      const wrapped = await wrapAll(error, wrappings);
      for (const reader of [{ intentOf, retryDelay }, copy]) {
        expect(reader.intentOf(wrapped)).toEqual(intentOf(error));
        expect(reader.retryDelay(wrapped)).toBe(retryDelay(error));
      }
    });
    await fc.assert(property, { numRuns: 300 });
  });

  test("creation by another copy", () => {
    fc.assert(
      fc.property(anyDelayMs, anyClass, (delayMs, retryClass) => {
        const foreign = new Error("outer", { cause: copy.retryAfter(new Error("x"), delayMs, retryClass) });
        expect(intentOf(foreign)).toEqual({ kind: "retry", delayMs, retryClass });
        expect(isPermanent(new Error("outer", { cause: copy.permanent("x") }))).toBe(true);
      }),
    );
  });

  test("a depth far beyond what code wraps", () => {
    let error: Error = retryAfter("x", 500, "lock_busy");
    for (let depth = 0; depth < 5_000; depth += 1) error = new Error("outer", { cause: error });
    expect(retryDelay(error)).toBe(500);
    expect(retryDelay(toWire(error))).toBe(500);
  });
});
