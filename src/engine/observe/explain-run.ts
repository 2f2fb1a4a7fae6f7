import { JOBS, openChildrenOf, undoListOf } from "../../core/model/job.ts";
import { type Fan, isRunFinal, isStepSettled, type LoopRun, type Run, type StepRun } from "../../core/model/run.ts";
import {
  compensationProgress,
  describeCompensation,
  hasDeadLetter,
  type StepCompensation,
} from "../../core/model/runs/compensation.ts";
import type { Plan, PlanStep } from "../../core/workflow/definition/plan.ts";
import type { Needs } from "../engine.ts";
import { loadTenantRun, planOf } from "../runs/index.ts";
import { explain } from "./explain-job.ts";

/** Why a run does not advance: for each open or next step, what it waits for, until when, and what unblocks it. */
export interface RunWait {
  /** Null for the run as a whole. */
  readonly stepId: string | null;
  readonly state: string;
  readonly reason: string;
  readonly untilMs: number | null;
  readonly unblocks: string;
  readonly jobId: string | null;
}

export type ExplainedRun =
  | { readonly kind: "explained"; readonly run: Run; readonly lines: readonly RunWait[] }
  | { readonly kind: "not_found" };

export async function explainRun(
  engine: Needs<"world" | "settings" | "tasks" | "jobCache" | "registry" | "pools" | "safety" | "planCache">,
  { org, runId, isForAll = false }: { readonly org: string; readonly runId: string; readonly isForAll?: boolean },
): Promise<ExplainedRun> {
  const found = await loadTenantRun(engine, org, runId);
  if (!found) return { kind: "not_found" };
  const run = found.value;
  const plan = await planOf(engine, org, run.workflowId, run.version);
  const lines: RunWait[] = [];
  const whole = runWait(run);
  if (whole) lines.push(whole);
  if (!isRunFinal(run.state) && plan) {
    for (const id of plan.order) {
      const wait = await stepWait(engine, plan, run, id, isForAll);
      if (wait && lines.length < LINES_MAX) lines.push(wait);
    }
  }
  return { kind: "explained", run, lines };
}

function runWait(run: Run): RunWait | null {
  const { id, state, error, deadlineMs } = run;
  const line = { stepId: null, state, untilMs: null, jobId: null };
  switch (state) {
    case "RUNNING":
      return null;
    case "PAUSED":
      return {
        ...line,
        untilMs: deadlineMs,
        reason: "paused: no new steps start",
        unblocks: `cordum run resume ${id}`,
      };
    case "ENDING":
      return {
        ...line,
        reason: endingReason(run),
        unblocks: `cordum run get ${id}`,
      };
    case "SUCCEEDED":
      return { ...line, reason: "succeeded", unblocks: `cordum run get ${id}` };
    case "FAILED":
    case "TIMEOUT":
    case "CANCELLED":
      return {
        ...line,
        reason: withCompensation(run, `ended as ${state}${error ? `: ${error.message}` : ""}`),
        unblocks: failedCompensation(run) ?? `cordum run timeline ${id}`,
      };
    default:
      return state satisfies never;
  }
}

function endingReason(run: Run): string {
  const { state = "FAILED", error } = run.endsAs ?? {};
  if (compensationProgress(run) === null) return `ending as ${state}: open steps are being cancelled`;
  return withCompensation(run, `ending as ${state}${error ? `: ${error.message}` : ""}`);
}

function withCompensation(run: Run, reason: string): string {
  const progress = compensationProgress(run);
  return progress === null ? reason : `${reason}; ${describeCompensation(progress)}`;
}

/** Redrives the first compensation that failed. The items of a list have a dead letter each; one without a job has none. */
function failedCompensation(run: Run): string | null {
  for (const stepId of compensationProgress(run)?.failed ?? []) {
    const own = run.steps[stepId]?.compensation;
    if (own && hasDeadLetter(own)) return `cordum dlq retry ${own.jobId}`;
    if (own?.fan !== undefined) return "cordum dlq list";
  }
  return null;
}

async function stepWait(
  engine: Needs<"world" | "settings" | "tasks" | "jobCache" | "registry" | "pools" | "safety">,
  plan: Plan,
  run: Run,
  stepId: string,
  isForAll: boolean,
): Promise<RunWait | null> {
  const step: StepRun = run.steps[stepId] ?? { state: "PENDING" };
  if (step.compensation?.state === "RUNNING") return undoWait(engine, run, stepId, step.compensation, isForAll);
  if (isStepSettled(step.state)) return null;
  const line = { stepId, state: step.state, untilMs: null, jobId: step.jobId ?? null };
  if (step.state === "PENDING") return pendingWait(plan, run, line);
  if (step.fan) return { ...line, ...(await forEachWait(engine, run, stepId, step.fan, isForAll)) };
  if (step.awaits) return { ...line, untilMs: step.dueMs ?? null, ...eventWait(run, step.awaits) };
  if (step.loop) return { ...line, untilMs: step.dueMs ?? null, ...loopWait(step.loop) };
  if (step.jobId === undefined) {
    return { ...line, untilMs: step.dueMs ?? null, reason: "waiting for its branches", unblocks: "the branches end" };
  }
  return { ...line, ...(await jobWait(engine, run, step.jobId, isForAll)) };
}

function eventWait({ id, state }: Run, { event, key }: NonNullable<StepRun["awaits"]>) {
  const ofKey = key === undefined ? "" : ` with correlation key \`${key}\``;
  const option = key === undefined ? "" : ` --correlation-key ${shellWord(key)}`;
  const paused = state === "PAUSED" ? "; the run is paused, but takes events" : "";
  return {
    reason: `waiting for event \`${event}\`${ofKey}${paused}`,
    unblocks: `cordum run event ${id} ${event} '{}'${option}`,
  };
}

const loopWait = ({ iteration, iterationsMax }: LoopRun) => ({
  reason: `in iteration ${iteration} of at most ${iterationsMax}; waiting for its steps`,
  unblocks: "the steps of the loop end",
});

/** The compensation of a step that runs. */
async function undoWait(
  engine: Needs<"world" | "settings" | "tasks" | "jobCache" | "registry" | "pools" | "safety">,
  run: Run,
  stepId: string,
  { jobId, fan }: StepCompensation,
  isForAll: boolean,
): Promise<RunWait> {
  const line = { stepId, state: "RUNNING", untilMs: null, jobId: null };
  const wait =
    jobId === undefined
      ? await firstOpen(engine, run, openChildrenOf(run.id, undoListOf(stepId)), describeChildren(fan), isForAll)
      : await jobWait(engine, run, jobId, isForAll);
  return { ...line, ...wait, reason: `undoing: ${wait.reason}` };
}

const describeChildren = (fan: StepCompensation["fan"]): string =>
  `${fan?.open ?? 0} items open (${fan?.succeeded ?? 0} undone, ${fan?.failed ?? 0} failed, ${fan?.left ?? 0} left)`;

function forEachWait(
  engine: Needs<"world" | "settings" | "tasks" | "jobCache" | "registry" | "pools" | "safety">,
  run: Run,
  stepId: string,
  { open, count, succeeded, failed, spawned, iteration }: Fan,
  isForAll: boolean,
) {
  const counts = `${open} of ${count} children open (${succeeded} succeeded, ${failed} failed, ${count - spawned} not started)`;
  const list = openChildrenOf(run.id, stepId, iteration);
  return firstOpen(engine, run, list, counts, isForAll);
}

/** The first open child of a list stands for the others. */
async function firstOpen(
  engine: Needs<"world" | "settings" | "tasks" | "jobCache" | "registry" | "pools" | "safety">,
  run: Run,
  index: string,
  counts: string,
  isForAll: boolean,
) {
  const query = { index, limit: 1, order: "oldest" } as const;
  const [first] = (await engine.world.store.list(JOBS, query)).items;
  if (!first) return { reason: counts, unblocks: `cordum run get ${run.id}` };
  const { reason, untilMs, unblocks, jobId } = await jobWait(engine, run, first.id, isForAll);
  return { reason: `${counts}; the first: ${reason}`, untilMs, unblocks, jobId };
}

async function jobWait(
  engine: Needs<"world" | "settings" | "tasks" | "jobCache" | "registry" | "pools" | "safety">,
  run: Run,
  jobId: string,
  isForAll: boolean,
): Promise<Omit<RunWait, "stepId">> {
  const explained = await explain(engine, { org: run.org, jobId, isForAll });
  if (explained.kind === "not_found") {
    const unblocks = `cordum run cancel ${run.id}`;
    return { state: "RUNNING", reason: "its job no longer exists", untilMs: null, unblocks, jobId };
  }
  const { wait, sentence, unblocks } = explained.explanation;
  const way = unblocks.find(({ command }) => command !== null) ?? unblocks[0];
  return {
    state: explained.job.state,
    reason: sentence,
    untilMs: wait?.untilMs ?? null,
    unblocks: way?.command ?? way?.what ?? `cordum job explain ${jobId}`,
    jobId,
  };
}

function pendingWait(plan: Plan, run: Run, line: Omit<RunWait, "reason" | "unblocks">): RunWait | null {
  const step = plan.steps.get(line.stepId ?? "");
  const before = step?.branchOf === null ? ownDependencies(run, step) : [step?.branchOf ?? ""];
  const open = before.filter((id) => !isStepSettled(run.steps[id]?.state ?? "PENDING"));
  if (open.length === 0)
    return { ...line, reason: "starts when the run is resumed", unblocks: `cordum run resume ${run.id}` };
  // What is further away is explained by what is before it.
  const isNext = open.some((id) => run.steps[id] !== undefined);
  return isNext ? { ...line, reason: `waiting for ${open.join(", ")}`, unblocks: "those steps end" } : null;
}

/** A step of a running loop waits for other steps of the loop. */
function ownDependencies(run: Run, { dependsOn, loopOf }: PlanStep): readonly string[] {
  return dependsOn.filter((id) => id !== loopOf || run.steps[id]?.state !== "RUNNING");
}

/** A word of a POSIX shell. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

const LINES_MAX = 300;
