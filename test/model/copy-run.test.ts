import { expect, test } from "vitest";
import { copyRun } from "../../src/model/copy-run.ts";
import type { Run } from "../../src/model/run.ts";

/** Has everything that a run can have: a field that is missing here does not compile. */
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
  actorId: "a",
  traceparent: "00-x",
  priority: "batch",
  endsAs: { state: "FAILED", error: null },
  parent: { runId: "p", jobId: "j", depth: 1 },
  isParentTold: false,
  reservation: "k",
  rerunOf: { runId: "e", fromStep: "a" },
};

test("a copy has everything that a run has, and nothing else", () => {
  expect(copyRun(WHOLE)).toEqual(WHOLE);
  const { endsAs: _, parent: __, ...some } = WHOLE;
  expect(Object.keys(copyRun(some)).toSorted()).toEqual(Object.keys(some).toSorted());
});

test("what is done to it leaves the run alone", () => {
  const before = structuredClone(WHOLE);
  const copy = copyRun(WHOLE);
  copy.state = "FAILED";
  copy.lineCount += 1;
  expect(WHOLE).toEqual(before);
});
