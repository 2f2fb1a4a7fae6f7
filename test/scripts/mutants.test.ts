import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseAst } from "vitest/node";
import { mutantsOf } from "../../scripts/mutants.mjs";

const mutated = (source: string): readonly string[] =>
  mutantsOf(source).map(({ start, end, text }) => source.slice(0, start) + text + source.slice(end));

test.each([
  ["a = (b < c) && d;", ["; ", "a = (b <= c) && d;", "a = (b < c) || d;"]],
  ["const a = b ?? 1;", ["const a = b ;", "const a = b ?? 2;"]],
  ["if (!a) b();", ["if (true) b();", "if (false) b();", "if (a) b();", "if (!a) ;"]],
  ["const a = b ? c : d;", ["const a = true ? c : d;", "const a = false ? c : d;"]],
  ["const a = [...b, c];", ["const a = [...[], c];"]],
  ["const a = { b: true, ...c };", ["const a = { b: false, ...c };", "const a = { b: true, ...{} };"]],
  ["const a = 10;", ["const a = 11;"]],
  ["const a = 1_000;", ["const a = 10000;"]],
  ["const a = b.every(c) ;", ["const a = b.some(c) ;"]],
])("%s", (source, expected) => {
  expect(
    mutated(source)
      .map((text) => text.trim())
      .sort(),
  ).toEqual(expected.map((text) => text.trim()).sort());
});

test.each(['import { a } from "a";', "type A = 1 | true;", 'log.write("warn", "a", { b: 1 });', 'const a = "b";'])(
  "has no mutants in %s",
  (source) => {
    expect(mutantsOf(source)).toEqual([]);
  },
);

test("every mutant of the sources parses and differs from the source", () => {
  const folder = join(import.meta.dirname, "..", "..", "src", "core", "jobs");
  let count = 0;
  for (const name of ["attempt.ts", "approval.ts"]) {
    const source = readFileSync(join(folder, name), "utf8");
    for (const text of mutated(source)) {
      count += 1;
      expect(text).not.toBe(source);
      expect(() => parseAst(text, { lang: "ts" }), text).not.toThrow();
    }
  }
  expect(count).toBeGreaterThan(150);
});
