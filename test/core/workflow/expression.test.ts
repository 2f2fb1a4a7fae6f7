import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Expressions } from "../../../src/core/workflow/definition/expression.ts";
import { VALUE_LIMITS } from "../../../src/core/workflow/definition/json-value.ts";
import type { Scope } from "../../../src/core/workflow/definition/plan.ts";
import { compileTemplate } from "../../../src/core/workflow/definition/template.ts";

const OPEN = "$" + "{";
const RUN = { id: "r-1", workflow_id: "w", tenant: "acme" };

function evaluate(text: string, scope: Partial<Scope> = {}, wanted: "any" | "boolean" | "list" = "any"): unknown {
  const compiled = new Expressions().compile(text, { item: true }, wanted);
  if (compiled.kind === "bad") return `refused: ${compiled.problem}`;
  const result = compiled.expression.evaluate({ run: RUN, ...scope });
  return result.kind === "ok" ? result.value : `fault: ${result.problem}`;
}

function refsOf(text: string) {
  const compiled = new Expressions().compile(text, { item: true });
  if (compiled.kind === "bad") throw new Error(compiled.problem);
  const { steps, input, context } = compiled.expression.refs;
  return { steps: [...steps], input, context };
}

function render(source: unknown, scope: Partial<Scope> = {}): unknown {
  const compiled = compileTemplate(new Expressions(), source, { item: true });
  if (compiled.kind === "bad") return compiled.problems;
  const result = compiled.template.render({ run: RUN, ...scope });
  return result.kind === "ok" ? result.value : `fault: ${result.problem}`;
}

describe("an expression", () => {
  const scope: Partial<Scope> = {
    input: { n: 3, f: 1.5, items: [{ sku: "a" }, { sku: "b" }], none: null },
    steps: { "my-step": { state: "SUCCEEDED", output: { x: 1 }, error: null } },
    context: { order: { id: 7 } },
    item: { k: "v" },
    index: 4,
  };

  test.each<[string, unknown]>([
    ["input.n > 3", false],
    ["input.n == 3 && input.n in [1, 2, 3]", true],
    ["input.n + 1", 4],
    ["1 - input.n", -2],
    ["input.n * 2 / 4", 1.5],
    ["input.n % 2", 1],
    ["size(input.items) + input.n", 5],
    ["input.items[size(input.items) - 1].sku", "b"],
    ["input.items.map(one, one.sku)", ["a", "b"]],
    ['steps["my-step"].output.x', 1],
    ['steps["my-step"]', { state: "SUCCEEDED", output: { x: 1 }, error: null }],
    ["context.order.id", 7],
    ["run.workflow_id + '/' + run.id + '/' + run.tenant", "w/r-1/acme"],
    [
      "{'item': item.k, 'next': index + 1, 'mixed': [1, 'a', null, true]}",
      { item: "v", next: 5, mixed: [1, "a", null, true] },
    ],
    ["9007199254740991", 9007199254740991],
    ["9007199254740993", "9007199254740993"],
    ["5u", 5],
    ["{1: 'one'}", { "1": "one" }],
    ["timestamp('2030-01-01T00:00:00Z') + duration('90m')", "2030-01-01T01:30:00.000Z"],
    ["duration('1.5s')", "1.5s"],
    ["b'hi'", "aGk="],
    ["re2(input.items[0].sku, '^a$')", true],
  ])("%s", (text, value) => {
    expect(evaluate(text, scope)).toEqual(value);
  });

  test.each([
    ["input.missing", "fault: no such key: missing"],
    ["1.0 / 0.0", "fault: the result contains `Infinity`, which is not a JSON number"],
    ["type(1)", "fault: the result contains a type, which is not a JSON value"],
    ["input.constructor", "fault: no such key: constructor"],
    ["steps", 'refused: must name the step that it reads, as in `steps.fetch.output` or `steps["my-step"].output`'],
    ["steps[input.which].output", /^refused: must name the step that it reads/],
    ["'a' in steps", /^refused: must name the step/],
    ["steps.a.outputs", "refused: reads `outputs` of step `a`; did you mean `output`?"],
    ["run.name", "refused: reads `run.name`; a run has `id`, `workflow_id` and `tenant`"],
    ["input.items.map(steps, steps.x)", "refused: redefines `steps`; choose another variable name"],
    ["inptu.n", "refused: is invalid at column 1: unknown variable: inptu; did you mean `input`?"],
    ["input.s.matches('a')", /^refused: uses `matches`/],
    ["re2(input.s, input.p)", /^refused: needs a literal pattern for `re2`/],
    ["each(input, 1)", /^refused: .*found no matching overload for 'each/],
    [
      `input.n == ${"1".repeat(3_000)}`,
      /^refused: is longer than 2048 characters; move a part of it to a `transform` step/,
    ],
  ])("%s: says why not", (text, problem) => {
    expect(evaluate(text, scope)).toMatch(problem);
  });

  test("checks the type of the result", () => {
    expect(evaluate("1 + 1", {}, "boolean")).toBe("refused: has type `int`, but must be a boolean");
    expect(evaluate("input", { input: "yes" }, "boolean")).toBe("fault: is not a boolean");
    expect(evaluate("'abc'", {}, "list")).toBe("refused: has type `string`, but must be a list");
    expect(evaluate("input", { input: { a: 1 } }, "list")).toBe("fault: is not a list");
  });

  test("knows `item` and `index` only within a `for_each`", () => {
    const compiled = new Expressions().compile("item.sku", { item: false });
    expect(compiled).toEqual({
      kind: "bad",
      problem: "is invalid at column 1: unknown variable: item; `item` and `index` exist only in steps with `for_each`",
    });
    expect(new Expressions().compile("input.items.map(item, item.sku)", { item: false }).kind).toBe("bad");
  });

  test("reports its reads without evaluation", () => {
    expect(refsOf('steps.a.output.steps + steps["b-c"].output')).toEqual({
      steps: ["a", "b-c"],
      input: false,
      context: false,
    });
    expect(refsOf("has(steps.a.output.x) ? input.y : context.z")).toEqual({ steps: ["a"], input: true, context: true });
    expect(refsOf("[1].map(x, x + steps.c.output)").steps).toEqual(["c"]);
    // A string literal is not a read.
    expect(refsOf("'steps.a.output input'")).toEqual({ steps: [], input: false, context: false });
  });

  test("is bounded in time and size", () => {
    const many = Array.from({ length: 8_000 }, (_, n) => n);
    const over = "fault: the expression exceeded the limit of 400000 evaluation steps";
    expect(evaluate("input.all(x, input.all(y, input.exists(z, z == x + y)))", { input: many })).toBe(over);
    expect(evaluate("input.exists(x, input.all(y, x == y)) || true", { input: many })).toBe(over);
    expect(evaluate("input.map(x, {'n': x, 'even': x % 2 == 0})", { input: many })).toHaveLength(8_000);
    const text = "a".repeat(200_000);
    expect(evaluate("re2(input, '(a+)+$')", { input: `${text}!` })).toBe(false);
    const large = Array.from({ length: 60 }, () => "input").join(", ");
    expect(evaluate(`[${large}]`, { input: text })).toBe(
      `fault: the result exceeds ${VALUE_LIMITS.size} characters of JSON`,
    );
  });
});

describe("a template", () => {
  test("a single expression keeps the type of its value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const plain = JSON.parse(JSON.stringify(value)) as unknown;
        expect(render("$" + "{input}", { input: plain })).toEqual(plain);
        expect(render({ deep: ["$" + "{input}"] }, { input: plain })).toEqual({ deep: [plain] });
      }),
    );
  });

  test("inserts strings as they are and other values as JSON", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const plain = JSON.parse(JSON.stringify(value)) as unknown;
        const text = typeof plain === "string" ? plain : JSON.stringify(plain);
        expect(render("a $" + "{input}!", { input: plain })).toBe(`a ${text}!`);
      }),
    );
  });

  test("without an expression is constant; `$${` is an escape", () => {
    const signs = fc.string({ unit: fc.constantFrom("$", "{", "}", "a", "'") });
    fc.assert(
      fc.property(signs, (text) => {
        expect(render({ text: text.replaceAll(OPEN, () => `$${OPEN}`) })).toEqual({ text });
      }),
    );
  });

  test.each<[string, unknown]>([
    [`$\{{'a': {'b': "}"}}}`, { a: { b: "}" } }],
    [`\${'\\'}'} and \${r'\\d}'}`, "'} and \\d}"],
    [`$\{"""a"}b"""}`, 'a"}b'],
    ["${1 // a } in a comment\n}", 1],
    ["${1}${'x'}${null}${[1, 2]}", "1xnull[1,2]"],
    [" ${1}", " 1"],
    ["", ""],
    ["$", "$"],
  ])("%s: ends where the expression does", (source, value) => {
    expect(render(source)).toEqual(value);
  });

  test("reports the path of a problem", () => {
    expect(render({ a: [1, "${input.x"] })).toEqual([
      { at: ["a", 1], text: "has an unclosed `${`; write `$${` for a literal one" },
    ]);
    expect(render({ "${a}": 1 })).toEqual([{ at: ["${a}"], text: "is a key; only values can be templates" }]);
    expect(render({ a: "${inptu}" })).toEqual([
      {
        at: ["a"],
        text: "`${inptu}` is invalid at column 1: unknown variable: inptu; did you mean `input`?",
      },
    ]);
    let deep: unknown = 1;
    for (let at = 0; at < 40; at += 1) deep = [deep];
    expect(render(deep)).toEqual([{ at: Array.from({ length: 33 }, () => 0), text: "is nested more than 32 deep" }]);
  });

  test("shares one budget between all its parts", () => {
    const input = Array.from({ length: 5_000 }, (_, n) => n);
    const part = "${input.all(x, x >= 0)}";
    expect(
      render(
        Array.from({ length: 3 }, () => part),
        { input },
      ),
    ).toEqual([true, true, true]);
    expect(
      render(
        Array.from({ length: 20 }, () => part),
        { input },
      ),
    ).toBe("fault: the expression exceeded the limit of 400000 evaluation steps");
    const text = "a".repeat(VALUE_LIMITS.size / 4);
    expect(
      render(
        Array.from({ length: 5 }, () => "${input}"),
        { input: text },
      ),
    ).toMatch(/^fault: the result exceeds/);
  });
});
