import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { applyPatch, diff, type Patch } from "../../src/ports/record-patch.ts";

const copied = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;
/** Applies the patch after a JSON round trip, like a store. */
const written = (before: unknown, after: unknown): unknown =>
  applyPatch(copied(before), copied(diff(before, after) as Patch));

describe("diff and applyPatch", () => {
  test("lead from any document to any other", () => {
    const name = fc.constantFrom("a", "b", "c", "", "s", "d", "constructor", "länge");
    const leaf = fc.oneof(fc.integer(), fc.string({ maxLength: 3 }), fc.boolean(), fc.constant(null));
    const few = { maxKeys: 3 };
    const inner = fc.dictionary(
      name,
      fc.oneof(leaf, fc.dictionary(name, leaf, few), fc.array(leaf, { maxLength: 3 })),
      few,
    );
    const document = fc.dictionary(name, fc.oneof(leaf, inner, fc.array(inner, { maxLength: 2 })), { maxKeys: 5 });
    fc.assert(
      fc.property(document, document, fc.array(name), (before, other, kept) => {
        // Some fields keep their identity, as in a modified copy of a record; lists grow.
        const after: Record<string, unknown> = { ...other };
        for (const key of kept) {
          const was = before[key];
          if (was !== undefined) after[key] = Array.isArray(was) ? [...was, "more"] : was;
        }
        expect(written(before, after)).toEqual(copied(after));
      }),
      { numRuns: 1_000 },
    );
  });

  test("contain only what changed", () => {
    const large = { text: "x".repeat(10_000) };
    const step = { state: "RUNNING", output: large };
    const before = { id: "r", input: large, steps: { a: step, b: step }, lines: [large], gone: 1 };
    const after = {
      ...before,
      steps: { a: step, b: { ...step, state: "SUCCEEDED" }, c: { state: "RUNNING" } },
      lines: [large, { seq: 1 }],
      gone: undefined,
    };
    expect(diff(before, after)).toEqual({
      p: { lines: [{ seq: 1 }] },
      i: { steps: { s: { c: { state: "RUNNING" } }, i: { b: { s: { state: "SUCCEEDED" } } } } },
      d: ["gone"],
    });
    expect(written(before, after)).toEqual(copied(after));
  });

  test("are empty for equal but distinct objects", () => {
    const before = { state: "RUNNING", retryState: {}, wait: { by: { name: "x" } }, tags: ["a"] };
    expect(diff(before, { ...before, retryState: {}, wait: { by: { name: "x" } }, tags: ["a"] })).toEqual({});
  });

  test("replace a list that is not an extension of the old one", () => {
    expect(diff({ list: [1, 2, 3] }, { list: [2, 3, 4] })).toEqual({ s: { list: [2, 3, 4] } });
    expect(diff({ list: [1, 2] }, { list: [1] })).toEqual({ s: { list: [1] } });
  });

  test("return null for non-objects and for the key `__proto__`", () => {
    expect(diff(null, {})).toBeNull();
    expect(diff({}, [])).toBeNull();
    expect(diff(undefined, { a: 1 })).toBeNull();
    expect(diff({}, JSON.parse('{"__proto__":1}'))).toBeNull();
    const labels = JSON.parse('{"__proto__":"x"}');
    expect(diff({ labels: {} }, { labels })).toEqual({ s: { labels } });
  });
});
