import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";
import type { Plan } from "../../../src/core/workflow/definition/plan.ts";
import { ACT_TYPES } from "../../../src/core/workflow/definition/read-action.ts";
import { readWorkflow } from "../../../src/core/workflow/definition/read-workflow.ts";

function planOf(steps: Record<string, unknown>, rest: Record<string, unknown> = {}): Plan {
  const compiled = compileWorkflow({ id: "w", steps, ...rest });
  if (compiled.kind === "bad") throw new Error(compiled.problems.join("\n"));
  return compiled.plan;
}

function problemsOf(steps: unknown, rest: Record<string, unknown> = {}): readonly string[] {
  const compiled = compileWorkflow({ id: "w", steps, ...rest });
  return compiled.kind === "bad" ? compiled.problems : [];
}

const W = { topic: "demo.echo" };
const THEN = "then";

describe("a definition", () => {
  test("compiles to a plan with defaults", () => {
    const plan = planOf({ fetch: W }, { name: "N", timeout_sec: 1.5 });
    expect(plan).toMatchObject({ id: "w", name: "N", timeoutMs: 1_500, order: ["fetch"], output: null });
    const step = plan.steps.get("fetch");
    expect(step).toMatchObject({
      act: { type: "worker", topic: "demo.echo" },
      dependsOn: [],
      onError: { kind: "fail" },
      forEach: null,
      retry: null,
      timeoutMs: null,
      meta: { priority: null, labels: {}, riskTags: [] },
    });
    const run = { id: "r", workflow_id: "w", tenant: "t" };
    expect(step?.input?.render({ input: { a: 1 }, run })).toEqual({ kind: "ok", value: { a: 1 } });
    const each = planOf({ each: { ...W, for_each: "input" } }).steps.get("each");
    expect(each?.forEach).toMatchObject({ parallelMax: 64, mode: "fail_fast", failuresMax: 0 });
    expect(each?.input?.render({ item: 7, index: 0, run })).toEqual({ kind: "ok", value: 7 });
  });

  test("compiles every step type", () => {
    const plan = planOf({
      ask: { type: "approval", reason: "why", allow_submitter: true, timeout_sec: 60 },
      test: { type: "condition", condition: "input.n > 1", [THEN]: "say" },
      say: { type: "notify", message: "hello", level: "warn" },
      choose: { type: "switch", switch: "input.kind", cases: { a: ["wait"], b: ["wait"] }, default: ["sub"] },
      wait: { type: "delay", delay_sec: "$" + "{input.sec}" },
      sub: { type: "subworkflow", workflow: "other", version: 3 },
      all: { type: "parallel", branches: ["one", "two", "three"], join: "n_of_m", n: 2 },
      one: W,
      two: { ...W, retry: { max_retries: 3, jitter: false }, labels: { env: "prod" } },
      three: { ...W, for_each: "[1, 2]", failure: { tolerate: 1 }, max_parallel: 5, output_path: "a.b" },
    });
    const acts = [...plan.steps.values()].map(({ act }) => act);
    expect(acts).toMatchObject([
      { type: "approval", bySubmitter: true },
      { type: "condition" },
      { type: "notify", level: "WARN" },
      { type: "switch", cases: ["a", "b"] },
      { type: "delay", until: null },
      { type: "subworkflow", workflowId: "other", version: 3 },
      { type: "parallel", branches: ["one", "two", "three"], need: 2 },
      W,
      W,
      W,
    ]);
    expect(plan.steps.get("wait")).toMatchObject({
      dependsOn: ["choose"],
      arms: [{ stepId: "choose", arms: ["a", "b"] }],
    });
    expect(plan.steps.get("two")).toMatchObject({
      branchOf: "all",
      dependsOn: ["all"],
      retry: { retriesMax: 3, initialMs: 1_000, maxMs: 60_000, multiplier: 2, jitter: "none" },
    });
    expect(plan.steps.get("three")).toMatchObject({
      forEach: { parallelMax: 5, mode: "wait_all", failuresMax: 1 },
      outputPath: ["a", "b"],
    });
  });

  test("a condition can be evaluated per item; then a step can need both arms", () => {
    const ask = {
      type: "condition",
      condition: "item > index",
      for_each: "input",
      max_parallel: 2,
      failure: "wait_all",
    };
    const always = { type: "condition", condition: "true", [THEN]: ["both"] };
    const plan = planOf({
      ask: { ...ask, [THEN]: ["yes"], else: ["no"] },
      ...{ yes: always, no: always, both: W },
      which: { type: "switch", switch: "item", cases: { a: [] }, for_each: "input" },
    });
    expect(plan.steps.get("ask")?.forEach).toMatchObject({ parallelMax: 2, mode: "wait_all" });
    expect(plan.steps.get("which")?.forEach).toMatchObject({ parallelMax: 64 });
  });

  test("the `for_each` of a parallel step applies to its branches", () => {
    const list = { for_each: "input.items", max_parallel: 3, failure: { tolerate: 2 } };
    const plan = planOf({
      all: { type: "parallel", branches: ["one", "two"], join: "any", timeout_sec: 5, ...list },
      one: W,
      two: { type: "transform", input: "$" + "{item + index}", timeout_sec: 1 },
    });
    expect(plan.steps.get("all")).toMatchObject({ forEach: null, timeoutMs: 5_000, act: { need: 1 } });
    const forEach = { parallelMax: 3, mode: "wait_all", failuresMax: 2 };
    expect(plan.steps.get("one")).toMatchObject({ forEach, timeoutMs: null });
    expect(plan.steps.get("two")).toMatchObject({ forEach, timeoutMs: 1_000 });
    const run = { id: "r", workflow_id: "w", tenant: "t" };
    const items = plan.steps.get("two")?.forEach?.items;
    expect(items?.evaluate({ input: { items: [7] }, run })).toEqual({ kind: "ok", value: [7] });
    // Without `input`, as in any other list.
    expect(plan.steps.get("one")?.input?.render({ item: 7, index: 0, run })).toEqual({ kind: "ok", value: 7 });
  });

  test("derives dependencies and dependents", () => {
    const plan = planOf({
      last: { ...W, depends_on: ["all"], input: "$" + "{steps.one.output}" },
      first: { ...W, on_error: "mend" },
      all: { type: "parallel", depends_on: ["first"], branches: ["one"] },
      one: W,
      mend: { ...W, input: "$" + "{steps.first.error.message}" },
    });
    expect(plan.order).toEqual(["first", "all", "last", "one", "mend"]);
    expect(plan.steps.get("mend")).toMatchObject({ dependsOn: ["first"], handles: ["first"] });
    expect(plan.steps.get("first")?.dependents).toEqual(["all", "mend"]);
    expect([...(plan.steps.get("last")?.ancestors ?? [])]).toEqual(["all", "first", "one"]);
    expect([...(plan.steps.get("one")?.ancestors ?? [])]).toEqual(["all", "first"]);
  });

  test("the examples are valid and cover every step type", () => {
    const folder = new URL("../../../examples/workflows/", import.meta.url);
    const files = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
    const names = [
      "approval-first",
      "every-step",
      "fan-out",
      "greet",
      "nightly-triage",
      "three-steps",
      "ticket-triage",
    ];
    expect(files).toEqual(names.map((name) => `${name}.yaml`));
    for (const file of files) {
      const read = readWorkflow({ file, text: readFileSync(new URL(file, folder), "utf8") });
      if (read.kind === "bad") throw new Error(read.problems.join("\n"));
      expect(read.plan.id).toBe(file.replace(".yaml", ""));
      if (file !== "every-step.yaml") continue;
      const types = new Set([...read.plan.steps.values()].map(({ act }) => act.type));
      expect([...types].sort()).toEqual([...ACT_TYPES].sort());
    }
  });
});

describe("a definition as text", () => {
  const problems = (text: string) => {
    const read = readWorkflow({ text, file: "w.yaml" });
    return read.kind === "bad" ? read.problems : [];
  };

  test("reports all problems with line, column, path and suggestion", () => {
    const text = [
      "id: w",
      "steps:",
      "  fetch: {topic: demo.echo, dependson: [x]}",
      "  store:",
      "    topic: demo echo",
      "    depends_on: [fetc]",
      "    input: {a: [1, '$" + "{steps.fetch.outputs}']}",
    ].join("\n");
    expect(problems(text)).toEqual([
      "w.yaml:3:29: steps.fetch.dependson: unknown key; did you mean `depends_on`?",
      "w.yaml:5:12: steps.store.topic: must be tokens of letters, digits, `_` and `-` joined by dots, at most 128 characters, such as `demo.echo`, got `demo echo`",
      "w.yaml:6:18: steps.store.depends_on[0]: unknown step `fetc`; did you mean `fetch`?",
      "w.yaml:7:20: steps.store.input.a[1]: `$" +
        "{steps.fetch.outputs}` reads `outputs` of step `fetch`; did you mean `output`?",
    ]);
  });

  test("reports problems of a parallel step's list once, where it is written", () => {
    const text = [
      "id: w",
      "steps:",
      "  all: {type: parallel, branches: [one, two], for_each: steps.last.output, max_parallel: 0}",
      "  one: {topic: demo.echo}",
      "  two:",
      "    topic: demo.echo",
      "    for_each: input",
      "    max_parallel: 2",
      "  last: {topic: demo.echo}",
    ].join("\n");
    expect(problems(text)).toEqual([
      "w.yaml:3:57: steps.all.for_each: reads `steps.last`, which does not precede this step; add it to `depends_on`",
      "w.yaml:3:90: steps.all.max_parallel: must be an integer from 1 to 10000, got 0",
      "w.yaml:7:15: steps.two.for_each: not allowed in a branch: the `for_each` of `all` applies; remove it, or use a subworkflow",
      "w.yaml:8:19: steps.two.max_parallel: not allowed in a branch: the `for_each` of `all` applies; remove it, or use a subworkflow",
    ]);
  });

  test.each([
    ["an alias", "id: w\nsteps: {a: &a {topic: x}, b: *a}", "w.yaml:2:30: aliases are not supported; repeat the value"],
    ["a key twice", "id: w\nsteps:\n  a: {topic: x, topic: y}", "w.yaml:3:17: duplicate key `topic`"],
    ["a step twice", "id: w\nsteps:\n  a: {topic: x}\n  a: {topic: y}", "w.yaml:4:3: duplicate key `a`"],
    [
      "two documents",
      "id: w\n---\nid: v",
      "w.yaml:2:1: multiple documents are not supported; use one file per document",
    ],
    [
      "what JSON cannot say",
      "id: w\nsteps: {a: {type: transform, input: .nan}}",
      "w.yaml:2:37: steps.a.input: is not a JSON value",
    ],
    [
      "bytes",
      "id: w\nsteps: {a: {type: transform, input: !!binary aGk=}}",
      "w.yaml:2:46: steps.a.input: is not a JSON value",
    ],
    ["nothing", "", "w.yaml:1:1: a workflow is a mapping with `id` and `steps`, got null"],
    ["too much", `id: ${"w".repeat(1024 * 1024)}`, "w.yaml: larger than 1 MiB; pass large values as run input"],
    [
      "many words",
      `a: [${"1,".repeat(60_000)}]`,
      "w.yaml: has more than 100000 tokens; pass large values as run input",
    ],
  ])("%s is refused", (_, text, problem) => {
    expect(problems(text)).toEqual([problem]);
  });

  /** The parser could crash the process on some of these. */
  test.each([
    ["brackets", "[".repeat(500_000)],
    ["brackets that seem to be closed", `["]",`.repeat(100_000)],
    ["maps", "{a: ".repeat(100_000)],
    ["dashes", "- ".repeat(400_000)],
    ["keys", "? ".repeat(400_000)],
    ["indentation", Array.from({ length: 1_000 }, (_, at) => `${" ".repeat(at)}a:`).join("\n")],
  ])("nested %s are refused before they are parsed", (_, text) => {
    expect(problems(text)).toEqual([expect.stringMatching(/^w\.yaml: (is nested too deeply|has more than)/)]);
  });

  test("rejects an alias bomb, and compares many keys in linear time", () => {
    const lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]"];
    for (const [at, name] of [..."bcdefghij"].entries()) {
      lines.push(`${name}: &${name} [${Array.from({ length: 9 }, () => `*${"abcdefghi"[at]}`).join(", ")}]`);
    }
    expect(problems(lines.join("\n"))).toEqual([expect.stringContaining("has tags, anchors, aliases or directives")]);
    expect(problems(lines.slice(0, 2).join("\n"))[0]).toContain("aliases are not supported");
    const keys = Array.from({ length: 14_000 }, (_, at) => `k${at}: 1`).join("\n");
    expect(problems(keys).length).toBeGreaterThan(50);
  });

  test("accepts JSON with tabs", () => {
    const text = JSON.stringify({ id: "w", steps: { a: { topic: "demo.echo" } } }, null, "\t");
    expect(readWorkflow({ text, file: "w.json" })).toMatchObject({ kind: "ok", document: JSON.parse(text) });
  });
});

describe("documents from outside", () => {
  test.each<[unknown, string]>([
    [null, "a workflow is a mapping with `id` and `steps`, got null"],
    [[], "a workflow is a mapping with `id` and `steps`, got a list"],
    [{ id: "w", steps: { a: { type: "transform", input: () => 1 } } }, "steps.a.input: is not a JSON value"],
    [
      { id: "w", steps: { a: { ...W, input: "x".repeat(1024 * 1024) } } },
      "the definition is larger than 1 MiB; pass large values as run input",
    ],
    [nested(70), "the definition is nested more than 64 deep; pass large values as run input"],
  ])("%# are refused", (document, problem) => {
    expect(compileWorkflow(document)).toEqual({ kind: "bad", problems: [problem] });
  });

  test("rejects names inherited by JavaScript objects", () => {
    expect(problemsOf(JSON.parse('{"__proto__": {"topic": "x"}, "constructor": {"topic": "x"}}'))).toEqual([
      "steps.__proto__: is not allowed as a step id; choose another",
      "steps.constructor: is not allowed as a step id; choose another",
    ]);
    expect(problemsOf({ a: { ...W, output_path: "a.__proto__" } })).toHaveLength(1);
    expect(problemsOf({ a: { ...W, depends_on: ["toString"] } })).toEqual([
      "steps.a.depends_on[0]: unknown step `toString`",
    ]);
  });
});

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let at = 0; at < depth; at += 1) value = [value];
  return value;
}
