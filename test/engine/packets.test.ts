// What a worker of others is sent: all that the wire protocol promises it, by the names of the wire protocol.

import { expect, test } from "vitest";
import { defaultSettings } from "../../src/config/config.ts";
import { newJob } from "../../src/core/jobs/lifecycle.ts";
import { checkSubmission } from "../../src/core/jobs/submission.ts";
import type { Job } from "../../src/core/model/job.ts";
import { openWorkPacket, requestIn } from "../../src/engine/packets.ts";

const plain = jobOf({ topic: "demo.one", labels: { team: "x" } });
const labels = { team: "x", workflow_id: "order", run_id: "r1", step_id: "pay" };
const step: Job = { ...plain, labels, step: { runId: "r1", stepId: "pay", kind: "worker" } };
const constraints = { budgets: { maxRuntimeMs: 5 } };
const safety = { effect: "allow_with_constraints", ruleId: "r", reason: "", snapshot: "s", constraints } as const;

const envOf = (job: Job) => requestIn(openWorkPacket("c1", job)).env;

test("a step of a run says which one it is in its environment and in its labels", () => {
  const ofStep = { workflow_id: "order", run_id: "r1", step_id: "pay" };
  expect(envOf(step)).toEqual(ofStep);
  expect(requestIn(openWorkPacket("c1", step)).labels).toEqual(labels);
  // Labels of others are no environment.
  expect(envOf({ ...step, safety })).toEqual({ ...ofStep, CORDUM_CONSTRAINTS: '{"budgets":{"max_runtime_ms":5}}' });
});

test("a job of its own has what it must keep to there, and else nothing", () => {
  expect(envOf(plain)).toBeUndefined();
  expect(envOf({ ...plain, safety })).toEqual({ CORDUM_CONSTRAINTS: '{"budgets":{"max_runtime_ms":5}}' });
});

function jobOf(raw: Record<string, unknown>): Job {
  const checked = checkSubmission(raw);
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  const context = { nowMs: 1_000, settings: defaultSettings(), random: () => 0 };
  return newJob(checked.submission, { jobId: "j", traceId: "t" }, { kind: "inline", value: null }, context);
}
