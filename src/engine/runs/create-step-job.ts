import { decideSafety } from "../../core/jobs/lifecycle.ts";
import { endJob } from "../../core/jobs/transitions.ts";
import type { Job, Payload } from "../../core/model/job.ts";
import { countedBytes } from "../../core/model/quota.ts";
import { type Run, stepJobId } from "../../core/model/run.ts";
import type { Start } from "../../core/workflow/run/run-draft.ts";
import { stepJob } from "../../core/workflow/run/step-job.ts";
import { decisionContext } from "../context.ts";
import type { Needs } from "../engine.ts";
import { ownedByJob, storeValue, type TooLarge, tooLargeText } from "../payloads.ts";
import { policyRequestOf } from "../safety/index.ts";

/**
 * Creates the job of a step. With a local safety kernel the job is checked before it is written, so that a denial is
 * part of the same commit. With a remote kernel, or a limit of the policy, it is PENDING.
 */
export function createStepJob(
  engine: Needs<"world" | "settings">,
  run: Run,
  start: Start,
  isOverQuota = false,
): Job | Promise<Job> {
  if (isOverQuota && countedBytes({ kind: "inline", value: start.input ?? null }) > 0) {
    const problem = `tenant \`${run.org}\` has no room for the input of the step (\`limits.stored_bytes_max\`)`;
    return refusedJob(engine, run, start, "QuotaExceeded", problem);
  }
  const { retention, job: limits } = engine.settings.current;
  const input = storeValue(engine, start.input, () => {
    const untilMs = Math.max(run.deadlineMs, engine.world.clock.now() + limits.deadlineMs) + retention.runsMs;
    const id = stepJobId(run.id, start.stepId, start.index, start);
    return { owner: ownedByJob({ org: run.org, id }), untilMs };
  });
  if (!(input instanceof Promise)) return withInput(engine, run, start, input);
  return input.then((stored) => withInput(engine, run, start, stored));
}

function withInput(engine: Needs<"world" | "settings">, run: Run, start: Start, input: Payload | TooLarge): Job {
  const { safety } = engine.world;
  // A delay counts from the start of its step, not from when its values were stored.
  const context = decisionContext(engine, run, run.updatedMs);
  if (input.kind === "too_large") return refusedJob(engine, run, start, "TooLarge", tooLargeText("input", input));
  const job = stepJob(run, start, input, context);
  if (start.kind !== "worker" || !safety.local) return job;
  const present = decisionContext(engine, job);
  const decision = safety.local(policyRequestOf(job, present.nowMs));
  // The windows of a limit are no part of the run's commit: the job is announced and decided on its own.
  return decision.limits === undefined ? decideSafety(job, decision, present) : job;
}

/** A job that failed before it was stored with its input. */
function refusedJob(
  engine: Needs<"world" | "settings">,
  run: Run,
  start: Start,
  name: "TooLarge" | "QuotaExceeded",
  message: string,
): Job {
  const context = decisionContext(engine, run, run.updatedMs);
  const job = stepJob(run, start, { kind: "inline", value: null }, context);
  return Object.assign(endJob({ ...job, state: "PENDING" }, "FAILED", context), {
    error: { name, message, retryNever: true } as const,
  });
}
