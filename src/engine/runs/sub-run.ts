import { retryOrEnd, waitForSlot, waitToStart } from "../../core/jobs/attempt.ts";
import { type DecisionContext, endJob, historyLine } from "../../core/jobs/transitions.ts";
import { appendHistory, isFinal, JOBS, type Job, moveJob, type Payload } from "../../core/model/job.ts";
import type { StepRef } from "../../core/model/job-details.ts";
import { payloadFaultText } from "../../core/model/payload.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { WireError } from "../../core/retry/intent.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";
import { openRun } from "../../core/workflow/run/open-run.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { decisionContext } from "../context.ts";
import { settleJob, stepSizeProblem } from "../dispatch/index.ts";
import type { DispatchContext, Needs, RunContext } from "../engine.ts";
import { keptUntilMs, ownedByJob, readPayload, storeBytes, storeForRun, tooLargeText, valueIn } from "../payloads.ts";
import { createRun } from "./create-run.ts";
import { resolveSlotDeadlock } from "./slot-deadlock.ts";
import { planOf, versionToRun } from "./workflows.ts";

/**
 * A step that starts a run of another workflow.
 *
 * 1. The sub-run needs a slot like any run (L25) and is created in one commit with its parent's job. Without a slot the
 *    job waits, before all later starts (`slot-waiters.ts`). While the parent is paused or ending, the sub-run is not
 *    started and blocks no other run.
 * 2. An ended sub-run notifies its parent's job and records that on itself; until then its due time repeats it.
 * 3. A job that ends before its sub-run stops it; until then the job's due time repeats it.
 */
export type SubRunStart = "started" | "full" | "not_started";

export async function startSubRun(engine: RunContext, found: Versioned<Job>): Promise<SubRunStart> {
  try {
    return await startOnce(engine, found);
  } catch (error) {
    // A step that cannot start must not block other waiting steps.
    if (found.value.wait?.forSlot) {
      const later = waitToStart(found.value, "the sub-run could not be started", decisionContext(engine, found.value));
      await keepWaiting(engine, found, later).catch(() => undefined);
    }
    throw error;
  }
}

async function startOnce(engine: RunContext, found: Versioned<Job>): Promise<SubRunStart> {
  const job = found.value;
  const { step } = job;
  if (isFinal(job.state) || !step || (job.state !== "PENDING" && job.state !== "RETRYING")) return "not_started";
  const parent = (await engine.world.store.load(RUNS, step.runId))?.value ?? null;
  if (parent?.state === "PAUSED" || parent?.state === "ENDING") {
    const why = `run ${parent.id} is ${parent.state.toLowerCase()}`;
    await keepWaiting(engine, found, waitToStart(job, why, decisionContext(engine, job)));
    return "not_started";
  }
  const workflowId = step.workflowId ?? "";
  const version = await versionToRun(engine, job.org, workflowId, step.version ?? null);
  const plan = version === null ? null : await planOf(engine, job.org, workflowId, version);
  const { value: input, problem } = await valueIn(engine, step.runId, job.input);
  const refusal = problem ?? refusalOf(step, parent, plan, input);
  if (refusal !== null || !parent || !plan || version === null) {
    await failStep(engine, found, refusal ?? "the workflow does not exist");
    return "not_started";
  }
  const runId = engine.world.random.id();
  const { nowMs, settings } = decisionContext(engine, job);
  const untilMs = nowMs + (plan.timeoutMs ?? settings.run.deadlineMs) + 2 * settings.retention.runsMs;
  const kept = await storeForRun(engine, input, { owner: { org: job.org, kind: "run", id: runId }, untilMs });
  if (kept.kind === "too_large") {
    await failStep(engine, found, "the input of the sub-run is too large");
    return "not_started";
  }
  const order = {
    runId,
    org: job.org,
    version,
    traceId: job.traceId,
    labels: subRunLabels(job.labels),
    priority: job.priority,
    submittedBy: job.submittedBy ?? null,
    caller: job.caller,
    actorId: job.actorId,
    traceparent: job.traceparent ?? null,
    parent: { runId: step.runId, jobId: job.id, depth: subRunDepth(parent) },
  };
  const run = openRun(plan, order, kept, { nowMs, deadlineMs: settings.run.deadlineMs });
  const started = Object.assign(moveJob(job, "RUNNING", nowMs), {
    step: { ...step, subRunId: runId },
    attempt: job.attempt + 1,
    dispatchedMs: nowMs,
    dueMs: job.deadlineMs,
  });
  const created = await createRun(engine, plan, run, [put(JOBS, job.id, found, started)]);
  if (created.kind !== "full") return created.kind === "created" ? "started" : "not_started";
  const why = `${created.current} of ${created.limit} runs of \`${job.org}\` are open, including the parent`;
  await keepWaiting(engine, found, waitForSlot(job, why, decisionContext(engine, job)));
  resolveSlotDeadlock(engine, job.org);
  return "full";
}

/** Why the step cannot start a run; null if it can. */
function refusalOf(step: StepRef, parent: Run | null, plan: Plan | null, input: unknown): string | null {
  if (!parent) return "its run no longer exists";
  if (isRunFinal(parent.state)) return `its run is ${parent.state}`;
  if (subRunDepth(parent) > DEPTH_MAX) return `workflows are nested more than ${DEPTH_MAX} deep`;
  const named = step.version === undefined ? "" : ` version ${step.version}`;
  if (!plan) return `workflow not found: \`${step.workflowId}\`${named}`;
  const problems = plan.inputSchema?.problemsOf(input) ?? [];
  return problems.length === 0 ? null : `the input violates the workflow's schema: ${problems.join("; ")}`;
}

/** The labels of the step without those that identify it. */
function subRunLabels({ workflow_id: _, run_id: __, step_id: ___, ...labels }: Job["labels"]): Run["labels"] {
  return labels;
}

const subRunDepth = ({ parent }: Run): number => (parent?.depth ?? 0) + 1;

async function keepWaiting(engine: Needs<"commit" | "timers">, found: Versioned<Job>, next: Job): Promise<void> {
  const committed = await engine.commit({ org: next.org, puts: [put(JOBS, next.id, found, next)] });
  if (committed.kind === "committed") engine.timers.arm({ id: next.id, version: found.version + 1, value: next });
}

async function failStep(engine: DispatchContext, found: Versioned<Job>, message: string): Promise<void> {
  const { value: job } = found;
  const history = appendHistory(job, historyLine(job, "failed", message, decisionContext(engine, job).nowMs));
  const error = { name: "SubworkflowRefused", message, retryNever: true } as const;
  await settleJob(
    engine,
    found,
    Object.assign(endJob(job, "FAILED", decisionContext(engine, job)), { error, history }),
  );
}

/** Applies the end of a sub-run to the step that waits for it. */
export async function notifyParent(engine: DispatchContext, found: Versioned<Run>): Promise<void> {
  const run = found.value;
  if (!isRunFinal(run.state) || !run.parent || run.isParentTold) return;
  const { store } = engine.world;
  for (let tries = 1; ; tries++) {
    const waits = await store.load(JOBS, run.parent.jobId);
    // A step that waits for its next attempt has processed this end before.
    if (waits?.value.state !== "RUNNING" || waits.value.step?.subRunId !== run.id) break;
    const output = await copyOutput(engine, run, waits.value);
    const next = applySubRun(waits.value, run, output, decisionContext(engine, waits.value));
    if (await settleJob(engine, waits, next)) break;
    if (tries === TRIES_MAX) return;
  }
  const notified = {
    ...run,
    isParentTold: true,
    dueMs: engine.world.clock.now() + engine.settings.current.retention.runsMs,
  };
  await engine.commit({ org: run.org, puts: [put(RUNS, run.id, found, notified)] });
}

/** `output` is an error if the output of the run is lost or too large. */
export function applySubRun(job: Job, run: Run, output: Payload | WireError | null, context: DecisionContext): Job {
  if (output !== null && "message" in output) return failSubRun(job, output, context);
  if (run.state === "SUCCEEDED") {
    const history = appendHistory(job, historyLine(job, "succeeded", undefined, context.nowMs, `run ${run.id}`));
    return Object.assign(endJob(job, "SUCCEEDED", context), { output, error: null, history });
  }
  const error = {
    ...(run.error ?? { name: "RunFailed" }),
    message: `run ${run.id}: ${run.error?.message ?? run.state}`,
  };
  if (run.state !== "CANCELLED") return retryOrEnd(job, "failed", error, "unclassified", undefined, context);
  return failSubRun(job, error, context);
}

function failSubRun(job: Job, error: WireError, context: DecisionContext): Job {
  const history = appendHistory(job, historyLine(job, "failed", error.message, context.nowMs));
  return Object.assign(endJob(job, "FAILED", context), { error: { ...error, retryNever: true }, history });
}

/** Copies the output, because the payloads of the sub-run are removed with it. */
async function copyOutput(
  engine: Needs<"world" | "settings">,
  { id, output, parent, state }: Run,
  job: Job,
): Promise<Payload | WireError | null> {
  if (state !== "SUCCEEDED" || output === null) return null;
  const problem = stepSizeProblem(engine, job, output);
  if (problem !== null) return { name: "TooLarge", message: `the output of run \`${id}\`: ${problem}` };
  if (output.kind !== "pointer") return output;
  const read = await readPayload(engine, output);
  if (typeof read === "string")
    return { name: "PayloadLost", message: payloadFaultText(`the output of run \`${id}\``, read) };
  const untilMs = await keptUntilMs(engine, parent?.runId ?? "");
  const kept = await storeBytes(engine, read, () => ({ owner: ownedByJob(job), untilMs }));
  return kept.kind === "too_large" ? { name: "TooLarge", message: tooLargeText("output", kept) } : kept;
}

/** Cancels the sub-run of a job that has ended. */
export async function stopSubRun(
  engine: Needs<"world" | "settings" | "commit" | "runInbox">,
  found: Versioned<Job>,
): Promise<void> {
  const { step, org, id } = found.value;
  if (!step?.isSubRunLeft) return;
  const runId = step.subRunId ?? "";
  const why = `the parent step ended as ${found.value.state}`;
  const event = { kind: "cancel", by: `job ${id}`, why } as const;
  const sub = await engine.world.store.load(RUNS, runId);
  if (sub && !isRunFinal(sub.value.state))
    await engine.runInbox.enqueue({ org, runId, path: "engine" }, { kind: "event", event, puts: [] });
  const { isSubRunLeft: _, ...kept } = step;
  const dueMs = engine.world.clock.now() + engine.settings.current.retention.runsMs;
  await engine.commit({ org, puts: [put(JOBS, id, found, { ...found.value, step: kept, dueMs })] });
}

const DEPTH_MAX = 8;
const TRIES_MAX = 8;
