import { describe, expect, test } from "vitest";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";

const problemsOf = (step: object, more: object = {}): readonly string[] => {
  const worker = "type" in step ? {} : { topic: "do" };
  const compiled = compileWorkflow({ id: "w", steps: { a: { ...worker, ...step }, ...more } });
  return compiled.kind === "ok" ? [] : compiled.problems;
};

describe("`compensate`", () => {
  test("has the keys of a worker job, and gets input and output of the step by default", () => {
    const retry = { max_retries: 2 };
    const compensate = { topic: "job.undo", timeout_sec: 5, retry, labels: { team: "x" }, risk_tags: ["money"] };
    const compiled = compileWorkflow({ id: "w", steps: { a: { topic: "do", compensate } } });
    if (compiled.kind === "bad") throw new Error(compiled.problems.join());
    const undo = compiled.plan.steps.get("a")?.compensate;
    expect(undo).toMatchObject({ topic: "undo", timeoutMs: 5_000, retry: { retriesMax: 2 } });
    expect(undo?.meta).toMatchObject({ labels: { team: "x" }, riskTags: ["money"] });
    const step = { input: { n: 1 }, output: [2] };
    const scope = { run: { id: "", workflow_id: "", tenant: "" }, step };
    expect(undo?.input.render(scope)).toEqual({ kind: "ok", value: step });
    expect([...(undo?.input.refs.own ?? [])]).toEqual(["input", "output"]);
  });

  test("belongs to worker and subworkflow steps", () => {
    expect(problemsOf({ type: "approval", compensate: { topic: "undo" } })).toContain(
      "steps.a.compensate: is only allowed for type `worker`, `subworkflow`, not `approval`",
    );
    expect(problemsOf({ type: "subworkflow", workflow: "x", compensate: { topic: "undo" } })).toEqual([]);
  });

  test.each([
    [{ compensate: "undo" }, "steps.a.compensate: must be a mapping, such as `{topic: crm.restore}`, got `undo`"],
    [{ compensate: {} }, "steps.a.compensate: missing `topic`: the topic its job is sent to"],
    [{ compensate: { topic: "u", on_error: "x" } }, "steps.a.compensate.on_error: unknown key"],
    [{ compensate: { topic: "u", input: "${step.result}" } }, "reads `step.result`"],
    [{ compensate: { topic: "u", input: "${step}" } }, "the step that is undone has `step.input` and `step.output`"],
    [{ compensate: { topic: "u", input: "${steps.a.output}" } }, "which is this step; write `step.output`"],
    [{ compensate: { topic: "u", input: "${steps.b.output}" } }, "does not precede this step"],
    [{ compensate: { topic: "u", input: "${item}" } }, "exist only in steps with `for_each`"],
    [{ compensate: { topic: "u", input: "${[1].map(step, step)}" } }, "redefines `step`"],
    [{ input: "${step.output}" }, "`step` exists only in a `compensate`"],
  ])("reports %j", (step, problem) => {
    expect(problemsOf(step, { b: { topic: "do" } }).join("\n")).toContain(problem);
  });

  test("leaves the name `step` to expressions outside of it", () => {
    expect(problemsOf({ input: "${input.steps.map(step, step.name)}" })).toEqual([]);
  });

  test("may read the item of a list, and earlier steps", () => {
    const compensate = { topic: "u", input: "${item + index + steps.b.output}" };
    expect(problemsOf({ for_each: "[1]", depends_on: ["b"], compensate }, { b: { topic: "do" } })).toEqual([]);
  });
});

test("`max_output_bytes` is an integer up to the size of a blob, for steps whose output is data", () => {
  expect(problemsOf({ max_output_bytes: 2 * 1024 * 1024 })).toEqual([]);
  expect(problemsOf({ max_output_bytes: 0 }).join()).toContain("must be an integer from 1 to 2097152");
  expect(problemsOf({ type: "approval", max_output_bytes: 9 }).join("\n")).toContain(
    "steps.a.max_output_bytes: is only allowed for type `worker`, `transform`, `parallel`, `subworkflow`",
  );
});
