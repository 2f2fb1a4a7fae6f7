import { describe, expect, test } from "vitest";
import { RUNS } from "../../../src/core/model/run.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { dryRun } from "../../../src/engine/observe/dry-run.ts";
import { explainRun } from "../../../src/engine/observe/explain-run.ts";
import { valueIn } from "../../../src/engine/payloads.ts";
import { NOTIFY_CODE } from "../../../src/engine/runs/commit-effects.ts";
import { EVENTS } from "../../../src/protocol/subjects.ts";
import { RunHarness } from "../run-harness.ts";

async function explainedWaits(harness: RunHarness, engine: Engine, runId: string) {
  const explained = await harness.run(explainRun(engine, { org: "default", runId }));
  if (explained.kind !== "explained") throw new Error(explained.kind);
  return explained.lines;
}

describe("a `for_each` with open children is explained by the first of them", () => {
  test("no worker for its topic", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "f", steps: { each: { topic: "demo.unserved", for_each: "[1, 2, 3]" } } });
    const id = await harness.started(engine, "f");
    await harness.pass(5_000);
    const [wait] = await explainedWaits(harness, engine, id);
    expect(wait).toMatchObject({ stepId: "each", state: "RUNNING", jobId: `${id}:each.0@1` });
    expect(wait?.reason).toContain("3 of 3 children open (0 succeeded, 0 failed, 0 not started)");
    expect(wait?.reason).toContain("no worker");
    expect(wait?.unblocks).not.toContain("--state RUNNING");
  });

  test("pending approval", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "f", steps: { each: { type: "approval", for_each: "[1, 2]" } } });
    const id = await harness.started(engine, "f");
    await harness.pass(1_000);
    const [wait] = await explainedWaits(harness, engine, id);
    expect(wait?.unblocks).toContain(`cordum approval approve ${id}:each.0@1`);
    expect(wait?.untilMs).toBeGreaterThan(engine.world.clock.now());
  });
});

test("an approval step reports the timeout of its run if the run ends first", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.apply(engine, { id: "a", timeout_sec: 300, steps: { ask: { type: "approval" } } });
  const id = await harness.started(engine, "a");
  await harness.pass(1_000);
  const [wait] = await explainedWaits(harness, engine, id);
  const run = await harness.run(engine.world.store.load(RUNS, id));
  expect(wait?.untilMs).toBe(run?.value.deadlineMs);
  expect(wait?.reason).toContain(`run \`${id}\` ends as TIMEOUT before that, in 5 min`);
});

describe("dry run", () => {
  const steps = {
    gone: { topic: "t", input: "${input.customer.id}" },
    bad: { topic: "t", input: "${input.amount}", input_schema: { type: "number" } },
    fine: { topic: "t", input: "${input.amount}" },
    later: { topic: "t", input: "${steps.fine.output.x}", depends_on: ["fine"] },
  };
  test("reports steps whose input cannot be built or does not match its schema", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, { id: "d", steps });
    const input = { amount: "ten" };
    const dry = await harness.run(dryRun(engine, { org: "default", workflowId: "d", version: null, input, by: "ann" }));
    const problems = dry.kind === "dry" && Object.fromEntries(dry.steps.map((one) => [one.stepId, one.problem]));
    expect(problems).toEqual({
      gone: expect.stringContaining("no such key: customer"),
      bad: expect.stringContaining("must be a number"),
      fine: undefined,
      later: undefined,
    });
  });
});

test("truncates the alert of a long `notify` message but not its output", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const lengths: number[] = [];
  await harness.run(
    engine.world.bus.subscribe(EVENTS, ({ body }) => {
      if (body.kind === "alert" && body.code === NOTIFY_CODE) lengths.push(body.message.length);
    }),
  );
  await harness.apply(engine, { id: "n", steps: { say: { type: "notify", message: "${input}" } } });
  const id = await harness.started(engine, "n", { input: "long ".repeat(5_000) });
  await harness.pass(1_000);
  expect(lengths).toEqual([10_000]);
  const { output } = harness.runOf(id);
  const said = { say: { message: "long ".repeat(5_000) } };
  expect(await harness.run(valueIn(engine, id, output!))).toMatchObject({ value: said });
});
