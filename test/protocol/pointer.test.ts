import fc from "fast-check";
import { expect, test } from "vitest";
import { ownKeyIn } from "../../src/protocol/pointer.ts";

test.each([
  ["payload:default", "cordum:payload:default/job/j2/0000"],
  ["schema", "cordum:schema"],
  ["job", "redis://cordum:job/j2"],
])("L59: job `%s` cannot name the internal key %s", (jobId, pointer) => {
  expect(ownKeyIn(pointer, "ctx", jobId)).toBeNull();
  expect(ownKeyIn(pointer, "res", jobId)).toBeNull();
});

test("a key belongs to one job at most, whatever ids clients choose", () => {
  const token = fc.constantFrom("a", "b", "a:b", "b:a", "a.b", "acme~a", "acme~a:b", "res", "ctx:a", "run:step@1");
  const separator = fc.constantFrom(":", "/");
  const key = fc
    .tuple(token, separator, token, fc.option(fc.tuple(separator, token)))
    .map(([name, first, id, rest]) => `${name}${first}${id}${rest === null ? "" : rest.join("")}`);
  fc.assert(
    fc.property(key, token, token, (pointer, one, other) => {
      const owners = new Set([one, other].filter((id) => ownKeyIn(pointer, "res", id) !== null));
      expect(owners.size).toBeLessThanOrEqual(1);
    }),
    { numRuns: 2_000 },
  );
});

test("names of inputs are not results, and the reverse", () => {
  expect(ownKeyIn("redis://ctx/j", "res", "j")).toBeNull();
  expect(ownKeyIn("redis://res/j", "ctx", "j")).toBeNull();
  expect(ownKeyIn("redis://ctx/j", "ctx", "j")).toBe("ctx/j");
  expect(ownKeyIn("redis://inputs:j", "ctx", "j")).toBe("inputs:j");
});
