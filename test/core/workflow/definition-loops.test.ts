import { describe, expect, test } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";

const W = { topic: "demo.echo" };
const IN = (text: string) => `$\{${text}}`;
const LOOP = { type: "loop", until: "true", max_iterations: 3, timeout_sec: 60 };

type Case = readonly [what: string, steps: object, ...problems: string[]];

function check(steps: unknown, problems: readonly unknown[]): void {
  expect(compileWorkflow({ id: "w", steps })).toEqual({ kind: "bad", problems });
}

describe("checks loops", () => {
  test.each<Case>([
    [
      "missing keys",
      { l: { type: "loop" } },
      "steps.l: missing `steps`: a mapping from step ids to steps",
      "steps.l: missing `timeout_sec`: the limit of all iterations together",
      "steps.l: missing `max_iterations`: the largest number of iterations",
      "steps.l: missing `until`: the expression that ends the loop when it is true",
    ],
    [
      "wrong keys",
      { l: { ...LOOP, steps: { a: { ...W, topc: 1 } }, until: "1 + 1", max_iterations: 1_001, for_each: "input" } },
      expect.stringContaining("steps.l.for_each: is only allowed for type `worker`") as unknown as string,
      "steps.l.max_iterations: must be an integer from 1 to 1000, got 1001",
      "steps.l.until: has type `int`, but must be a boolean",
      "steps.l.steps.a.topc: unknown key; did you mean `topic`?",
    ],
    [
      "too many steps in all iterations",
      {
        l: {
          ...LOOP,
          max_iterations: 1_000,
          steps: Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`s${at}`, W])),
        },
      },
      "steps.l.max_iterations: 1000 iterations of 11 steps are 11000 steps; at most 10000 are allowed",
    ],
    [
      "a loop in a loop",
      { l: { ...LOOP, steps: { m: { ...LOOP, steps: { a: W } } } } },
      "steps.l.steps.m: a loop cannot contain a loop; move the inner one to a subworkflow",
    ],
    [
      "a loop as a branch",
      { p: { type: "parallel", branches: ["l"] }, l: { ...LOOP, steps: { a: W } } },
      "steps.p.branches[0]: `l` has type `loop`, which cannot be a branch; use a subworkflow",
    ],
    [
      "a compensated step",
      { l: { ...LOOP, steps: { a: { ...W, compensate: W } } } },
      "steps.l.steps.a.compensate: steps of a loop cannot be compensated: an earlier iteration cannot be undone; use a subworkflow",
    ],
    [
      "an id that is used twice",
      { a: W, l: { ...LOOP, steps: { a: W } } },
      "steps.l.steps.a: another step has this id; ids are unique in a workflow, also in loops",
    ],
    [
      "links into and out of a loop",
      { before: W, l: { ...LOOP, steps: { a: { ...W, depends_on: ["before"] } } }, after: { ...W, depends_on: ["a"] } },
      "steps.l.steps.a.depends_on[0]: `before` is not a step of the loop `l`; set `depends_on` on `l`",
      "steps.after.depends_on[0]: `a` is a step of the loop `l`; depend on `l`",
    ],
    [
      "arms and handlers across the border",
      {
        c: { type: "condition", condition: "true", [`${"th"}en`]: ["a"] },
        l: { ...LOOP, steps: { a: { ...W, on_error: "mend" } } },
        mend: W,
      },
      "steps.c.then[0]: `a` is a step of the loop `l`; only steps of the loop may name it",
      "steps.l.steps.a.on_error: `mend` is not a step of the loop `l`; name a step of the loop",
    ],
    [
      "the iteration outside of a loop",
      {
        a: { ...W, input: IN("iteration") },
        l: { ...LOOP, steps: { b: W } },
        c: { ...W, input: IN("previous.b.output") },
      },
      "steps.a.input: reads `iteration`, which exists only in the steps of a loop and in its `until`",
      "steps.c.input: reads `previous`, which exists only in the steps of a loop and in its `until`",
    ],
    [
      "reads of the previous iteration",
      {
        l: {
          ...LOOP,
          steps: {
            alpha: { ...W, input: { a: IN("previous.alpa.output"), b: IN("previous.alpha.outptu") } },
            b: { ...W, input: IN("previous") },
          },
        },
      },
      "steps.l.steps.alpha.input.b: `${previous.alpha.outptu}` reads `outptu` of step `alpha`; did you mean `output`?",
      "steps.l.steps.b.input: `${previous}` must name the step of the previous iteration, as in `previous.fetch.output`",
    ],
    [
      "a step of another iteration that the loop does not have",
      { x: W, l: { ...LOOP, until: "previous.x.output == 1", steps: { alpha: W } } },
      "steps.l.until: reads `previous.x`, which is not a step of the loop",
    ],
    [
      "a step that reads its own loop, or a later step of the body",
      { l: { ...LOOP, steps: { a: { ...W, input: [IN("steps.l.output"), IN("steps.b.output")] }, b: W } } },
      "steps.l.steps.a.input: reads `steps.l`, which does not precede this step; add it to `depends_on`",
      "steps.l.steps.a.input: reads `steps.b`, which does not precede this step; add it to `depends_on`",
    ],
  ])("%s", (_what, steps, ...problems) => check(steps, problems));

  test("`until` reads the body, later steps read its last iteration, and the body reads what precedes the loop", () => {
    const steps = {
      before: W,
      l: {
        ...LOOP,
        depends_on: ["before"],
        until: "steps.a.output.done || iteration == 2 || previous.a.output.x == 1",
        steps: {
          a: { ...W, input: IN("steps.before.output") },
          b: { ...W, input: IN("previous.b.output"), depends_on: ["a"] },
        },
      },
      after: { ...W, depends_on: ["l"], input: [IN("steps.l.output"), IN("steps.b.output")] },
    };
    const compiled = compileWorkflow({ id: "w", steps });
    expect(compiled).toMatchObject({ kind: "ok" });
    if (compiled.kind === "bad") return;
    const { plan } = compiled;
    expect(plan.order).toEqual(["before", "l", "a", "b", "after"]);
    expect(plan.steps.get("l")?.act).toMatchObject({ body: ["a", "b"], carries: ["a", "b"], iterationsMax: 3 });
    expect(plan.steps.get("b")).toMatchObject({ loopOf: "l", dependsOn: ["l", "a"] });
    expect(plan.steps.get("after")).toMatchObject({ loopOf: null, dependsOn: ["l"] });
  });

  test("a macro variable hides `iteration` and `previous`, as in definitions that were applied before loops existed", () => {
    const input = IN("input.items.map(iteration, iteration + 1) + input.items.map(previous, previous)");
    expect(compileWorkflow({ id: "w", steps: { a: { ...W, input } } }).kind).toBe("ok");
  });
});
