import { expect, test } from "vitest";
import type { Run, StepRun } from "../../../src/core/model/run.ts";
import { compileWorkflow } from "../../../src/core/workflow/definition/compile.ts";
import { subRunsOnly } from "../../../src/core/workflow/run/ready.ts";

const sub = { type: "subworkflow", workflow: "w" };
const compiled = compileWorkflow({
  id: "w",
  steps: {
    one: sub,
    each: { ...sub, for_each: "[1, 2, 3]" },
    work: { topic: "t" },
    both: { type: "parallel", branches: ["left", "right"] },
    left: sub,
    right: { topic: "t" },
  },
});
if (compiled.kind === "bad") throw new Error(compiled.problems.join("\n"));
const { plan } = compiled;

const RUNNING: StepRun = { state: "RUNNING", jobId: "j" };
const fan = {
  items: { kind: "inline", value: [] },
  count: 3,
  spawned: 3,
  succeeded: 1,
  failed: 0,
  cancelled: 0,
} as const;
const run = (steps: Run["steps"], facts: Partial<Run> = {}) =>
  ({ state: "RUNNING", deadlineMs: 100, dueMs: 100, steps, ...facts }) as Run;

test.each([
  ["one step", run({ one: RUNNING, work: { state: "SUCCEEDED" } }), 1],
  ["a list", run({ one: RUNNING, each: { state: "RUNNING", fan: { ...fan, open: 2 } } }), 3],
  ["a branch", run({ both: { state: "RUNNING" }, left: RUNNING, right: { state: "SUCCEEDED" } }), 1],
])("all that is out are runs: %s", (_, held, count) => {
  expect(subRunsOnly(plan, held)).toBe(count);
});

test.each([
  ["a worker is at it", run({ one: RUNNING, work: RUNNING })],
  ["a worker is at a branch", run({ both: { state: "RUNNING" }, left: RUNNING, right: RUNNING })],
  ["it is between two steps", run({ one: { state: "SUCCEEDED" } })],
  ["it has more to begin or to stop", run({ one: RUNNING }, { dueMs: 50 })],
  ["it is paused", run({ one: RUNNING }, { state: "PAUSED" })],
  ["it ends", run({ one: RUNNING }, { state: "ENDING" })],
])("something else can move it: %s", (_, moving) => {
  expect(subRunsOnly(plan, moving)).toBeNull();
});
