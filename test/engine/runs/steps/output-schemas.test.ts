import { describe, expect, test } from "vitest";
import { RunHarness } from "../../run-harness.ts";

async function runToEnd(document: { readonly id: string; readonly steps: object }, input: unknown) {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["demo.echo"], async ({ input: context }) => context);
  await harness.apply(engine, document);
  const id = await harness.started(engine, document.id, { input });
  await harness.pass(2_000);
  return harness.runOf(id);
}

const NUMBER = { output_schema: { type: "number" } };
const outputInvalid = (message: string) => ({ name: "OutputInvalid", message: expect.stringContaining(message) });

describe("output schema of a step", () => {
  const steps: Readonly<Record<string, object>> = {
    worker: { topic: "demo.echo", input: "${input}" },
    transform: { type: "transform", input: "${input}" },
    "transform for each": { type: "transform", for_each: "[1, input]", input: "${item}" },
    switch: { type: "switch", switch: "input", cases: { x: [] } },
    "switch for each": { type: "switch", switch: "item", for_each: "[input]", cases: { x: [] } },
    condition: { type: "condition", condition: "input == 'x'" },
    notify: { type: "notify", message: "${input}" },
  };
  test.each(Object.entries(steps))("rejects a mismatch of %s", async (_type, step) => {
    const run = await runToEnd({ id: "s", steps: { a: { ...step, ...NUMBER } } }, "x");
    expect(run).toMatchObject({ state: "FAILED", error: outputInvalid("output: must be a number") });
    expect(run.steps.a).toMatchObject({ state: "FAILED", error: outputInvalid("output: must be a number") });
  });

  test("rejects a mismatch of parallel", async () => {
    const schema = { type: "object", required: ["a", "b"] };
    const both = { type: "parallel", branches: ["a", "b"], join: "any", output_schema: schema };
    const b = { type: "approval" };
    const run = await runToEnd({ id: "s", steps: { both, a: { topic: "demo.echo" }, b } }, 1);
    expect(run).toMatchObject({ state: "FAILED", error: outputInvalid("output: missing `b`") });
    expect(run.steps).toMatchObject({ both: { state: "FAILED" }, b: { state: "CANCELLED" } });
  });

  test("accepts a matching output and names the item that does not match", async () => {
    const each = { type: "transform", for_each: "[1, 2, input]", input: "${item}", ...NUMBER };
    expect(await runToEnd({ id: "s", steps: { each } }, 3)).toMatchObject({
      state: "SUCCEEDED",
      output: { value: { each: [1, 2, 3] } },
    });
    expect(await runToEnd({ id: "s", steps: { each } }, "three")).toMatchObject({ error: outputInvalid("item 2: ") });
  });
});
