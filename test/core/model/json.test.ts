import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fitsWithin, jsonCopy } from "../../../src/core/model/json.ts";

const viaText = (value: unknown): unknown => JSON.parse(JSON.stringify(value ?? null));
const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value ?? null) ?? "");

/** Plain, nearly plain and other values. */
const anything = fc.anything({
  maxDepth: 4,
  withDate: true,
  withMap: true,
  withSet: true,
  withNullPrototype: true,
  withSparseArray: true,
  withTypedArray: true,
  withBoxedValues: true,
});

describe("a copy of a value", () => {
  test("equals a JSON round trip, for any value", () => {
    fc.assert(
      fc.property(anything, (value) => {
        expect(jsonCopy(value)).toStrictEqual(viaText(value));
      }),
      { numRuns: 2_000 },
    );
  });

  test("shares no object with the original", () => {
    const value = { list: [{ a: 1 }], of: { more: "text" } };
    const copy = jsonCopy(value) as typeof value;
    expect(copy).toEqual(value);
    expect(copy.list).not.toBe(value.list);
    expect(copy.list[0]).not.toBe(value.list[0]);
    expect(copy.of).not.toBe(value.of);
  });

  test("leaves special values to JSON", () => {
    const cases: unknown[] = [
      { at: new Date(0) },
      { a: undefined, b: [undefined, () => 1] },
      { nan: Number.NaN, far: Number.POSITIVE_INFINITY, zero: -0 },
      { toJSON: () => ({ said: "so" }) },
      Object.assign([1, 2], { toJSON: () => "a list" }),
      new Map([[1, 2]]),
      undefined,
    ];
    for (const value of cases) expect(jsonCopy(value)).toStrictEqual(viaText(value));
  });

  test("does not change prototypes", () => {
    const copy = jsonCopy(JSON.parse('{"__proto__": {"isAdmin": true}}')) as { isAdmin?: boolean };
    expect(copy.isAdmin).toBeUndefined();
    expect(Object.keys(copy)).toEqual(["__proto__"]);
  });

  test("fails like JSON on values without a JSON form", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    expect(() => jsonCopy(cycle)).toThrow(TypeError);
    expect(() => jsonCopy({ big: 1n })).toThrow(TypeError);
    let deep: unknown = "here";
    for (let count = 0; count < 100; count++) deep = { deep };
    expect(jsonCopy(deep)).toEqual(deep);
  });
});

describe("fitsWithin", () => {
  test("is never wrong, for any value", () => {
    fc.assert(
      fc.property(anything, fc.nat(400), (value, max) => {
        if (fitsWithin(value, max)) expect(bytesOf(value)).toBeLessThanOrEqual(max);
      }),
      { numRuns: 2_000 },
    );
  });

  test("counts escaped and multi-byte characters", () => {
    for (const text of ["\u0000".repeat(50), "ж".repeat(50), "𝄞".repeat(50), "\ud800".repeat(50)]) {
      expect(fitsWithin(text, bytesOf(text) - 1)).toBe(false);
    }
  });

  test("accepts small values and is inconclusive on others", () => {
    expect(fitsWithin({ a: ["some", "text", 1, true, null] }, 1_000)).toBe(true);
    expect(fitsWithin(undefined, 4)).toBe(true);
    expect(fitsWithin({ at: new Date(0) }, 1_000)).toBe(false);
    expect(fitsWithin(new Array(1_000).fill(0), 1_000)).toBe(false);
  });
});
