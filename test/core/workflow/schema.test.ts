import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Problems, problemText } from "../../../src/core/workflow/definition/fields.ts";
import { compileSchema } from "../../../src/core/workflow/definition/schema.ts";

function problemsOf(schema: unknown, value: unknown): readonly string[] {
  const problems = new Problems();
  const compiled = compileSchema(schema, "input", ["input_schema"], problems);
  if (compiled === null) throw new Error(problems.all.map(problemText).join("\n"));
  return compiled.problemsOf(value);
}

function refusalsOf(schema: unknown): readonly string[] {
  const problems = new Problems();
  compileSchema(schema, "input", ["input_schema"], problems);
  return problems.all.map(problemText);
}

const fits = (schema: unknown, value: unknown) => problemsOf(schema, value).length === 0;

describe("a schema", () => {
  test("reports problems with their path", () => {
    const item = { type: "object", required: ["sku"], properties: { sku: { type: "string" }, n: { minimum: 1 } } };
    const schema = { type: "object", properties: { items: { type: "array", items: item } } };
    const items = [{ sku: "a" }, { sku: "b", n: 0 }, {}, { sku: 7 }];
    expect(problemsOf(schema, { items })).toEqual([
      "input.items[1].n: must be at least 1, got 0",
      "input.items[2]: missing `sku`",
      "input.items[3].sku: must be a string, got 7",
    ]);
    expect(problemsOf({ properties: { "a b": { type: "null" } } }, { "a b": 1 })).toEqual([
      'input["a b"]: must be null, got 1',
    ]);
    const many = Array.from({ length: 100 }, (_, n) => n);
    expect(problemsOf({ items: { type: "string" } }, many)).toHaveLength(8);
  });

  test.each<[unknown, readonly unknown[], readonly unknown[]]>([
    [true, [1, null], []],
    [{ not: {} }, [], [1, null]],
    [{ type: ["string", "null"] }, ["", null], [1, [], {}]],
    [{ type: "integer" }, [1, 1.0, -3], [1.5, "1"]],
    [{ type: "object" }, [{}], [[], null, 1]],
    [{ enum: [1, "a", { b: [2] }] }, [1, "a", { b: [2] }], [2, { b: [3] }]],
    [{ const: { a: 1, b: 2 } }, [{ b: 2, a: 1 }], [{ a: 1 }]],
    [{ minLength: 2, maxLength: 3 }, ["ab", "👍👍", 7], ["a", "abcd", "👍"]],
    [{ pattern: "b+" }, ["abc", 1], ["ac"]],
    [{ minimum: 1, exclusiveMaximum: 2 }, [1, 1.9, "x"], [0, 2]],
    [{ exclusiveMinimum: 1, maximum: 2 }, [2], [1, 3]],
    [{ multipleOf: 0.1 }, [0.3, 1.1, 2], [0.35]],
    [{ minItems: 1, maxItems: 2, uniqueItems: true }, [[1], [1, "1"], {}], [[], [1, 2, 3], [{ a: 1 }, { a: 1 }]]],
    [{ prefixItems: [{ type: "string" }], items: false }, [[], ["a"]], [[1], ["a", 1]]],
    [{ properties: { a: { type: "string" } }, additionalProperties: false }, [{}, { a: "" }], [{ a: 1 }, { b: 1 }]],
    [{ additionalProperties: { type: "number" } }, [{ a: 1 }], [{ a: "" }]],
    [{ minProperties: 1, maxProperties: 1 }, [{ a: 1 }], [{}, { a: 1, b: 1 }]],
    [{ anyOf: [{ type: "string" }, { minimum: 5 }] }, ["", 5], [4]],
    [{ oneOf: [{ minimum: 1 }, { maximum: 5 }] }, [0, 6], [3]],
    [{ allOf: [{ minimum: 1 }, { maximum: 5 }] }, [3], [0, 6]],
    [{ format: "email", title: "t", default: 1, $comment: "c" }, ["x", 1], []],
    [{ required: ["constructor"] }, [{ constructor: 1 }], [{}]],
  ])("%j", (schema, good, bad) => {
    for (const value of good) expect([value, problemsOf(schema, value)]).toEqual([value, []]);
    for (const value of bad) expect([value, fits(schema, value)]).toEqual([value, false]);
  });

  test("may be recursive", () => {
    const tree = {
      type: "object",
      properties: { left: { $ref: "#" }, right: { $ref: "#/$defs/leaf" } },
      $defs: { leaf: { type: "number" } },
    };
    expect(problemsOf(tree, { left: { left: { right: "x" } } })).toEqual([
      "input.left.left.right: must be a number, got `x`",
    ]);
    expect(fits(tree, { left: { right: 1 } })).toBe(true);
    // A schema that refers only to itself never terminates.
    expect(problemsOf({ $ref: "#" }, 1)).toEqual(["input: is nested more than 128 deep"]);
  });

  test.each<[unknown, string]>([
    [7, "input_schema: must be a schema, such as `{type: object}`, got 7"],
    [{ tpye: "object" }, "input_schema.tpye: unknown keyword; did you mean `type`?"],
    [{ dependentRequired: {} }, "input_schema.dependentRequired: unknown keyword; not a supported JSON Schema keyword"],
    [
      { properties: { a: { type: "strng" } } },
      "input_schema.properties.a.type: must be `string`, `number`, `integer`, `boolean`, `null`, `array` or `object`, or a list of these, not `strng`; did you mean `string`?",
    ],
    [
      { pattern: "(?=a)" },
      "input_schema.pattern: is not a valid pattern: error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
    ],
    [{ minLength: -1 }, "input_schema.minLength: must be a non-negative integer, got -1"],
    [{ items: [{}] }, "input_schema.items: must be a schema; use `prefixItems` for a list"],
    [{ required: "a" }, "input_schema.required: must be a list of names, got `a`"],
    [
      { $ref: "#/$defs/addres", $defs: { address: {} } },
      "input_schema.$ref: `addres` is not defined in `$defs`; did you mean `address`?",
    ],
    [
      { $ref: "https://example.com/s.json" },
      "input_schema.$ref: must be `#` or `#/$defs/…`: external references are not supported, got `https://example.com/s.json`",
    ],
    [{ $defs: { a: { typ: 1 } } }, "input_schema.$defs.a.typ: unknown keyword; did you mean `type`?"],
    [
      { properties: { a: { $defs: {} } } },
      "input_schema.properties.a.$defs: is only allowed at the top level of a schema",
    ],
    [{ anyOf: [] }, "input_schema.anyOf: must be a list of schemas, got a list"],
  ])("%j is refused when it is applied", (schema, problem) => {
    expect(refusalsOf(schema)).toEqual([problem]);
  });

  test("is bounded for any value", () => {
    // This pattern backtracks exponentially in JavaScript.
    expect(fits({ pattern: "^(a+)+$" }, `${"a".repeat(5_000)}!`)).toBe(false);
    const branching = { anyOf: [{ items: { $ref: "#" } }, { items: { $ref: "#" }, minItems: 1 }] };
    let value: unknown = "x";
    for (let depth = 0; depth < 40; depth += 1) value = [value, value];
    const schema = { ...branching, not: { const: "x" } };
    expect(problemsOf(schema, value)[0]).toMatch(/^input: is (too large to validate|nested more)/);
    let deep: unknown = 1;
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
    expect(problemsOf({ items: { $ref: "#" } }, deep)).toEqual(["input: is nested more than 128 deep"]);
    expect(problemsOf({ enum: [1] }, deep)).toHaveLength(1);
  });
});

/** Reference implementation of the keywords. */
function naive(schema: unknown, value: unknown): boolean {
  if (typeof schema === "boolean") return schema;
  const s = schema as {
    readonly type?: string;
    readonly const?: unknown;
    readonly enum: readonly unknown[];
    readonly minimum: number;
    readonly maxLength: number;
    readonly minItems: number;
    readonly items: unknown;
    readonly required: readonly string[];
    readonly properties: Readonly<Record<string, unknown>>;
    readonly anyOf: readonly unknown[];
    readonly allOf: readonly unknown[];
    readonly oneOf: readonly unknown[];
    readonly not: unknown;
  };
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  const rules: Record<string, () => boolean> = {
    type: () => s.type === kind || (s.type === "integer" && Number.isInteger(value)),
    const: () => same(s.const, value),
    enum: () => s.enum.some((one) => same(one, value)),
    minimum: () => typeof value !== "number" || value >= s.minimum,
    maxLength: () => typeof value !== "string" || [...value].length <= s.maxLength,
    minItems: () => !Array.isArray(value) || value.length >= s.minItems,
    items: () => !Array.isArray(value) || value.every((one) => naive(s.items, one)),
    required: () => !isObject || s.required.every((name) => Object.hasOwn(value as object, name)),
    properties: () =>
      !isObject ||
      Object.entries(s.properties).every(
        ([name, one]) => !Object.hasOwn(value as object, name) || naive(one, (value as Record<string, unknown>)[name]),
      ),
    anyOf: () => s.anyOf.some((one) => naive(one, value)),
    allOf: () => s.allOf.every((one) => naive(one, value)),
    oneOf: () => s.oneOf.filter((one) => naive(one, value)).length === 1,
    not: () => !naive(s.not, value),
  };
  return Object.keys(s).every((keyword) => rules[keyword]?.());
}

test("agrees with the reference for every keyword", () => {
  const names = fc.constantFrom("a", "b");
  const scalar = fc.constantFrom<unknown>(null, true, 0, 1, 2.5, "", "ab");
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      scalar,
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(names, tie("value")),
    ),
  }));
  const { schema } = fc.letrec<{ schema: unknown }>((tie) => {
    const list = fc.array(tie("schema"), { minLength: 1, maxLength: 3 });
    const keywords = fc.record(
      {
        type: fc.constantFrom("string", "number", "integer", "boolean", "null", "array", "object"),
        const: scalar,
        enum: fc.array(scalar, { minLength: 1, maxLength: 4 }),
        minimum: fc.integer({ min: 0, max: 2 }),
        maxLength: fc.integer({ min: 0, max: 2 }),
        minItems: fc.integer({ min: 0, max: 2 }),
        items: tie("schema"),
        required: fc.array(names, { maxLength: 2 }),
        properties: fc.dictionary(names, tie("schema")),
        anyOf: list,
        allOf: list,
        oneOf: list,
        not: tie("schema"),
      },
      { requiredKeys: [] },
    );
    return { schema: fc.oneof({ depthSize: "small", withCrossShrink: true }, fc.boolean(), keywords) };
  });
  fc.assert(
    fc.property(schema, fc.array(value, { minLength: 1, maxLength: 5 }), (one, values) => {
      for (const each of values) expect([each, fits(one, each)]).toEqual([each, naive(one, each)]);
    }),
    { numRuns: 400 },
  );
});
