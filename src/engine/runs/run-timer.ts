import { endJob } from "../../core/jobs/transitions.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { decisionContext } from "../context.ts";
import { settleJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs, RunContext } from "../engine.ts";
import { removeRunRecords } from "./remove-run.ts";
import { grantSlots } from "./slot-waiters.ts";
import { notifyParent, startSubRun, stopSubRun } from "./sub-run.ts";

/** Timer handler of runs: deadline, remaining work, parent notification, end of retention. */
export async function onRunDue(engine: DispatchContext, found: Versioned<Run>): Promise<void> {
  const { id, org, state, parent, isParentTold } = found.value;
  if (!isRunFinal(state)) {
    await engine.runInbox.enqueue(
      { org, runId: id, path: "engine" },
      { kind: "event", event: { kind: "time" }, puts: [] },
    );
  } else if (parent && !isParentTold) await notifyParent(engine, found);
  else await removeRunRecords(engine, found);
}

/**
 * Timer handler of step jobs. False: handle it like any other job. An ended job is kept as long as its run, which
 * points at it.
 */
export async function onStepJobDue(engine: RunContext & Needs<"arrivals">, found: Versioned<Job>): Promise<boolean> {
  const job = found.value;
  const { step } = job;
  if (!step) return false;
  const { nowMs } = decisionContext(engine, job);
  if (isFinal(job.state)) {
    if (step.isSubRunLeft) await stopSubRun(engine, found);
    else return keepWithRun(engine, found);
    return true;
  }
  if (nowMs >= job.deadlineMs && !(step.kind === "delay" && job.dueMs < job.deadlineMs)) return false;
  if (step.kind === "delay" && job.state === "PENDING") {
    if (nowMs < job.dueMs) return true;
    const output = { kind: "inline", value: { until: new Date(job.dueMs).toISOString() } } as const;
    await settleJob(engine, found, Object.assign(endJob(job, "SUCCEEDED", decisionContext(engine, job)), { output }));
    return true;
  }
  if (step.kind !== "subworkflow" || job.state === "RUNNING") return false;
  if (job.wait) engine.arrivals.record(job.wait.retryClass, nowMs);
  const isStarted = (await startSubRun(engine, found)) === "started";
  // The step was not started by a freed slot, so more slots may be free.
  if (isStarted && job.wait?.forSlot) grantSlots(engine, job.org);
  return true;
}

async function keepWithRun(engine: Needs<"world" | "settings" | "commit">, found: Versioned<Job>): Promise<boolean> {
  const { step, org } = found.value;
  const run = await engine.world.store.load(RUNS, step?.runId ?? "");
  if (!run) return false;
  const dueMs =
    Math.max(run.value.dueMs, engine.world.clock.now() + engine.settings.current.retention.jobsMs / 7) + 1_000;
  await engine.commit({ org, puts: [put(JOBS, found.id, found, { ...found.value, dueMs })] });
  return true;
}
