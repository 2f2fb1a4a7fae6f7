import { expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../../src/core/model/dead-letter.ts";
import { RunHarness } from "../../run-harness.ts";

const ONCE = { retry: { max_retries: 0 } };
/** 10 bytes of JSON. */
const TEN = "x".repeat(8);

async function open(outputBytesMax?: number) {
  const settings = new RunHarness().settings;
  const limits = outputBytesMax === undefined ? settings.limits : { ...settings.limits, outputBytesMax };
  const harness = new RunHarness({ limits });
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["demo.echo"], async ({ input }) => input);
  return { harness, engine };
}

test("an output above `max_output_bytes` fails the step at once, with its size and the limit", async () => {
  const { harness, engine } = await open();
  const steps = {
    fits: { topic: "demo.echo", input: TEN, max_output_bytes: 10 },
    exceeds: { topic: "demo.echo", input: `${TEN}y`, max_output_bytes: 10, depends_on: ["fits"] },
  };
  await harness.apply(engine, { id: "w", steps });
  const id = await harness.started(engine, "w");
  await harness.pass(5_000);
  const message = "result refused: it has 11 bytes; `max_output_bytes` of step `exceeds` is 10";
  expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "ResultRefused", message } });
  expect(harness.states(id)).toEqual({ fits: "SUCCEEDED", exceeds: "FAILED" });
  const [letter] = [...harness.sim.net.store.rows(DEAD_LETTERS)];
  expect(letter?.value).toMatchObject({ reason: "permanent", error: { message } });
});

test("the setting limits steps without `max_output_bytes`, and each item of a list", async () => {
  const { harness, engine } = await open(10);
  const each = { topic: "demo.echo", for_each: `['${TEN}', '${TEN}y', 'z']`, failure: "wait_all", ...ONCE };
  await harness.apply(engine, { id: "w", steps: { each } });
  const id = await harness.started(engine, "w");
  await harness.pass(5_000);
  expect(harness.runOf(id).steps.each?.fan).toMatchObject({ succeeded: 2, failed: 1 });
  expect(harness.runOf(id).error?.message).toContain(
    "it has 11 bytes; `limits.step_output_bytes_max` of step `each` is 10",
  );
});

test.each([
  ["transform", { a: { type: "transform", input: `${TEN}y`, max_output_bytes: 10 } }],
  [
    "parallel",
    {
      a: { type: "parallel", branches: ["b"], max_output_bytes: 10 },
      b: { topic: "demo.echo", input: TEN },
    },
  ],
  ["subworkflow", { a: { type: "subworkflow", workflow: "inner", max_output_bytes: 10 } }],
])("limits the output of a %s step", async (_, steps) => {
  const { harness, engine } = await open();
  await harness.apply(engine, { id: "inner", output: `${TEN}y`, steps: { a: { topic: "demo.echo" } } });
  await harness.apply(engine, { id: "w", steps });
  const id = await harness.started(engine, "w");
  await harness.pass(5_000);
  expect(harness.runOf(id).steps.a).toMatchObject({ state: "FAILED", error: { name: "TooLarge" } });
  expect(harness.runOf(id).steps.a?.error?.message).toMatch(/has 1[0-9] bytes; `max_output_bytes` of step `a` is 10/);
});
