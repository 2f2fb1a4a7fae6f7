import { expect, test } from "vitest";
import { copyRun, copyStep, type Run, type StepRun } from "../../../src/core/model/run.ts";
import { NO_MEASURE } from "../../../src/core/rollout/measure.ts";

/** All fields of a run: a missing field does not compile. */
const WHOLE: Required<Run> = {
  id: "r",
  org: "o",
  workflowId: "w",
  version: 1,
  state: "ENDING",
  createdMs: 1,
  updatedMs: 2,
  deadlineMs: 3,
  dueMs: 4,
  traceId: "t",
  input: { kind: "inline", value: 1 },
  output: { kind: "inline", value: 2 },
  error: { name: "E", message: "m" },
  steps: { a: { state: "RUNNING" } },
  lines: [{ seq: 0, atMs: 1, event: "run_started" }],
  lineCount: 1,
  inlineBytes: 9,
  labels: { l: "1" },
  lock: { holder: "p", fence: 1, waitedMs: 0, attempts: 1 },
  submittedBy: "key",
  caller: { role: "submitter" },
  actorId: "a",
  traceparent: "00-x",
  priority: "batch",
  endsAs: { state: "FAILED", error: null },
  compensation: { order: ["a"], isStopped: true },
  parent: { runId: "p", jobId: "j", depth: 1 },
  isParentTold: false,
  reservation: "k",
  rerunOf: { runId: "e", fromStep: "a" },
  schedule: { id: "s", slotMs: 1 },
  arms: { R1: { arm: "treatment", stage: 0, untilMs: 9 } },
  measures: { R1: NO_MEASURE },
  bytes: 5_000,
  events: { kept: [], bytes: 0, ids: ["1"] },
};

test("a copy has all fields of a run and no others", () => {
  expect(copyRun(WHOLE)).toEqual(WHOLE);
  const { endsAs: _, parent: __, ...some } = WHOLE;
  expect(Object.keys(copyRun(some)).toSorted()).toEqual(Object.keys(some).toSorted());
});

test("changes of a copy do not affect the run", () => {
  const before = structuredClone(WHOLE);
  const copy = copyRun(WHOLE);
  copy.state = "FAILED";
  copy.lineCount += 1;
  expect(WHOLE).toEqual(before);
});

const STEP: Required<StepRun> = {
  state: "RUNNING",
  startedMs: 1,
  endedMs: 2,
  jobId: "j",
  output: { kind: "inline", value: 1 },
  error: { name: "E", message: "m" },
  why: "w",
  arm: "then",
  arms: ["then"],
  fan: { items: { kind: "inline", value: [] }, count: 1, spawned: 1, open: 1, succeeded: 0, failed: 0, cancelled: 0 },
  awaits: { event: "e", key: "k" },
  loop: { iteration: 2, iterationsMax: 9 },
  dueMs: 4,
  line: 3,
  compensation: { state: "RUNNING", startedMs: 1 },
};

test("a copy of a step has all its fields and no others", () => {
  expect(copyStep(STEP)).toEqual(STEP);
  for (const without of Object.keys(STEP).filter((key) => key !== "state")) {
    const some = Object.fromEntries(Object.entries(STEP).filter(([key]) => key !== without)) as unknown as StepRun;
    expect(Object.keys(copyStep(some)).toSorted()).toEqual(Object.keys(some).toSorted());
  }
});
