import { expect, test } from "vitest";
import { RunHarness } from "../../run-harness.ts";

const failed = (message: unknown) => ({ state: "FAILED", error: { name: "ExpressionFailed", message } });

test.each([
  { input: { go: true }, step: { state: "SUCCEEDED" }, run: "SUCCEEDED" },
  { input: { go: false }, step: { state: "SKIPPED" }, run: "SUCCEEDED" },
  { input: {}, step: failed(expect.stringMatching(/^`condition`: .*go/)), run: "FAILED" },
  { input: { go: "yes" }, step: failed("`condition`: is not a boolean"), run: "FAILED" },
])("the condition `input.go` with input $input", async ({ input, step, run }) => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const first = { type: "transform", input: "${input}", condition: "input.go" };
  await harness.apply(engine, { id: "flow", steps: { first } });
  const id = await harness.started(engine, "flow", { input });
  await harness.pass(1_000);
  expect(harness.runOf(id).steps.first).toMatchObject(step);
  expect(harness.runOf(id).state).toBe(run);
});
