/** Jobs in every open state. */
import { defaultSettings } from "../../../src/config/config.ts";
import { requestApproval } from "../../../src/core/jobs/approval.ts";
import { applyResult, dispatchJob, recordProgress, waitForRule } from "../../../src/core/jobs/attempt.ts";
import { decideSafety, newJob, waitForSafety } from "../../../src/core/jobs/lifecycle.ts";
import { checkSubmission, type Submission } from "../../../src/core/jobs/submission.ts";
import type { DecisionContext } from "../../../src/core/jobs/transitions.ts";
import type { Job, OpenState, Payload } from "../../../src/core/model/job.ts";
import type { Decision } from "../../../src/core/policy/decision.ts";

export const settings = defaultSettings();
export const at = (nowMs: number): DecisionContext => ({ nowMs, settings, random: () => 0.5 });

export const allow: Decision = { effect: "allow", ruleId: "r", reason: "fine", snapshot: "s" };
export const ask: Decision = { effect: "require_approval", ruleId: "r", reason: "a human must look", snapshot: "s" };
export const limited: Decision = {
  effect: "allow_with_constraints",
  ruleId: "few",
  reason: "not many",
  snapshot: "s",
  constraints: { budgets: { maxConcurrentJobs: 1 } },
};

export function submission(facts: Record<string, unknown> = {}): Submission {
  const checked = checkSubmission({ topic: "demo.echo", input: { a: 1 }, ...facts });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}

export function fresh(facts: Record<string, unknown> = {}, input?: Payload): Job {
  const request = submission(facts);
  return newJob(request, { jobId: "j", traceId: "t" }, input ?? { kind: "inline", value: request.input }, at(0));
}

const scheduled = (): Job => decideSafety(fresh(), allow, at(1));
const dispatched = (): Job => dispatchJob(scheduled(), at(2));
const failed = { jobId: "j", workerId: "w", status: "failed_retryable", errorMessage: "boom" } as const;

export const asked = (facts: Record<string, unknown> = {}, terms: Partial<Decision> = {}): Job =>
  requestApproval(fresh(facts), { ...ask, ...terms }, at(1));

/** At least one per state; a new state does not compile without one. */
export const STAGES: Readonly<Record<OpenState, () => readonly Job[]>> = {
  PENDING: () => [
    fresh(),
    waitForSafety(fresh(), "down", at(3)),
    decideSafety(fresh(), { ...allow, effect: "throttle" }, at(3)),
  ],
  APPROVAL_REQUIRED: () => [asked(), asked({}, { approval: { expiresMs: 1_000, bySubmitter: true } })],
  SCHEDULED: () => [scheduled()],
  DISPATCHED: () => [dispatched()],
  RUNNING: () => [
    recordProgress(dispatched(), { workerId: "w", percent: 40, message: "half", extendMs: null }, at(4)) as Job,
  ],
  RETRYING: () => [
    applyResult(dispatched(), failed, null, at(3)) as Job,
    applyResult(dispatched(), { ...failed, retryClass: "no_worker" }, null, at(3)) as Job,
    waitForRule(decideSafety(fresh(), limited, at(1)), 1, at(3)),
  ],
};

export const everyStage = (): readonly Job[] => Object.values(STAGES).flatMap((make) => make());
