import { end } from "../../core/jobs/transitions.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { apply } from "../commit.ts";
import { settle } from "../dispatch/settle-job.ts";
import { type Flow, given } from "../engine.ts";
import { removeRecords } from "./remove-run.ts";
import { tellRun } from "./run-lock.ts";
import { offerSlots } from "./run-slots.ts";
import { startSubRun, stopSubRun, tellParent } from "./sub-run.ts";

/** The time of a run has come: its deadline, something left undone, a parent to be told, or the end of its retention. */
export async function wakeRun(flow: Flow, found: Versioned<Run>): Promise<void> {
  const { id, org, state, parent, isParentTold } = found.value;
  if (!isRunFinal(state)) {
    await tellRun(flow, { org, runId: id, path: "engine" }, { kind: "event", event: { kind: "time" }, besides: [] });
  } else if (parent && !isParentTold) await tellParent(flow, found);
  else await removeRecords(flow, found);
}

/**
 * The time of a step's job has come, where that means something else than for other jobs. False: it does not.
 *
 * A job that has ended stays while its run does, whose steps point at it.
 */
export async function wakeStepJob(flow: Flow, found: Versioned<Job>): Promise<boolean> {
  const job = found.value;
  const { step } = job;
  if (!step) return false;
  const { nowMs } = given(flow);
  if (isFinal(job.state)) {
    if (step.isSubRunLeft) await stopSubRun(flow, found);
    else return keepWithRun(flow, found);
    return true;
  }
  if (nowMs >= job.deadlineMs && !(step.kind === "delay" && job.dueMs < job.deadlineMs)) return false;
  if (step.kind === "delay" && job.state === "PENDING") {
    if (nowMs < job.dueMs) return true;
    const output = { kind: "inline", value: { until: new Date(job.dueMs).toISOString() } } as const;
    await settle(flow, found, Object.assign(end(job, "SUCCEEDED", given(flow)), { output }));
    return true;
  }
  if (step.kind !== "subworkflow" || job.state === "RUNNING") return false;
  if (job.wait) flow.arrivals.note(job.wait.retryClass, nowMs);
  const isStarted = (await startSubRun(flow, found)) === "started";
  // Nobody woke it, so there may be room for others who wait.
  if (isStarted && job.wait?.forSlot) offerSlots(flow, job.org);
  return true;
}

async function keepWithRun(flow: Flow, found: Versioned<Job>): Promise<boolean> {
  const { step, org } = found.value;
  const run = await flow.world.store.load(RUNS, step?.runId ?? "");
  if (!run) return false;
  const dueMs = Math.max(run.value.dueMs, flow.world.clock.now() + flow.settings.current.retention.jobsMs / 7) + 1_000;
  await apply(flow, { org, puts: [put(JOBS, found.id, found, { ...found.value, dueMs })] });
  return true;
}
