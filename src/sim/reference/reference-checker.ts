import { isFinal, JOBS, type Job, type JobState, REDRIVABLE } from "../../core/model/job.ts";
import { type Fan, isRunFinal, isStepFailure, RUNS, type Run, type StepState } from "../../core/model/run.ts";
import { CREATED_MAX } from "../../engine/runs/index.ts";
import type { Change, Versioned } from "../../ports/store.ts";
import type { Violations } from "../checks/violations.ts";
import type { RunPlan, SimWorkflow } from "../workload/run-plan.ts";
import {
  applyEnds,
  dependenciesOf,
  endRef,
  expireRef,
  openJobsOf,
  pauseRef,
  type RefChild,
  type RefEnd,
  type RefState,
  refJob,
  startRef,
} from "./run-reference.ts";

/** Runs the reference model beside every run, with the ends of jobs and client actions as input, and compares each commit. */
export class RunReferenceChecker {
  readonly #plan: RunPlan;
  readonly #violations: Violations;
  readonly #states = new Map<string, RefState>();
  /** Runs whose last write was not compared, because it was incomplete. */
  readonly #unverified = new Set<string>();
  /** The step jobs of each run, by `refJob`. */
  readonly #jobs = new Map<string, Map<string, Job>>();

  constructor(plan: RunPlan, violations: Violations) {
    this.#plan = plan;
    this.#violations = violations;
  }

  committed(change: Change, before: readonly (Versioned<unknown> | null)[]): void {
    const ended = new Map<string, EndedJob[]>();
    for (const [index, { table, value }] of change.puts.entries()) {
      if (table === JOBS.name)
        this.#recordJob((before[index]?.value ?? null) as Job | null, value as Job | null, ended);
    }
    for (const [index, { table, id, value }] of change.puts.entries()) {
      if (table !== RUNS.name) continue;
      if (value === null) this.#forget(id);
      else {
        const [was, is] = [(before[index]?.value ?? null) as Run | null, value as Run];
        const redriven = redrivenIn(change, before, id);
        this.#compare(was, is, ended.get(id) ?? [], redriven, createdIn(change, before, id));
      }
    }
  }

  #recordJob(before: Job | null, after: Job | null, ended: Map<string, EndedJob[]>): void {
    const { step } = after ?? {};
    if (after === null || step === undefined) return;
    const job = refJob(step.stepId, step.index);
    const jobs = this.#jobs.get(step.runId) ?? new Map<string, Job>();
    this.#jobs.set(step.runId, jobs);
    jobs.set(job, after);
    if (!isFinal(after.state) || (before !== null && isFinal(before.state))) return;
    // A job that the run itself cancelled is not an input.
    if (after.state === "CANCELLED" && after.history.at(-1)?.who === `run ${step.runId}`) return;
    const all = ended.get(step.runId) ?? [];
    all.push({ job, end: END_OF[after.state] ?? "fail", isNew: before === null });
    ended.set(step.runId, all);
  }

  #compare(before: Run | null, after: Run, all: readonly EndedJob[], redriven: Job | null, created: number): void {
    const workflow = this.#plan.workflows.find(({ id }) => id === after.workflowId);
    if (workflow === undefined) return;
    const refused = refusedIn(workflow, after, this.#jobs.get(after.id) ?? new Map());
    const ended = [...all, ...refused];
    if (before !== null && isRunFinal(before.state) && redriven === null) return;
    const from = before === null ? this.#start(workflow, after) : this.#states.get(after.id);
    if (from === undefined) return;
    const ready = redriven ? rejoined(workflow, from, redriven) : from;
    const regular = outcomes(workflow, ready, before, after, ended).map((state) => applyDenied(workflow, state, ended));
    const possible =
      refused.length === 0
        ? regular
        : [
            ...regular,
            ...regular.map((state) => failRefused(state, refused)),
            ...outcomes(refusing(workflow, refused), ready, before, after, all).map((s) =>
              applyDenied(workflow, s, all),
            ),
          ];
    const [first] = possible;
    // Large batches are cancelled or created in several commits; only the last one is compared.
    const isStopping =
      after.state === "ENDING" || Object.values(after.steps).some(({ fan }) => fan && isStopped(fan, after));
    const isIncomplete = isStopping || created + refused.length >= CREATED_MAX;
    const open = [...(this.#jobs.get(after.id) ?? [])].filter(([, { state }]) => !isFinal(state)).map(([job]) => job);
    const agreed = isIncomplete
      ? first
      : possible.find((state) => describeState(workflow, state) === describeRun(after, workflow, open));
    if (agreed !== undefined) {
      this.#states.set(after.id, agreed);
      if (isIncomplete) this.#unverified.add(after.id);
      else this.#unverified.delete(after.id);
      return;
    }
    // A redrive into a state that was never compared: the model may differ, so the run is not followed further.
    if (redriven !== null && this.#unverified.has(after.id)) {
      this.#forget(after.id);
      return;
    }
    const expected = first ? describeState(workflow, first) : "";
    const hint = `${describeRun(after, workflow, open)}; expected ${expected}`;
    this.#violations.add("run_outcome", after.id, `${workflow.id}: ${hint}`);
    this.#forget(after.id);
  }

  #forget(id: string): void {
    this.#states.delete(id);
    this.#jobs.delete(id);
    this.#unverified.delete(id);
  }

  /** A rerun keeps the steps that do not depend on the start step and did not end the run. */
  #start(workflow: SimWorkflow, run: Run): RefState {
    const { rerunOf } = run;
    const earlier = rerunOf && this.#states.get(rerunOf.runId);
    if (!rerunOf || !earlier) return startRef(workflow);
    const again = stepsAfter(workflow, rerunOf.fromStep);
    const kept = [...earlier.steps].filter(([id]) => !again.has(id) && isKept(workflow, id, earlier.steps));
    return startRef(workflow, new Map(kept));
  }
}

function isKept(workflow: SimWorkflow, id: string, states: ReadonlyMap<string, StepState>): boolean {
  const state = states.get(id) ?? "PENDING";
  if (state === "SUCCEEDED" || state === "SKIPPED") return true;
  if (!isStepFailure(state)) return false;
  const parallel = workflow.steps.find(({ branches }) => branches.includes(id));
  if (parallel) return isKept(workflow, parallel.id, states);
  return workflow.steps.find((step) => step.id === id)?.onError !== "fail";
}

/** After a redrive the step runs again, and its dependents and the steps cancelled by the run's end are pending. */
function rejoined(workflow: SimWorkflow, state: RefState, { step }: Job): RefState {
  const { stepId = "", index } = step ?? {};
  const after = stepsAfter(workflow, stepId);
  // The parallel step of a branch runs again, too; the results of its other branches stay.
  const parallel = workflow.steps.find(({ branches }) => branches.includes(stepId));
  const group = new Set(parallel ? [parallel.id, ...parallel.branches] : []);
  const steps = new Map(state.steps);
  for (const [id, is] of state.steps) {
    const isUndone = is === "CANCELLED" && (state.end !== null || group.has(id));
    if (isUndone || (after.has(id) && !group.has(id))) steps.delete(id);
  }
  steps.set(stepId, "RUNNING");
  if (parallel) steps.set(parallel.id, "RUNNING");
  const children = new Map([...state.children].filter(([id]) => steps.has(id)));
  if (index !== undefined) children.set(stepId, withOpen(children.get(stepId) ?? [], index));
  return { ...state, steps, children, end: null };
}

/** The step job of the run that this commit redrives. The run is reopened in the same commit. */
export function redrivenIn(change: Change, before: readonly (Versioned<unknown> | null)[], runId: string): Job | null {
  const at = change.puts.findIndex(({ table, value }, index) => {
    const [was, is] = [before[index]?.value as Job | undefined, value as Job | null];
    const isRedriven = table === JOBS.name && was && is && REDRIVABLE.includes(was.state) && !isFinal(is.state);
    return isRedriven && is.step?.runId === runId;
  });
  return at < 0 ? null : (change.puts[at]?.value as Job);
}

/** The number of jobs of the run that this commit creates. */
function createdIn(change: Change, before: readonly (Versioned<unknown> | null)[], runId: string): number {
  const isCreated = (table: string, job: Job | null, index: number): boolean =>
    table === JOBS.name && (before[index] ?? null) === null && job?.step?.runId === runId;
  return change.puts.filter(({ table, value }, index) => isCreated(table, value as Job | null, index)).length;
}

/** Delays that were not started, because they would end after the run. The model has no times, so they are inputs. */
function refusedIn(workflow: SimWorkflow, { steps }: Run, jobs: ReadonlyMap<string, Job>): readonly EndedJob[] {
  return workflow.steps.flatMap(({ id }) => {
    const { error, fan } = steps[id] ?? {};
    if ((error ?? fan?.error)?.name !== "DelayTooLong") return [];
    const names = fan ? Array.from({ length: fan.spawned }, (_, index) => refJob(id, index)) : [id];
    return names.filter((job) => !jobs.has(job)).map((job) => ({ job, end: "fail" as const, isNew: true }));
  });
}

/** The workflow with refused delays that fail at their start, before any later step is evaluated. */
function refusing(workflow: SimWorkflow, refused: readonly EndedJob[]): SimWorkflow {
  const isRefused = (id: string): boolean => refused.some(({ job }) => job === id);
  return { ...workflow, steps: workflow.steps.map((step) => (isRefused(step.id) ? { ...step, when: "fault" } : step)) };
}

/** The state in which refused delays failed before an instant branch ended their parallel step. */
function failRefused(state: RefState, refused: readonly EndedJob[]): RefState {
  const steps = new Map(state.steps);
  for (const { job } of refused) {
    const [id = ""] = job.split(".");
    if (steps.get(id) === "CANCELLED") steps.set(id, "FAILED");
  }
  return { ...state, steps };
}

interface EndedJob {
  readonly job: string;
  readonly end: RefEnd;
  /** Created by the commit that ends it (denied by the policy), or never created. */
  readonly isNew: boolean;
}

const withOpen = (children: readonly RefChild[], index: number): readonly RefChild[] =>
  children.map((child, at) => {
    if (at === index) return "open";
    return child === "open" || child === "ok" || child === "stopped" ? child : "failed_before";
  });

/** The possible states after a commit: client actions and timeouts apply before or after the ends of jobs. */
function outcomes(
  workflow: SimWorkflow,
  state: RefState,
  before: Run | null,
  after: Run,
  all: readonly EndedJob[],
): readonly RefState[] {
  const ended = all.filter(({ isNew }) => !isNew);
  const action = withExpired(workflow, after, actionOf(workflow, before, after));
  if (action === null) return [applyEnds(workflow, state, ended)];
  return [applyEnds(workflow, action(state), ended), action(applyEnds(workflow, state, ended))];
}

/** Adds the timeouts of lists and `parallel` steps. The model has no times, so they are inputs. */
function withExpired(workflow: SimWorkflow, { steps }: Run, action: Action | null): Action | null {
  const late = Object.keys(steps).filter((id) => {
    const { state, fan, dueMs = fan?.dueMs } = steps[id] ?? {};
    return dueMs !== undefined && (state === "TIMEOUT" || fan?.endsAs === "TIMEOUT");
  });
  if (late.length === 0) return action;
  return (state) => late.reduce((from, id) => expireRef(workflow, from, id), action === null ? state : action(state));
}

/** The children are being cancelled, or no more are created after the timeout. */
const isStopped = ({ endsAs, dueMs = Number.POSITIVE_INFINITY }: Fan, { updatedMs }: Run): boolean =>
  endsAs !== undefined || updatedMs >= dueMs;

type Action = (state: RefState) => RefState;

function actionOf(workflow: SimWorkflow, before: Run | null, after: Run): Action | null {
  const end = after.endsAs?.state ?? after.state;
  if (end === "CANCELLED" || end === "TIMEOUT") return (state) => endRef(workflow, state, end);
  const wasPaused = before?.state === "PAUSED";
  const isPaused = after.state === "PAUSED";
  if (isPaused !== wasPaused) return (state) => pauseRef(workflow, state, isPaused);
  return null;
}

/** Applies jobs that were denied at their creation. Each may start other steps that are denied as well. */
function applyDenied(workflow: SimWorkflow, state: RefState, all: readonly EndedJob[]): RefState {
  let next = state;
  for (let left = all.filter(({ isNew }) => isNew); left.length > 0; ) {
    const open = new Set(openJobsOf(next, workflow));
    const now = left.filter(({ job }) => open.has(job));
    if (now.length === 0) break;
    next = applyEnds(workflow, next, now);
    left = left.filter((one) => !now.includes(one));
  }
  return next;
}

function stepsAfter(workflow: SimWorkflow, fromStep: string): ReadonlySet<string> {
  const after = new Set([fromStep]);
  for (let size = 0; size !== after.size; ) {
    size = after.size;
    for (const step of workflow.steps) {
      if (dependenciesOf(workflow, step).some((id) => after.has(id))) after.add(step.id);
      // A parallel step runs again with all its branches.
      if (step.branches.some((id) => after.has(id))) after.add(step.id);
    }
  }
  return after;
}

function describeState(workflow: SimWorkflow, state: RefState): string {
  const steps = workflow.steps.map(({ id }) => `${id} ${state.steps.get(id) ?? "PENDING"}`);
  return `${steps.join(", ")}; out: ${[...openJobsOf(state, workflow)].sort().join(" ")}; ${state.end ?? (state.isPaused ? "PAUSED" : "RUNNING")}`;
}

function describeRun(run: Run, { steps: all }: SimWorkflow, open: readonly string[]): string {
  const steps = all.map(({ id }) => `${id} ${run.steps[id]?.state ?? "PENDING"}`);
  return `${steps.join(", ")}; out: ${[...open].sort().join(" ")}; ${run.state}`;
}

const END_OF: Partial<Record<JobState, RefEnd>> = {
  SUCCEEDED: "ok",
  FAILED: "fail",
  TIMEOUT: "timeout",
  DENIED: "denied",
  CANCELLED: "cancelled",
};
