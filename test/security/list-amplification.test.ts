import { expect, test } from "vitest";
import { childrenOf, JOBS } from "../../src/core/model/job.ts";
import { RunHarness } from "../engine/run-harness.ts";

const NUMBERS = Array.from({ length: 10_000 }, (_, at) => at);
const MIB = 1024 ** 2;

/** Values that all items share, in every place of an `input` where one can be. */
const COPIES: Readonly<Record<string, unknown>> = {
  "a field": { all: "${input}", one: "${item}" },
  "the whole input": "${input}",
  "a text": "${input} ${item}",
  "a nested list": { a: [{ b: ["${input}", "${index}"] }] },
  "the output of a step": { all: "${steps.first.output}", one: "${item}" },
  "the context": { all: "${context.all}", one: "${item}" },
  "a constant": { prompt: "x".repeat(10_000), one: "${item}" },
};

test.each(
  ["worker", "approval", "subworkflow"].flatMap((type) =>
    Object.entries(COPIES).map(([name, input]) => ({ type, name, input })),
  ),
)("a list of 10,000 fails before its first $type job if its inputs repeat $name", async ({ type, input }) => {
  const { error, children } = await runList({ ...STEPS[type], input }, NUMBERS);
  expect(children).toEqual([]);
  expect(error).toMatchObject({ name: "TooLarge" });
  expect(error?.message).toMatch(
    /^the inputs of the 10000 items of step `each` have at least \d+ bytes; the limit is /,
  );
  expect(error?.message).toContain(
    `${32 * MIB} bytes (\`limits.list_input_bytes_max\`); pass \`item\` instead of a value`,
  );
});

test("inputs that differ between items are created up to the limit", async () => {
  const limit = 400_000;
  const input = "${input.map(one, one + item)}";
  const { state, error, children } = await runList({ ...STEPS.worker, input }, NUMBERS.slice(0, 500), limit);
  expect(state).toBe("FAILED");
  expect(error).toMatchObject({ name: "TooLarge" });
  expect(children.length).toBeGreaterThan(30);
  expect(JSON.stringify(children).length).toBeLessThanOrEqual(limit);
});

test.each([
  [{ one: "${item}", name: "n${index}" }, NUMBERS.slice(0, 2_000), 100_000],
  // Without the parts of the first item, which is the largest.
  [{ one: "${item}", text: "${item}" }, ["x".repeat(40_000), ...NUMBERS.slice(0, 99)], 100_000],
])("inputs within the limit all run", async (input, items, limit) => {
  const { state, error, children } = await runList({ ...STEPS.worker, input }, items, limit);
  expect({ state, error }).toEqual({ state: "SUCCEEDED" });
  expect(children).toHaveLength(items.length);
});

const STEPS: Readonly<Record<string, object>> = {
  worker: { topic: "demo.echo", retry: { max_retries: 0 }, max_parallel: 10_000 },
  approval: { type: "approval", reason: "go on?" },
  subworkflow: { type: "subworkflow", workflow: "inner" },
};

async function runList(step: object, input: readonly unknown[], listInputBytesMax?: number) {
  const harness = new RunHarness();
  if (listInputBytesMax !== undefined)
    Object.assign(harness.settings, { limits: { ...harness.settings.limits, listInputBytesMax } });
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["demo.echo"], async () => null);
  await harness.apply(engine, { id: "inner", steps: { a: { type: "transform", input: 1 } } });
  const first = { type: "transform", input: "${input}", output_path: "all" };
  const each = { for_each: "${input}", depends_on: ["first"], ...step };
  await harness.apply(engine, { id: "list", steps: { first, each } });
  const id = await harness.started(engine, "list", { input });
  await harness.pass(20_000);
  const run = harness.runOf(id);
  const index = childrenOf(id, "each");
  const { items } = await harness.run(engine.world.store.list(JOBS, { index, limit: 10_000, order: "oldest" }));
  return { state: run.state, error: run.steps.each?.error, children: items.map(({ value }) => value.input) };
}
