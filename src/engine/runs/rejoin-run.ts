import { JOBS, type Job } from "../../core/model/job.ts";
import type { StepRef } from "../../core/model/job-details.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import { rejoin } from "../../core/workflow/run/rejoin.ts";
import { redriveStepJob } from "../../core/workflow/run/step-job.ts";
import { type Guard, type Put, put, type Versioned } from "../../ports/store.ts";
import { decisionContext } from "../context.ts";
import type { Needs, RunContext } from "../engine.ts";
import type { RetryOutcome } from "../maintenance/index.ts";
import { submitMessage } from "../packets.ts";
import { keepPayload } from "../payloads.ts";
import { withLock } from "../with-lock.ts";
import { commitRun } from "./commit-run.ts";
import { decideRun } from "./decide-run.ts";
import { payloadsOf } from "./remove-run.ts";
import { limitReachedBy, noSlotWaitersGuard, slotGuard } from "./run-limit.ts";
import { runLockKey } from "./run-lock.ts";
import { startSubRun } from "./sub-run.ts";
import { planOf } from "./workflows.ts";

/**
 * Redrives the dead letter of a step: job, step and run are reopened in one commit under the run lock. A run that had
 * ended needs a slot, like a new run, and queues behind waiting steps.
 */
export function rejoinRun(
  engine: RunContext,
  request: {
    readonly found: Versioned<Job>;
    readonly redriven: Job;
    readonly by: string;
    readonly puts: readonly Put[];
  },
): Promise<RetryOutcome | "stale"> {
  const { found, redriven, by } = request;
  const { org, id: jobId, step: ref } = redriven;
  const { ttlMs, gatewayWaitMs: waitMs, gatewayPoll: poll } = engine.settings.current.runLock;
  const runId = ref?.runId ?? "";
  const options = { key: runLockKey(runId), org, ttlMs, waitMs, path: "gateway", poll, arms: redriven.arms };
  return withLock(engine, options, async (lease, taken) => {
    const before = await engine.world.store.load(RUNS, runId);
    if (!before || !ref) return { kind: "run_went_on", jobId, why: "its run no longer exists" };
    const plan = await planOf(engine, org, before.value.workflowId, before.value.version);
    if (!plan) return { kind: "run_went_on", jobId, why: "the definition of its run no longer exists" };
    const context = decisionContext(engine, redriven);
    const { nowMs, settings } = context;
    const rejoined = rejoin(plan, before.value, ref, by, { nowMs, deadlineMs: settings.run.deadlineMs });
    if (rejoined.kind === "refused") return { kind: "run_went_on", jobId, why: rejoined.why };
    const lock = { holder: engine.world.name, fence: lease.fence, ...taken };
    const decided = await decideRun(engine, plan, { ...rejoined.run, lock }, [{ kind: "time" }], new Set());
    const end = ref.isCompensation ? null : endOf(decided.run);
    if (end !== null) return { kind: "run_went_on", jobId, why: `its run would end immediately: ${end}` };
    if (rejoined.isReopened) await keepLonger(engine, rejoined.run);
    const fence: Guard = { kind: "fence", table: RUNS.name, id: runId, fence: lease.fence };
    const slot = slotGuard(settings, org);
    const job = redriveStepJob(redriven, timeoutMsOf(plan, ref), context);
    engine.runCache.forgetRun(runId);
    const committed = await commitRun(engine, {
      before,
      decided,
      ended: [],
      extraPuts: [...request.puts, put(JOBS, jobId, found, job)],
      guards: rejoined.isReopened ? [fence, slot, noSlotWaitersGuard(org)] : [fence],
      sends: job.state === "PENDING" && ref.kind === "worker" ? [announced(engine, job, found.version + 1)] : [],
    });
    switch (committed.kind) {
      case "committed":
        if (decided.hasMore) engine.runInbox.continueRun(decided.run);
        if (ref.kind === "subworkflow") {
          engine.tasks.track(
            startSubRun(engine, { id: jobId, version: found.version + 1, value: job }).catch((error: unknown) =>
              engine.world.log.write("warn", "sub_run_start_failed", { error: String(error) }),
            ),
          );
        }
        return { kind: "revived", jobId, state: job.state };
      case "refused":
        return (await limitReachedBy(engine, org, slot.max, committed)) ?? "stale";
      case "stale":
        return "stale";
      default:
        return committed satisfies never;
    }
  });
}

function timeoutMsOf(plan: Plan, { stepId, isCompensation }: StepRef): number | null {
  const step = plan.steps.get(stepId);
  return (isCompensation ? step?.compensate : step)?.timeoutMs ?? null;
}

/** Extends the retention of the run's payloads. */
async function keepLonger(engine: Needs<"world" | "settings">, run: Run): Promise<void> {
  const untilMs = run.deadlineMs + 2 * engine.settings.current.retention.runsMs;
  // A lost payload fails the step that reads it.
  for (const payload of payloadsOf(run)) await keepPayload(engine, payload, untilMs);
}

/** Why the run would end; null if it stays open. */
function endOf({ state, error, endsAs }: Run): string | null {
  if (!isRunFinal(state) && state !== "ENDING") return null;
  return error?.message ?? endsAs?.error?.message ?? state;
}

/** A new message id: the broker would drop the id of the first announcement as a duplicate. */
function announced(engine: Needs<"world">, job: Job, version: number) {
  const message = submitMessage(engine.world.name, job);
  return { ...message, id: `${message.id}@${version}` };
}
