import { expect, test } from "vitest";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { RunHarness } from "../run-harness.ts";

/** Each line as `event step cause`. */
const timeline = (harness: RunHarness, id: string) =>
  harness.runOf(id).lines.map(({ event, stepId = "", cause }) => `${event} ${stepId} ${cause ?? "-"}`);

test("a step starts before it emits events, and the run ends because of its last step", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.apply(engine, {
    id: "say",
    steps: {
      say: { type: "notify", message: "hello" },
      each: { type: "notify", message: "${item}", for_each: "[1, 2]", depends_on: ["say"] },
      which: { type: "switch", switch: "'a'", cases: { a: ["last"] }, depends_on: ["each"] },
      last: { type: "transform", input: 1 },
    },
  });
  const id = await harness.started(engine, "say");
  expect(timeline(harness, id)).toEqual([
    "run_started  -",
    "step_started say 0",
    "notified say 1",
    "step_succeeded say 1",
    "step_started each 3",
    "notified each 4",
    "notified each 4",
    "step_succeeded each 4",
    "step_started which 7",
    "arm_chosen which 8",
    "step_succeeded which 8",
    "step_started last 10",
    "step_succeeded last 11",
    "run_succeeded  12",
  ]);
});

test("a cancellation is the cause of all cancelled steps and of the end of the run", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const each = { type: "approval", for_each: "[1, 2, 3]" };
  await harness.apply(engine, { id: "ask", steps: { ask: { type: "approval" }, each } });
  const id = await harness.started(engine, "ask");
  await harness.run(cancelRun(engine, { org: "default", runId: id, by: "bob", why: "enough" }));
  expect(timeline(harness, id)).toEqual([
    "run_started  -",
    "step_started ask 0",
    "step_started each 0",
    "run_ending  -",
    "step_cancelled ask 3",
    "step_cancelled each 3",
    "run_cancelled  3",
  ]);
});

test("a failed run ends because of its failed step", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.apply(engine, { id: "no", steps: { a: { topic: "danger.x" } } });
  const id = await harness.started(engine, "no");
  expect(timeline(harness, id)).toEqual([
    "run_started  -",
    "step_started a 0",
    "step_denied a 1",
    "run_ending  2",
    "run_failed  3",
  ]);
});
