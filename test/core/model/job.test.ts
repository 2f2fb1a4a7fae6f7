import { describe, expect, test } from "vitest";
import { type Job, moveJob } from "../../../src/core/model/job.ts";
import { NO_MEASURE } from "../../../src/core/rollout/measure.ts";

/** All fields of a job: a missing field does not compile. */
const WHOLE: Required<Job> = {
  id: "j",
  org: "o",
  topic: "t",
  priority: "batch",
  state: "DISPATCHED",
  createdMs: 1,
  updatedMs: 2,
  deadlineMs: 3,
  dueMs: 4,
  traceId: "tr",
  actorId: "a",
  capability: "c",
  riskTags: ["r"],
  requires: ["q"],
  labels: { l: "1" },
  input: { kind: "inline", value: 1 },
  output: { kind: "inline", value: 2 },
  safety: { effect: "allow", ruleId: "r", reason: "why", snapshot: "s" },
  attempt: 1,
  dispatchedMs: 5,
  workerId: "w",
  wait: { retryClass: "throttled", reason: "why", untilMs: 6, setBy: "worker" },
  patience: { throttled: { count: 1, sinceMs: 1, waitedMs: 1 } } as unknown as Job["patience"],
  error: { name: "E", message: "m" },
  history: [{ atMs: 1, event: "failed", attempt: 1 }],
  submittedBy: "key",
  caller: { role: "submitter" },
  actorType: "human",
  packId: "p",
  traceparent: "00-x",
  approval: { jobHash: "h", snapshot: "s", ruleId: null, requestedMs: 1, expiresMs: 2, bySubmitter: false },
  bypass: { leaseId: "l", reason: "why", atMs: 1 },
  leaseId: "l",
  progress: { percent: 1, message: null, atMs: 1 },
  sentTo: "w",
  failures: 1,
  step: { runId: "r", stepId: "s", kind: "worker" },
  details: { memoryId: "m" },
  idempotencyKey: "k",
  resultDetails: { executionMs: 1 },
  arms: { R1: { arm: "treatment", stage: 0, untilMs: 9 } },
  measures: { R1: NO_MEASURE },
  bytes: 5_000,
};

describe("a transition", () => {
  test("keeps all fields and clears the wait", () => {
    expect(moveJob(WHOLE, "RUNNING", 9)).toEqual({ ...WHOLE, state: "RUNNING", updatedMs: 9, wait: null });
  });

  test("does not change the original job and adds no fields", () => {
    const { submittedBy: _, step: __, ...some } = WHOLE;
    const before = structuredClone(some);
    const moved = moveJob(some, "RUNNING", 9);
    moved.attempt = 7;
    expect(some).toEqual(before);
    expect(Object.keys(moved).toSorted()).toEqual(Object.keys(some).toSorted());
  });
});
