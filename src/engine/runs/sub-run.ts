import { retryOrEnd } from "../../core/jobs/attempt.ts";
import { waitForSlot, waitToBegin } from "../../core/jobs/slot-wait.ts";
import { end, type Given, line } from "../../core/jobs/transitions.ts";
import { isFinal, JOBS, type Job, type Payload, remember } from "../../core/model/job.ts";
import { moveJob } from "../../core/model/move-job.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { StepRef } from "../../core/model/step-ref.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import { openRun } from "../../core/workflow/run/open-run.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { inputKey, outputKey } from "../../protocol/pointer.ts";
import { apply } from "../commit.ts";
import { settle } from "../dispatch/settle-job.ts";
import { type Flow, given } from "../engine.ts";
import { remind } from "../maintenance/due-timers.ts";
import { keptUntilMs, storeForRun, valueIn } from "../payloads.ts";
import { createRun } from "./create-run.ts";
import { tellRun } from "./run-lock.ts";
import { endStandstill } from "./run-slots.ts";
import { planOf, versionToRun } from "./workflows.ts";

/**
 * A step that is a whole run.
 *
 * 1. The sub-run passes the gate like any other (L25): it is made in one commit with its parent's job. Where there is no
 *    slot, that one waits for it, before all who come later (see `slots.ts`). While its parent is paused or ending it is not
 *    begun: it waits likewise, and keeps nobody from anything.
 * 2. When it has ended it tells its parent's job, and says on its own record that it has; until then its time comes again.
 * 3. A job that ends before its sub-run has to stop it; until then the job's time comes again.
 */
export type SubRunStart = "started" | "full" | "not_started";

export async function startSubRun(flow: Flow, found: Versioned<Job>): Promise<SubRunStart> {
  try {
    return await startOnce(flow, found);
  } catch (error) {
    // Whatever it is that fails, and for however long: others must not wait because of it.
    if (found.value.wait?.forSlot) {
      const later = waitToBegin(found.value, "something failed when it was to begin", given(flow));
      await waitMore(flow, found, later).catch(() => undefined);
    }
    throw error;
  }
}

async function startOnce(flow: Flow, found: Versioned<Job>): Promise<SubRunStart> {
  const job = found.value;
  const { step } = job;
  if (isFinal(job.state) || !step || (job.state !== "PENDING" && job.state !== "RETRYING")) return "not_started";
  const parent = (await flow.world.store.load(RUNS, step.runId))?.value ?? null;
  if (parent?.state === "PAUSED" || parent?.state === "ENDING") {
    const why = `run ${parent.id} is ${parent.state.toLowerCase()}`;
    await waitMore(flow, found, waitToBegin(job, why, given(flow)));
    return "not_started";
  }
  const workflowId = step.workflowId ?? "";
  const version = await versionToRun(flow, job.org, workflowId, step.version ?? null);
  const plan = version === null ? null : await planOf(flow, job.org, workflowId, version);
  const input = await valueIn(flow, job.input);
  const refusal = refusalOf(step, parent, plan, input);
  if (refusal !== null || !parent || !plan || version === null) {
    await giveUp(flow, found, refusal ?? "there is nothing to run");
    return "not_started";
  }
  const runId = flow.world.random.id();
  const { nowMs, settings } = given(flow);
  const untilMs = nowMs + (plan.timeoutMs ?? settings.run.deadlineMs) + 2 * settings.retention.runsMs;
  const kept = await storeForRun(flow, input, { ptr: inputKey(runId), untilMs });
  if (kept.kind === "too_large") {
    await giveUp(flow, found, "its input is too large");
    return "not_started";
  }
  const order = {
    runId,
    org: job.org,
    version,
    traceId: job.traceId,
    labels: labelsBelow(job.labels),
    priority: job.priority,
    submittedBy: job.submittedBy ?? null,
    actorId: job.actorId,
    traceparent: job.traceparent ?? null,
    parent: { runId: step.runId, jobId: job.id, depth: depthBelow(parent) },
  };
  const run = openRun(plan, order, kept, { nowMs, deadlineMs: settings.run.deadlineMs });
  const started = Object.assign(moveJob(job, "RUNNING", nowMs), {
    step: { ...step, subRunId: runId },
    attempt: job.attempt + 1,
    dispatchedMs: nowMs,
    dueMs: job.deadlineMs,
  });
  const created = await createRun(flow, plan, run, [put(JOBS, job.id, found, started)]);
  if (created.kind !== "full") return created.kind === "created" ? "started" : "not_started";
  const why = `${created.current} of ${created.limit} runs of \`${job.org}\` are open, its own among them`;
  await waitMore(flow, found, waitForSlot(job, why, given(flow)));
  endStandstill(flow, job.org);
  return "full";
}

/** Why a step cannot become a run; null if it can. */
function refusalOf(step: StepRef, parent: Run | null, plan: Plan | null, input: unknown): string | null {
  if (!parent) return "its run is gone";
  if (isRunFinal(parent.state)) return `its run is ${parent.state}`;
  if (depthBelow(parent) > DEPTH_MAX) return `workflows are nested more than ${DEPTH_MAX} deep`;
  const named = step.version === undefined ? "" : ` version ${step.version}`;
  if (!plan) return `there is no workflow \`${step.workflowId}\`${named}`;
  const problems = plan.inputSchema?.problemsOf(input) ?? [];
  return problems.length === 0 ? null : `the input does not fit the workflow's schema: ${problems.join("; ")}`;
}

/** What the step says of itself holds for its run; which step it is, for itself alone. */
function labelsBelow({ workflow_id: _, run_id: __, step_id: ___, ...labels }: Job["labels"]): Run["labels"] {
  return labels;
}

const depthBelow = ({ parent }: Run): number => (parent?.depth ?? 0) + 1;

async function waitMore(flow: Flow, found: Versioned<Job>, next: Job): Promise<void> {
  const committed = await apply(flow, { org: next.org, puts: [put(JOBS, next.id, found, next)] });
  if (committed.kind === "committed") remind(flow, { id: next.id, version: found.version + 1, value: next });
}

async function giveUp(flow: Flow, found: Versioned<Job>, message: string): Promise<void> {
  const { value: job } = found;
  const history = remember(job, line(job, "failed", message, given(flow).nowMs));
  const error = { name: "SubworkflowRefused", message, retryNever: true } as const;
  await settle(flow, found, Object.assign(end(job, "FAILED", given(flow)), { error, history }));
}

/** A sub-run has ended: so does the step that waited for it, or it tries once more. */
export async function tellParent(flow: Flow, found: Versioned<Run>): Promise<void> {
  const run = found.value;
  if (!isRunFinal(run.state) || !run.parent || run.isParentTold) return;
  const { store } = flow.world;
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const waits = await store.load(JOBS, run.parent.jobId);
    // One that waits for another try has been told of this end before.
    if (waits?.value.state !== "RUNNING" || waits.value.step?.subRunId !== run.id) break;
    const next = applySubRun(waits.value, run, await copyOutput(flow, run, waits.value), given(flow));
    if (await settle(flow, waits, next)) break;
    if (tries === TRIES_MAX - 1) return;
  }
  const told = { ...run, isParentTold: true, dueMs: flow.world.clock.now() + flow.settings.current.retention.runsMs };
  await apply(flow, { org: run.org, puts: [put(RUNS, run.id, found, told)] });
}

export function applySubRun(job: Job, run: Run, output: Payload | null, moment: Given): Job {
  if (run.state === "SUCCEEDED") {
    const history = remember(job, line(job, "succeeded", undefined, moment.nowMs, `run ${run.id}`));
    return Object.assign(end(job, "SUCCEEDED", moment), { output, error: null, history });
  }
  const error = {
    ...(run.error ?? { name: "RunFailed" }),
    message: `run ${run.id}: ${run.error?.message ?? run.state}`,
  };
  if (run.state !== "CANCELLED") return retryOrEnd(job, "failed", error, "unclassified", undefined, moment);
  const history = remember(job, line(job, "failed", error.message, moment.nowMs));
  return Object.assign(end(job, "FAILED", moment), { error: { ...error, retryNever: true }, history });
}

/** A run takes its blobs with it; the step that waited for it may be needed for longer. */
async function copyOutput(flow: Flow, { id, output, parent }: Run, job: Job): Promise<Payload | null> {
  if (output?.kind !== "pointer") return output;
  const bytes = await flow.world.blobs.get(output.ptr);
  if (bytes === null) return null;
  // A job may have waited for another run before: each has a name of its own.
  const ptr = `${outputKey(job.id)}.${id}`;
  await flow.world.blobs.put(ptr, bytes, await keptUntilMs(flow, parent?.runId ?? ""));
  return { kind: "pointer", ptr, bytes: bytes.length };
}

/** The job has ended, its sub-run has not. */
export async function stopSubRun(flow: Flow, found: Versioned<Job>): Promise<void> {
  const { step, org, id } = found.value;
  if (!step?.isSubRunLeft) return;
  const runId = step.subRunId ?? "";
  const why = `the step that waited for it ended as ${found.value.state}`;
  const event = { kind: "cancel", by: `job ${id}`, why } as const;
  const sub = await flow.world.store.load(RUNS, runId);
  if (sub && !isRunFinal(sub.value.state))
    await tellRun(flow, { org, runId, path: "engine" }, { kind: "event", event, besides: [] });
  const { isSubRunLeft: _, ...kept } = step;
  const dueMs = flow.world.clock.now() + flow.settings.current.retention.runsMs;
  await apply(flow, { org, puts: [put(JOBS, id, found, { ...found.value, step: kept, dueMs })] });
}

const DEPTH_MAX = 8;
const TRIES_MAX = 8;
