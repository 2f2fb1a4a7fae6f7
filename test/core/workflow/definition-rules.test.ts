import { describe, expect, test } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";

const W = { topic: "demo.echo" };
const IN = (text: string) => `$\{${text}}`;

type Case = readonly [what: string, steps: unknown, ...problems: string[]];

function check(steps: unknown, problems: readonly unknown[]): void {
  expect(compileWorkflow({ id: "w", steps })).toEqual({ kind: "bad", problems });
}

const THEN = "then";
const question = (chosen: unknown, otherwise: unknown = []) => ({
  type: "condition",
  condition: "true",
  [THEN]: chosen,
  else: otherwise,
});

test("reports at most 100 problems", () => {
  const steps = Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`s${at}`, { topic: 5 }]));
  const compiled = compileWorkflow({ id: "w", steps });
  expect(compiled.kind === "bad" && compiled.problems).toHaveLength(100);
});

test.each([5, true, { a: "b" }])("rejects %j instead of a list of step ids", (depends) => {
  const compiled = compileWorkflow({ id: "w", steps: { a: W, b: { ...W, depends_on: depends } } });
  expect(compiled).toMatchObject({ kind: "bad", problems: [expect.stringContaining("must be a list of step ids")] });
});

describe("checks rules across steps", () => {
  const parallel = { type: "parallel", branches: ["b"] };
  test.each<Case>([
    [
      "an unknown step",
      { fetch: W, a: { ...W, depends_on: ["fecth"], on_error: "mend" } },
      "steps.a.depends_on[0]: unknown step `fecth`; did you mean `fetch`?",
      "steps.a.on_error: unknown step `mend`",
    ],
    [
      "unknown arms",
      {
        a: question(["x1"], "x2"),
        b: { type: "switch", switch: "input", cases: { k: ["x3"] }, default: ["x4"] },
      },
      "steps.a.then[0]: unknown step `x1`",
      "steps.a.else: unknown step `x2`",
      "steps.b.cases.k[0]: unknown step `x3`",
      "steps.b.default[0]: unknown step `x4`",
    ],
    ["a step twice", { a: W, b: { ...W, depends_on: ["a", "a"] } }, "steps.b.depends_on[1]: lists `a` twice"],
    ["itself", { a: { ...W, depends_on: ["a"] } }, "steps.a: `a` depends on itself; remove one of these dependencies"],
    [
      "a cycle",
      { a: { ...W, depends_on: ["c"] }, b: { ...W, depends_on: ["a"] }, c: { ...W, depends_on: ["b"] } },
      "steps.a: `a` depends on `c`, which depends on `b`, which depends on `a`; remove one of these dependencies",
    ],
    [
      "a cycle by way of an arm",
      { a: { ...question(["b"]), depends_on: ["b"] }, b: W },
      "steps.a: `a` depends on `b`, which depends on `a`; remove one of these dependencies",
    ],
    [
      "a handler of what it precedes",
      { a: { ...W, depends_on: ["h"], on_error: "h" }, h: W },
      "steps.a: `a` depends on `h`, which depends on `a`; remove one of these dependencies",
    ],
    [
      "two cycles and a step after both",
      {
        a: { ...W, depends_on: ["b"] },
        b: { ...W, depends_on: ["a"] },
        c: { ...W, depends_on: ["c", "a"] },
        d: { ...W, depends_on: ["a", "c"] },
      },
      "steps.a: `a` depends on `b`, which depends on `a`; remove one of these dependencies",
      "steps.c: `c` depends on itself; remove one of these dependencies",
    ],
    [
      "a branch with dependencies",
      { a: parallel, b: { ...W, depends_on: ["c"] }, c: W },
      "steps.b.depends_on: branches start with `a`; set `depends_on` there",
    ],
    [
      "a dependency on a branch",
      { a: parallel, b: W, c: { ...W, depends_on: ["b"] } },
      "steps.c.depends_on[0]: `b` is a branch of `a`; depend on `a`",
    ],
    ["a branch of two", { a: parallel, b: W, c: parallel }, "steps.c.branches[0]: `b` is already a branch of `a`"],
    [
      "a branch that handles",
      { a: parallel, b: W, c: { ...W, on_error: "b" } },
      "steps.c.on_error: `b` is a branch of `a`; only that step starts it",
    ],
    [
      "a branch in an arm",
      { a: parallel, b: W, c: question(["b"]) },
      "steps.c.then[0]: `b` is a branch of `a`; only that step starts it",
    ],
    [
      "a branch with on_error",
      { a: parallel, b: { ...W, on_error: "continue" } },
      "steps.b.on_error: failed branches are counted by `a`; remove it",
    ],
    [
      "a branch that branches",
      { a: parallel, b: { type: "parallel", branches: ["c"] }, c: W },
      "steps.a.branches[0]: `b` has type `parallel`, which cannot be a branch; use a subworkflow",
    ],
    [
      "both arms",
      {
        a: question(["b"], ["c"]),
        b: question(["d"]),
        c: question(["d"]),
        d: W,
      },
      "steps.d: unreachable: `a` would have to choose both `then` and `else`",
    ],
    [
      "after success and failure",
      {
        a: { ...W, on_error: "h" },
        h: W,
        c: { ...question(["d"]), depends_on: ["h"] },
        d: { ...W, depends_on: ["a"] },
      },
      "steps.d: unreachable: `a` would have to both fail and succeed",
    ],
    [
      "one output twice",
      { a: { ...W, output_path: "x.y" }, b: { ...W, output_path: "x" }, c: { ...W, output_path: "xy" } },
      "steps.b.output_path: conflicts with the `output_path` of `a` (`x.y`)",
    ],
    [
      "reading a step that is not an ancestor",
      { a: W, b: { ...W, input: IN("steps.a.output") } },
      "steps.b.input: reads `steps.a`, which does not precede this step; add it to `depends_on`",
    ],
    [
      "reading itself",
      { a: { ...W, input: IN("steps.a.output") } },
      "steps.a.input: reads `steps.a`, which is this step",
    ],
    [
      "reading an unknown step",
      { fetch: W, b: { ...W, depends_on: ["fetch"], condition: "steps.fetsh.output" } },
      "steps.b.condition: reads `steps.fetsh`: unknown step; did you mean `fetch`?",
    ],
    [
      "a name with a dash",
      { "my-step": W, b: { ...W, depends_on: ["my-step"], input: IN("steps.my") } },
      'steps.b.input: reads `steps.my`: unknown step; write `steps["my-step"]` for an id with `-`',
    ],
    [
      "context without a writer",
      { a: { ...W, output_path: "order.id" }, b: { ...W, depends_on: ["a"], input: IN("context.ordr.id") } },
      "steps.b.input: reads `context.ordr`, which is not the `output_path` of an earlier step; did you mean `order`?",
    ],
  ])("%s", (_what, steps, ...problems) => check(steps, problems));

  test("the run output may read every step and nothing else", () => {
    const of = (output: unknown) => compileWorkflow({ id: "w", steps: { a: { ...W, output_path: "x" } }, output });
    expect(of({ a: IN("steps.a.output"), x: IN("context.x") }).kind).toBe("ok");
    expect(of(IN("steps.b.output"))).toEqual({
      kind: "bad",
      problems: ["output: reads `steps.b`: unknown step; did you mean `a`?"],
    });
    expect(of(IN("item")).kind).toBe("bad");
  });

  test("reports problems of several steps", () => {
    check({ a: { topic: 7 }, b: { ...W, depends_on: ["a", "c"] }, c: { ...W, depends_on: ["b"] } }, [
      "steps.a.topic: must be tokens of letters, digits, `_` and `-` joined by dots, at most 128 characters, such as `demo.echo`, got 7",
      "steps.b: `b` depends on `c`, which depends on `b`; remove one of these dependencies",
    ]);
  });
});
