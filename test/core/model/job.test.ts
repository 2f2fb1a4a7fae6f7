import { describe, expect, test } from "vitest";
import { IllegalMove, JOBS, type Job, type JobState, moveJob } from "../../../src/core/model/job.ts";
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
  counted: [{ id: "w", atMs: 7 }],
  budgets: [
    { ruleId: "r", per: "tenant", key: "", limit: { tokens: 9 }, reserved: { tokens: 1 }, spent: { tokens: 2 } },
  ],
  indexed: 1,
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

describe("a stored job", () => {
  const { wait: _, step: __, bypass: ___, arms: ____, labels: _____, budgets: ______, ...plain } = WHOLE;
  const job = (change: Partial<Job>): Job => ({ ...plain, labels: {}, wait: null, traceId: "j", ...change });
  const listsOf = (change: Partial<Job>) => JOBS.placement(job(change)).lists.map(({ name }) => name);
  const countersOf = (change: Partial<Job>) =>
    JOBS.placement(job(change))
      .counters.map(({ group, name }) => `${group}:${name}`)
      .filter((counter) => counter !== "open_jobs:o" && counter !== "stored_bytes:o");
  const step = { runId: "r", stepId: "s", kind: "worker" } as const;
  const forSlot = {
    retryClass: "no_slot",
    reason: "why",
    untilMs: 6,
    setBy: "x",
    forSlot: true,
  } as unknown as Job["wait"];

  test.each<[string, Partial<Job>, readonly string[]]>([
    ["its tenant and state", {}, []],
    ["its topic while it is queued", { state: "SCHEDULED" }, ["waiting/t"]],
    ["its trace if the client chose one", { traceId: "tr" }, ["trace/o/tr"]],
    ["no trace if it is a step", { traceId: "tr", step }, []],
    ["the bypasses to review", { bypass: { leaseId: "l", reason: "why", atMs: 1 } }, ["unreviewed/o"]],
    ["the reviewed bypasses", { bypass: { leaseId: "l", reason: "why", atMs: 1, reviewedMs: 2 } }, ["bypassed/o"]],
    [
      "the steps that wait for a slot",
      { wait: forSlot },
      ["jobs/o/DISPATCHED~no_slot", "jobs/o/DISPATCHED~no_slot/t", "slot_waits/o"],
    ],
    ["the open children of its step", { step: { ...step, index: 4 } }, ["children/r/s", "children_open/r/s"]],
    ["the children of its step when it has ended", { state: "FAILED", step: { ...step, index: 4 } }, ["children/r/s"]],
  ])("is listed under %s", (_what, change, lists) => {
    const { state = "DISPATCHED" } = change;
    expect(listsOf(change)).toEqual([`jobs/o/${state}`, `jobs/o/${state}/t`, ...lists]);
  });

  test("is listed as a unit of its rollouts unless its run is the unit", () => {
    const { arms } = WHOLE;
    expect(listsOf({ arms })).toHaveLength(3);
    expect(listsOf({ arms, step })).toHaveLength(2);
  });

  test.each<[Partial<Job>, readonly string[]]>([
    [{ state: "SCHEDULED" }, ["backlog:t", "backlog/t:o"]],
    [{ state: "DISPATCHED" }, ["inflight:t", "running:o"]],
    [{ state: "RUNNING", step }, ["inflight:t", "running:o"]],
    [{ state: "APPROVAL_REQUIRED" }, ["approvals:o"]],
    [{ state: "APPROVAL_REQUIRED", step: { ...step, kind: "approval" } as const }, ["approvals:o"]],
    [{ state: "PENDING" }, []],
    [{ state: "RETRYING", wait: WHOLE.wait }, ["waiting:throttled"]],
    [{ state: "RUNNING", step: { ...step, kind: "delay" } as const }, []],
    [{ state: "PENDING", wait: forSlot, step: { ...step, kind: "subworkflow" } as const }, ["slot_waits:o"]],
    [{ state: "SUCCEEDED" }, []],
  ])("%j is counted in %j", (change, counters) => {
    expect(countersOf(change)).toEqual(counters);
  });

  test("is counted in the quotas of its tenant: bytes as long as it is stored, jobs while it is open", () => {
    const quotasOf = (change: Partial<Job>) =>
      JOBS.placement(job(change)).counters.filter(({ group }) => group === "open_jobs" || group === "stored_bytes");
    expect(quotasOf({}).map(({ group }) => group)).toEqual(["open_jobs", "stored_bytes"]);
    expect(quotasOf({ state: "FAILED" }).map(({ group }) => group)).toEqual(["stored_bytes"]);
  });

  test("is counted under the limit of its rule", () => {
    const constraints = { budgets: { maxConcurrentJobs: 2 } } as NonNullable<Job["safety"]>["constraints"];
    const safety = { effect: "allow", ruleId: "r1", reason: "why", snapshot: "s", constraints } as Job["safety"];
    expect(countersOf({ safety })).toEqual(["inflight:t", "running:o", "rule:o/r1"]);
  });

  test("is queued by priority, then by age", () => {
    const scoreOf = (change: Partial<Job>) => JOBS.placement(job({ state: "SCHEDULED", ...change })).queue?.score ?? 0;
    const [oldMs, newMs] = [1, 4_102_444_800_000];
    const scores = (["critical", "interactive", "batch"] as const).flatMap((priority) => [
      scoreOf({ priority, createdMs: oldMs }),
      scoreOf({ priority, createdMs: newMs }),
    ]);
    expect(scores).toEqual(scores.toSorted((a, b) => a - b));
    expect(new Set(scores).size).toBe(6);
    expect(JOBS.placement(job({})).queue).toBeNull();
    expect(JOBS.placement(job({ wait: forSlot })).queue).toEqual({ name: "slot_waits/o", score: 1 });
  });

  test.each<[JobState, JobState]>([
    ["SUCCEEDED", "RUNNING"],
    ["FAILED", "DISPATCHED"],
  ])("does not go from %s to %s", (from, to) => {
    expect(() => moveJob(job({ state: from }), to, 9)).toThrow(IllegalMove);
  });
});
