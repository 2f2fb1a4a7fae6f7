import { isFinal, JOBS, type Job, type JobState, REDRIVABLE } from "../../core/model/job.ts";
import { type Fan, isRunFinal, isStepFailure, RUNS, type Run, type StepState } from "../../core/model/run.ts";
import { MADE_MAX } from "../../engine/runs/index.ts";
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

/**
 * Follows every run with the plain reading of the rules (`run-reference.ts`), told of nothing but how jobs ended and what
 * people did; and compares, commit by commit.
 */
export class RunReferenceChecker {
  readonly #plan: RunPlan;
  readonly #violations: Violations;
  readonly #states = new Map<string, RefState>();
  /** Runs whose state was not looked at when it was last written, because something was under way. */
  readonly #guessed = new Set<string>();
  /** The states of all step jobs of a run, by `refJob`. */
  readonly #jobs = new Map<string, Map<string, Job>>();

  constructor(plan: RunPlan, violations: Violations) {
    this.#plan = plan;
    this.#violations = violations;
  }

  committed(change: Change, before: readonly (Versioned<unknown> | null)[]): void {
    const ended = new Map<string, Ended[]>();
    for (const [index, { table, value }] of change.puts.entries()) {
      if (table === JOBS.name) this.#seeJob((before[index]?.value ?? null) as Job | null, value as Job | null, ended);
    }
    for (const [index, { table, id, value }] of change.puts.entries()) {
      if (table !== RUNS.name) continue;
      if (value === null) this.#forget(id);
      else {
        const [was, is] = [(before[index]?.value ?? null) as Run | null, value as Run];
        this.#seeRun(was, is, ended.get(id) ?? [], redrivenIn(change, before, id), madeIn(change, before, id));
      }
    }
  }

  #seeJob(before: Job | null, after: Job | null, ended: Map<string, Ended[]>): void {
    const { step } = after ?? {};
    if (after === null || step === undefined) return;
    const job = refJob(step.stepId, step.index);
    const jobs = this.#jobs.get(step.runId) ?? new Map<string, Job>();
    this.#jobs.set(step.runId, jobs);
    jobs.set(job, after);
    if (!isFinal(after.state) || (before !== null && isFinal(before.state))) return;
    // What the run itself has stopped is no news to it.
    if (after.state === "CANCELLED" && after.history.at(-1)?.who === `run ${step.runId}`) return;
    const all = ended.get(step.runId) ?? [];
    all.push({ job, end: END_OF[after.state] ?? "fail", isNew: before === null });
    ended.set(step.runId, all);
  }

  #seeRun(before: Run | null, after: Run, all: readonly Ended[], revived: Job | null, made: number): void {
    const workflow = this.#plan.workflows.find(({ id }) => id === after.workflowId);
    if (workflow === undefined) return;
    const refused = refusedIn(workflow, after, this.#jobs.get(after.id) ?? new Map());
    const ended = [...all, ...refused];
    if (before !== null && isRunFinal(before.state) && revived === null) return;
    const from = before === null ? this.#begin(workflow, after) : this.#states.get(after.id);
    if (from === undefined) return;
    const ready = revived ? rejoined(workflow, from, revived) : from;
    const sure = outcomes(workflow, ready, before, after, ended).map((state) => denied(workflow, state, ended));
    const possible =
      refused.length === 0
        ? sure
        : [
            ...sure,
            ...sure.map((state) => refusedFirst(state, refused)),
            ...outcomes(refusing(workflow, refused), ready, before, after, all).map((s) => denied(workflow, s, all)),
          ];
    const [first] = possible;
    // Not all that is to be stopped was stopped yet, or not all that is to be made was made: it is looked at when it was.
    const isStopping =
      after.state === "ENDING" || Object.values(after.steps).some(({ fan }) => fan && isGivenUp(fan, after));
    const isUnderWay = isStopping || made + refused.length >= MADE_MAX;
    const open = [...(this.#jobs.get(after.id) ?? [])].filter(([, { state }]) => !isFinal(state)).map(([job]) => job);
    const agreed = isUnderWay
      ? first
      : possible.find((state) => sayingOf(workflow, state) === sayingOfRun(after, workflow, open));
    if (agreed !== undefined) {
      this.#states.set(after.id, agreed);
      if (isUnderWay) this.#guessed.add(after.id);
      else this.#guessed.delete(after.id);
      return;
    }
    // A job that lives again before that was done: what it was taken back into was never looked at.
    if (revived !== null && this.#guessed.has(after.id)) {
      this.#forget(after.id);
      return;
    }
    const hint = `${sayingOfRun(after, workflow, open)}; should be ${first ? sayingOf(workflow, first) : ""}`;
    this.#violations.add("run_outcome", after.id, `${workflow.id}: ${hint}`);
    this.#forget(after.id);
  }

  #forget(id: string): void {
    this.#states.delete(id);
    this.#jobs.delete(id);
    this.#guessed.delete(id);
  }

  /** A rerun keeps what is neither the step from which it begins nor after it, if the run went on with what came of it. */
  #begin(workflow: SimWorkflow, run: Run): RefState {
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

/** The job lives again: its step runs, and what was not done because of it is as if nothing had happened. */
function rejoined(workflow: SimWorkflow, state: RefState, { step }: Job): RefState {
  const { stepId = "", index } = step ?? {};
  const after = stepsAfter(workflow, stepId);
  // A branch takes its parallel step back with it; what the other branches came to stays.
  const parallel = workflow.steps.find(({ branches }) => branches.includes(stepId));
  const around = new Set(parallel ? [parallel.id, ...parallel.branches] : []);
  const steps = new Map(state.steps);
  for (const [id, is] of state.steps) {
    const isUndone = is === "CANCELLED" && (state.end !== null || around.has(id));
    if (isUndone || (after.has(id) && !around.has(id))) steps.delete(id);
  }
  steps.set(stepId, "RUNNING");
  if (parallel) steps.set(parallel.id, "RUNNING");
  const children = new Map([...state.children].filter(([id]) => steps.has(id)));
  if (index !== undefined) children.set(stepId, withOpen(children.get(stepId) ?? [], index));
  return { ...state, steps, children, end: null };
}

/**
 * The step's job that this commit gives another life to, because somebody tries its dead letter again: the run takes it
 * back in the same commit.
 */
export function redrivenIn(change: Change, before: readonly (Versioned<unknown> | null)[], runId: string): Job | null {
  const at = change.puts.findIndex(({ table, value }, index) => {
    const [was, is] = [before[index]?.value as Job | undefined, value as Job | null];
    const isRevived = table === JOBS.name && was && is && REDRIVABLE.includes(was.state) && !isFinal(is.state);
    return isRevived && is.step?.runId === runId;
  });
  return at < 0 ? null : (change.puts[at]?.value as Job);
}

/** How many jobs of the run this commit makes. */
function madeIn(change: Change, before: readonly (Versioned<unknown> | null)[], runId: string): number {
  const isMade = (table: string, job: Job | null, index: number): boolean =>
    table === JOBS.name && (before[index] ?? null) === null && job?.step?.runId === runId;
  return change.puts.filter(({ table, value }, index) => isMade(table, value as Job | null, index)).length;
}

/** Delays that were never begun, because the run ends before they would: when that is, the rules do not say. */
function refusedIn(workflow: SimWorkflow, { steps }: Run, jobs: ReadonlyMap<string, Job>): readonly Ended[] {
  return workflow.steps.flatMap(({ id }) => {
    const { error, fan } = steps[id] ?? {};
    if ((error ?? fan?.error)?.name !== "DelayTooLong") return [];
    const names = fan ? Array.from({ length: fan.spawned }, (_, index) => refJob(id, index)) : [id];
    return names.filter((job) => !jobs.has(job)).map((job) => ({ job, end: "fail" as const, isNew: true }));
  });
}

/** The same workflow, in which what could not begin fails as it does: nothing that comes later is looked at before. */
function refusing(workflow: SimWorkflow, refused: readonly Ended[]): SimWorkflow {
  const isRefused = (id: string): boolean => refused.some(({ job }) => job === id);
  return { ...workflow, steps: workflow.steps.map((step) => (isRefused(step.id) ? { ...step, when: "fault" } : step)) };
}

/** What could not begin has failed by the time that another branch, done at once, makes its parallel step stop the rest. */
function refusedFirst(state: RefState, refused: readonly Ended[]): RefState {
  const steps = new Map(state.steps);
  for (const { job } of refused) {
    const [id = ""] = job.split(".");
    if (steps.get(id) === "CANCELLED") steps.set(id, "FAILED");
  }
  return { ...state, steps };
}

interface Ended {
  readonly job: string;
  readonly end: RefEnd;
  /** Made by the commit that ends it (the policy denied it at once), or never made. */
  readonly isNew: boolean;
}

const withOpen = (children: readonly RefChild[], index: number): readonly RefChild[] =>
  children.map((child, at) => {
    if (at === index) return "open";
    return child === "open" || child === "ok" || child === "stopped" ? child : "failed_before";
  });

/** What people and the clock did comes before what jobs did in the same commit, or after it. */
function outcomes(
  workflow: SimWorkflow,
  state: RefState,
  before: Run | null,
  after: Run,
  all: readonly Ended[],
): readonly RefState[] {
  const ended = all.filter(({ isNew }) => !isNew);
  const act = withExpired(workflow, after, actOf(workflow, before, after));
  if (act === null) return [applyEnds(workflow, state, ended)];
  return [applyEnds(workflow, act(state), ended), act(applyEnds(workflow, state, ended))];
}

/** Lists and `parallel` steps whose time was up: when that is, the rules do not say. */
function withExpired(workflow: SimWorkflow, { steps }: Run, act: Act | null): Act | null {
  const late = Object.keys(steps).filter((id) => {
    const { state, fan, dueMs = fan?.dueMs } = steps[id] ?? {};
    return dueMs !== undefined && (state === "TIMEOUT" || fan?.endsAs === "TIMEOUT");
  });
  if (late.length === 0) return act;
  return (state) => late.reduce((from, id) => expireRef(workflow, from, id), act === null ? state : act(state));
}

/** Its children are being stopped, or no further ones are made because its time is up. */
const isGivenUp = ({ endsAs, dueMs = Number.POSITIVE_INFINITY }: Fan, { updatedMs }: Run): boolean =>
  endsAs !== undefined || updatedMs >= dueMs;

type Act = (state: RefState) => RefState;

function actOf(workflow: SimWorkflow, before: Run | null, after: Run): Act | null {
  const end = after.endsAs?.state ?? after.state;
  if (end === "CANCELLED" || end === "TIMEOUT") return (state) => endRef(workflow, state, end);
  const wasPaused = before?.state === "PAUSED";
  const isPaused = after.state === "PAUSED";
  if (isPaused !== wasPaused) return (state) => pauseRef(workflow, state, isPaused);
  return null;
}

/** Steps that are denied as they are made: each may let others begin, which may be denied as well. */
function denied(workflow: SimWorkflow, state: RefState, all: readonly Ended[]): RefState {
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
      // A parallel step is done again with all of its branches.
      if (step.branches.some((id) => after.has(id))) after.add(step.id);
    }
  }
  return after;
}

function sayingOf(workflow: SimWorkflow, state: RefState): string {
  const steps = workflow.steps.map(({ id }) => `${id} ${state.steps.get(id) ?? "PENDING"}`);
  return `${steps.join(", ")}; out: ${[...openJobsOf(state, workflow)].sort().join(" ")}; ${state.end ?? (state.isPaused ? "PAUSED" : "RUNNING")}`;
}

function sayingOfRun(run: Run, { steps: all }: SimWorkflow, open: readonly string[]): string {
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
