/** Responses about workflows and runs. Errors, reasons and labels are redacted; definitions are not. */
import { waitReasonOf } from "../../core/jobs/explain.ts";
import type { Job } from "../../core/model/job.ts";
import { redact, redactText } from "../../core/model/redact.ts";
import type { Fan, Run, RunLock, StepRun, TimelineLine } from "../../core/model/run.ts";
import { compensationProgress, type StepCompensation } from "../../core/model/runs/compensation.ts";
import type { WorkflowHead, WorkflowVersion } from "../../core/model/workflow.ts";
import type { DryStep, RunWait } from "../../engine/observe/index.ts";
import type { Versioned } from "../../ports/store.ts";
import { approvalView, iso } from "./job-views.ts";
import { type PayloadView, type Problematic, problemsView, type ReadValue } from "./payloads.ts";

type View = Readonly<Record<string, unknown>>;

export function workflowView({ id, org, version, hash, name, createdMs, updatedMs }: WorkflowHead): View {
  const [created_at, updated_at] = [iso(createdMs), iso(updatedMs)];
  return { workflow_id: id, version, name, tenant_id: org, hash, created_at, updated_at };
}

export function versionView({ id, org, version, hash, createdMs, createdBy }: WorkflowVersion): View {
  return { workflow_id: id, version, tenant_id: org, hash, created_at: iso(createdMs), created_by: createdBy };
}

/** Unredacted: a definition that is fetched, edited and applied again must be complete. */
export function workflowDetail(version: WorkflowVersion): View {
  return { ...versionView(version), definition: version.document };
}

interface SchemaFields {
  readonly input_schema?: unknown;
  readonly output_schema?: unknown;
  /** Of a loop. */
  readonly steps?: Readonly<Record<string, SchemaFields | null>>;
}

/** Omits steps without schemas. */
export function schemasView({ id, version, document }: WorkflowVersion): View {
  const { input_schema = null, steps = {} } = document as SchemaFields;
  const withBodies = Object.entries(steps).flatMap(
    ([id, step]) => [[id, step], ...Object.entries(step?.steps ?? {})] as const,
  );
  const stepSchemas = withBodies.flatMap(([stepId, step]) => {
    const { input_schema: input = null, output_schema: output = null } = step ?? {};
    return input === null && output === null ? [] : [[stepId, { input_schema: input, output_schema: output }]];
  });
  return { workflow_id: id, version, input_schema, steps: Object.fromEntries(stepSchemas) };
}

/** The list view of a run, without payloads and steps. */
export function runView(found: Versioned<Run>): View {
  return { ...runFields(found), step_counts: countsOf(Object.values(found.value.steps)) };
}

/** Data of a run from outside its record. */
export interface RunParts {
  readonly input: unknown;
  readonly output: unknown;
  /** By step id. */
  readonly outputs: ReadonlyMap<string, PayloadView>;
  /** By step id. */
  readonly jobs: ReadonlyMap<string, Job>;
  readonly problems: readonly Problematic[];
  /** By step id, in definition order; empty if the definition is gone. */
  readonly definitions: ReadonlyMap<string, StepDefinition>;
}

export interface StepDefinition {
  readonly type: string;
  readonly dependsOn: readonly string[];
  readonly loopOf: string | null;
}

export function runDetail(
  found: Versioned<Run>,
  { input, output, outputs, jobs, problems, definitions }: RunParts,
): View {
  const run = found.value;
  const ids = new Set([...definitions.keys(), ...Object.keys(run.steps)]);
  const steps = [...ids].map((id) => {
    const step = run.steps[id] ?? { state: "PENDING" };
    return [
      id,
      stepView(step, definitions.get(id) ?? null, jobs.get(id) ?? null, outputs.get(id) ?? NO_OUTPUT),
    ] as const;
  });
  const lock = run.lock === null ? null : lockView(run.lock);
  const lost = problemsView([...problems, ...outputs.values()]);
  return { ...runFields(found), input, output, ...lost, steps: Object.fromEntries(steps), lock };
}

export function timelineView({ seq, atMs, event, stepId, index, jobId, who, why, cause }: TimelineLine): View {
  return {
    seq,
    at: iso(atMs),
    event,
    step_id: stepId ?? null,
    index: index ?? null,
    job_id: jobId ?? null,
    who: who ?? null,
    why: why === undefined ? null : redactText(why),
    cause: cause ?? null,
  };
}

export function waitsView(run: Run, waits: readonly RunWait[]): View {
  return { run_id: run.id, state: run.state, waits: waits.map(waitView) };
}

export function childView(job: Job, result: ReadValue): View {
  const { index = null, iteration = null, subRunId = null } = job.step ?? {};
  return {
    index,
    iteration,
    job_id: job.id,
    state: job.state,
    attempt: job.attempt,
    waits_for: waitReasonOf(job),
    worker_id: job.workerId,
    created_at: iso(job.createdMs),
    updated_at: iso(job.updatedMs),
    error: redact(job.error),
    result: result.value,
    ...problemsView([result]),
    sub_run_id: subRunId,
  };
}

export function dryStepView(step: DryStep, paths: readonly string[]): View {
  const { stepId, type, topic, input, isInputKnown, problem, dependsOn, compensation } = step;
  return {
    step_id: stepId,
    type,
    topic,
    depends_on: dependsOn,
    input: redact(input, { paths, at: "input" }),
    input_known: isInputKnown,
    problem: problem === undefined ? null : redactText(problem),
    ...verdictView(step),
    compensation: compensation === null ? null : { topic: compensation.topic, ...verdictView(compensation) },
  };
}

function verdictView({ decision, unavailable }: Pick<DryStep, "decision" | "unavailable">): View {
  return {
    decision: decision && {
      decision: decision.effect.toUpperCase(),
      rule_id: decision.ruleId,
      reason: decision.reason,
      snapshot: decision.snapshot,
    },
    unavailable: unavailable === undefined ? null : redactText(unavailable),
  };
}

function runFields({ value: run, version }: Versioned<Run>): View {
  const { parent, rerunOf, schedule, endsAs } = run;
  const progress = compensationProgress(run);
  return {
    run_id: run.id,
    workflow_id: run.workflowId,
    version: run.version,
    state: run.state,
    tenant_id: run.org,
    created_at: iso(run.createdMs),
    updated_at: iso(run.updatedMs),
    record_version: version,
    deadline: iso(run.deadlineMs),
    labels: redact(run.labels),
    error: redact(run.error),
    trace_id: run.traceId,
    submitted_by: run.submittedBy ?? null,
    submitted_by_name: run.caller?.name ?? null,
    actor_id: run.actorId ?? null,
    priority: run.priority ?? null,
    ends_as: endsAs?.state ?? null,
    ends_with: redact(endsAs?.error ?? null),
    compensation: progress && { ...progress, stopped: run.compensation?.isStopped === true },
    parent: parent ? { run_id: parent.runId, job_id: parent.jobId, depth: parent.depth } : null,
    schedule: schedule ? { id: schedule.id, slot: schedule.slotMs === undefined ? null : iso(schedule.slotMs) } : null,
    rerun_of: rerunOf ? { run_id: rerunOf.runId, from_step: rerunOf.fromStep, asks: rerunOf.asks ?? [] } : null,
  };
}

function stepView(step: StepRun, definition: StepDefinition | null, job: Job | null, output: PayloadView): View {
  const { state, jobId, startedMs, endedMs, error, why, arm, arms, fan, awaits, loop, compensation } = step;
  return {
    state,
    type: definition?.type ?? null,
    depends_on: definition?.dependsOn ?? null,
    job_id: jobId ?? null,
    attempt: job?.attempt ?? null,
    worker_id: job?.workerId ?? null,
    sub_run_id: job?.step?.subRunId ?? null,
    approval: job === null ? null : approvalView(job),
    started_at: startedMs === undefined ? null : iso(startedMs),
    ended_at: endedMs === undefined ? null : iso(endedMs),
    output: output.value,
    output_at: output.at,
    error: error === undefined ? null : redact(error),
    why: why === undefined ? null : redactText(why),
    arm: arm ?? null,
    ...(arms === undefined ? {} : { arms }),
    ...(fan === undefined ? {} : { children: fanView(fan) }),
    ...(definition?.loopOf ? { loop: definition.loopOf } : {}),
    ...(loop === undefined ? {} : { iteration: loop.iteration, max_iterations: loop.iterationsMax }),
    ...(awaits === undefined ? {} : { awaits: { event: awaits.event, correlation_key: awaits.key ?? null } }),
    ...(compensation === undefined ? {} : { compensation: stepCompensationView(compensation) }),
  };
}

function stepCompensationView({ state, jobId, startedMs, endedMs, error, fan }: StepCompensation): View {
  return {
    state,
    job_id: jobId ?? null,
    started_at: iso(startedMs),
    ended_at: endedMs === undefined ? null : iso(endedMs),
    error: error === undefined ? null : redact(error),
    ...(fan === undefined ? {} : { children: fan }),
  };
}

const fanView = ({ count, spawned, open, succeeded, failed, cancelled }: Fan): View => ({
  count,
  spawned,
  open,
  succeeded,
  failed,
  cancelled,
});

const lockView = ({ holder, fence, waitedMs, attempts }: RunLock): View => ({
  holder,
  fence,
  waited_ms: waitedMs,
  attempts,
});

const waitView = ({ stepId, state, reason, untilMs, unblocks, jobId }: RunWait): View => ({
  step_id: stepId,
  state,
  reason: redactText(reason),
  until: untilMs === null ? null : iso(untilMs),
  unblocks,
  job_id: jobId,
});

function countsOf(steps: readonly StepRun[]): View {
  const counts: Record<string, number> = {};
  for (const { state } of steps) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

const NO_OUTPUT: PayloadView = { value: null, at: null };
