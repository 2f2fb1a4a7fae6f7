import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeStep, encodeStep, type JournalStep, type Step } from "../../../src/adapters/sqlite/rows.ts";

const anyText = fc.string({ unit: "binary" });
const entries = fc.array(fc.oneof(anyText, fc.maxSafeNat()), { maxLength: 6 });
const row: fc.Arbitrary<Step> = fc
  .record({
    table: anyText,
    id: anyText,
    version: fc.maxSafeNat(),
    text: fc.option(fc.tuple(fc.constantFrom("", "\n"), fc.json()).map((parts) => parts.join(""))),
    dueMs: fc.option(fc.double({ noNaN: true, noDefaultInfinity: true })),
    queue: fc.option(anyText),
    score: fc.option(fc.maxSafeNat()),
    left: entries,
    entered: entries,
  })
  .map((fields) => ({ kind: "row", row: fields }));

/** Encodes steps into a journal entry and parses it. */
function journaled(steps: readonly Step[]): unknown {
  const pieces: string[] = [];
  for (const step of steps) encodeStep(step, pieces);
  expect(pieces[0]?.startsWith(",") ?? true).toBe(true);
  return JSON.parse(`[${pieces.join("").slice(1)}]`);
}

test("decodes the rows that it encodes, whatever their names", () => {
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 4 }), (rows) => {
      const read = (journaled(rows) as JournalStep[]).map(decodeStep);
      const plain = rows.map((step) => {
        if (step.kind !== "row") return step;
        const { text } = step.row;
        const isNull = text === null || text.trim() === "null";
        const head = text?.startsWith("\n") ? "\n" : "";
        // -0 is 0 in JSON.
        const dueMs = step.row.dueMs === null ? null : step.row.dueMs + 0;
        return { ...step, row: { ...step.row, dueMs, text: isNull ? null : head + JSON.stringify(JSON.parse(text)) } };
      });
      expect(read).toEqual(plain);
    }),
    { numRuns: 500 },
  );
});

test("encodes a due time that is not a finite number as null", () => {
  const row = { table: "t", id: "i", version: 1, text: "{}", queue: null, score: null, left: [], entered: [] };
  for (const dueMs of [Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(journaled([{ kind: "row", row: { ...row, dueMs } }])).toEqual([
      ["row", "t", "i", 1, null, null, null, [], [], {}],
    ]);
  }
});
