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

const envOf = (job: Job) => requestIn(openWorkPacket("c1", job, "k")).env;

test("a step job carries its workflow, run and step in `env` and labels", () => {
  const stepEnv = { workflow_id: "order", run_id: "r1", step_id: "pay" };
  expect(envOf(step)).toEqual(stepEnv);
  expect(requestIn(openWorkPacket("c1", step, "k")).labels).toEqual(labels);
  // Submitter labels are not copied to the environment.
  expect(envOf({ ...step, safety })).toEqual({ ...stepEnv, CORDUM_CONSTRAINTS: '{"budgets":{"max_runtime_ms":5}}' });
});

test("a job without a run carries only its constraints in `env`", () => {
  expect(envOf(plain)).toBeUndefined();
  expect(envOf({ ...plain, safety })).toEqual({ CORDUM_CONSTRAINTS: '{"budgets":{"max_runtime_ms":5}}' });
});

function jobOf(raw: Record<string, unknown>): Job {
  const checked = checkSubmission(raw);
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  const context = { nowMs: 1_000, settings: defaultSettings(), random: () => 0 };
  return newJob(checked.submission, { jobId: "j", traceId: "t" }, { kind: "inline", value: null }, context);
}
