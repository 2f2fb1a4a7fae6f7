import { isFinal, JOBS, type Job, type JobState, REDRIVABLE } from "../../core/model/job.ts";
import type { StepRef } from "../../core/model/job-details.ts";
import { isRunFinal, RUNS, type Run, type TimelineLine } from "../../core/model/run.ts";
import { CREATED_MAX } from "../../engine/runs/index.ts";
import type { Change, Versioned } from "../../ports/store.ts";
import type { Violations } from "../checks/violations.ts";
import type { RunPlan, SimWorkflow } from "../workload/run-plan.ts";
import { linesIn } from "./commit-lines.ts";
import { describeRun, describeState } from "./describe-state.ts";
import type { RefChild, RefCommit, RefEnd, RefEvent, RefReceived, RefState } from "./model.ts";
import { hasKeptApprovals, rerunRef, stepsAfter } from "./rerun-reference.ts";
import { applyEvents, fingerprint, openJobsOf, pauseRef, refJob, startRef, unsettledEvents } from "./run-reference.ts";
import { undoJob } from "./undo-reference.ts";

/**
 * Runs the reference model beside every run, with the ends of jobs and client actions as input, and compares each commit.
 * The order of the inputs of one commit is not visible, so the model may have several states; each commit must agree with
 * one of them.
 */
export class RunReferenceChecker {
  readonly #plan: RunPlan;
  readonly #violations: Violations;
  readonly #states = new Map<string, readonly RefState[]>();
  /** The states of ended runs before a dead letter reopened them: a rerun that read the run before starts from one of them. */
  readonly #reopened = new Map<string, readonly RefState[]>();
  /** The step jobs of each run, by `refJob` and iteration. */
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
        this.#compare(was, is, {
          ended: ended.get(id) ?? [],
          lines: linesIn(change, was, is),
          redriven: redrivenIn(change, before, id),
          isKeeping: was === null && hasKeptApprovals(change, is),
        });
      }
    }
  }

  #recordJob(before: Job | null, after: Job | null, ended: Map<string, EndedJob[]>): void {
    const { step } = after ?? {};
    if (after === null || step === undefined) return;
    const job = jobIn(step);
    const key = `${job}@${step.iteration ?? 1}`;
    const jobs = this.#jobs.get(step.runId) ?? new Map<string, Job>();
    this.#jobs.set(step.runId, jobs);
    jobs.set(key, after);
    if (!isFinal(after.state) || (before !== null && isFinal(before.state)) || isStoppedByRun(after)) return;
    const all = ended.get(step.runId) ?? [];
    all.push({ job, end: END_OF[after.state] ?? "fail", isNew: before === null });
    ended.set(step.runId, all);
  }

  #compare(before: Run | null, after: Run, { ended, lines, redriven, isKeeping }: Seen): void {
    const workflow = this.#plan.workflows.find(({ id }) => id === after.workflowId);
    if (workflow === undefined) return;
    if (before !== null && isRunFinal(before.state) && redriven === null) return;
    const jobs = currentJobs(workflow, after, this.#jobs.get(after.id));
    const known = this.#states.get(after.id) ?? [];
    if (before !== null && known.length === 0) return;
    if (redriven !== null && before !== null && isRunFinal(before.state)) this.#reopened.set(after.id, known);
    const possible = distinct(
      timesOf(before, after).flatMap((nowMs) => {
        const isRefused = refusedAt(nowMs, workflow, after, jobs);
        const isLate = (id: string) => (before?.steps[id]?.dueMs ?? Number.POSITIVE_INFINITY) <= nowMs;
        const commit = { ...commitOf(after, jobs, isRefused, startedIn(before, after)), isLate };
        const inputs: Inputs = { before, after, ended, lines, commit };
        const from = before === null ? this.#start(workflow, after, commit, isKeeping) : known;
        return from.flatMap((state) =>
          inAnyOrder(workflow, stopped(redriven ? rejoined(workflow, state, redriven) : state, after), inputs),
        );
      }),
    );
    const open = [...jobs].filter(([, { state }]) => !isFinal(state)).map(([job]) => job);
    const agreed = possible.filter(
      (state) => describeState(workflow, state) === describeRun(after, workflow, open, state),
    );
    if (agreed.length > 0) {
      this.#states.set(after.id, agreed);
      return;
    }
    const [expected] = possible;
    if (expected === undefined) return;
    const hint = `${describeRun(after, workflow, open, expected)}; expected ${describeState(workflow, expected)}`;
    this.#violations.add("run_outcome", after.id, `${workflow.id}: ${hint}`);
    this.#forget(after.id);
  }

  #forget(id: string): void {
    this.#states.delete(id);
    this.#reopened.delete(id);
    this.#jobs.delete(id);
  }

  #start(workflow: SimWorkflow, { rerunOf }: Run, commit: RefCommit, isKeeping: boolean): readonly RefState[] {
    const id = rerunOf?.runId ?? "";
    const [[latest], [reopened]] = [this.#states.get(id) ?? [], this.#reopened.get(id) ?? []];
    const read = [latest, reopened].filter((state) => state !== undefined);
    if (!rerunOf || read.length === 0) return [startRef(workflow, new Map(), commit)];
    return read.map((state) => {
      const { kept, asks } = rerunRef(this.#plan, workflow, state, rerunOf.fromStep, isKeeping);
      return startRef(workflow, kept, commit, asks);
    });
  }
}

const jobIn = ({ stepId, index, isCompensation }: StepRef): string =>
  isCompensation ? undoJob(stepId, index) : refJob(stepId, index);

/** An operator has stopped the compensation by the end of this commit. */
function stopped(state: RefState, { compensation }: Run): RefState {
  const isStopped = compensation?.isStopped === true;
  return isStopped === state.undo.isStopped ? state : { ...state, undo: { ...state.undo, isStopped } };
}

/** The jobs of the current iterations by `refJob`. */
function currentJobs({ steps }: SimWorkflow, run: Run, all: ReadonlyMap<string, Job> = new Map()): Map<string, Job> {
  const jobs = new Map<string, Job>();
  for (const job of all.values()) {
    if (job.step === undefined) continue;
    const { stepId, iteration } = job.step;
    const loop = steps.find((step) => step.loop?.body.includes(stepId));
    if (iteration === undefined || iteration === run.steps[loop?.id ?? ""]?.loop?.iteration)
      jobs.set(jobIn(job.step), job);
  }
  return jobs;
}

/** After a redrive the step runs again, and its dependents and the steps cancelled by the run's end are pending. */
function rejoined(workflow: SimWorkflow, state: RefState, { step }: Job): RefState {
  const { stepId = "", index } = step ?? {};
  if (step?.isCompensation) {
    const jobs = new Map(state.undo.jobs).set(jobIn(step), "open");
    return { ...state, undo: { ...state.undo, jobs } };
  }
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
  return { ...state, steps, children, ending: new Map(), isPaused: state.isPaused && state.end === null, end: null };
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

/** The starts that count towards the limit of a commit. Those that the same commit stops get no job. */
const startedIn = (before: Run | null, after: Run): number => startsOf(after) - startsOf(before);

/** A step keeps its job id or its list when it is stopped; a redrive does not reset a step that has one. */
function startsOf(run: Run | null): number {
  const starts = Object.values(run?.steps ?? {}).flatMap(({ jobId, fan, compensation }) => [
    fan?.spawned ?? (jobId === undefined ? 0 : 1),
    compensation?.fan ? (fan?.spawned ?? 0) - compensation.fan.left : compensation === undefined ? 0 : 1,
  ]);
  return starts.reduce((sum, count) => sum + count, 0);
}

/** A commit decides in one or more turns; the clock is read in each of them. */
function timesOf(before: Run | null, { lines, updatedMs }: Run): readonly number[] {
  const firstMs = lines.find(({ seq }) => seq >= (before?.lineCount ?? 0))?.atMs ?? updatedMs;
  return [...new Set([updatedMs, firstMs])];
}

/** Whether a delay is not started, because it would end after the run. */
function refusedAt(
  nowMs: number,
  { steps }: SimWorkflow,
  { deadlineMs }: Run,
  jobs: ReadonlyMap<string, Job>,
): RefCommit["isRefused"] {
  const late = steps.filter(({ kind, delayMs }) => kind === "delay" && Math.ceil(nowMs + delayMs) >= deadlineMs);
  const ids = new Set(late.map(({ id }) => id));
  return (job) => ids.has(job.split(".")[0] ?? "") && !jobs.has(job);
}

interface EndedJob {
  readonly job: string;
  readonly end: RefEnd;
  /** Created by the commit that ends it: denied by the policy. */
  readonly isNew: boolean;
}

const withOpen = (children: readonly RefChild[], index: number): readonly RefChild[] =>
  children.map((child, at) => {
    if (at === index) return "open";
    return ["open", "stopping", "ok", "stopped"].includes(child) ? child : "failed_before";
  });

/** What a commit contains beside the run. */
interface Seen {
  readonly ended: readonly EndedJob[];
  readonly lines: readonly TimelineLine[];
  readonly redriven: Job | null;
  /** The audit entry of a person who keeps the approvals of the earlier run. */
  readonly isKeeping: boolean;
}

interface Inputs extends Pick<Seen, "ended" | "lines"> {
  readonly before: Run | null;
  readonly after: Run;
  readonly commit: RefCommit;
}

/**
 * The possible states after a commit. Timeouts and the end of the run are applied between the ends of jobs, which keep
 * their order. Jobs denied at their creation end at once, or after all others.
 */
function inAnyOrder(
  workflow: SimWorkflow,
  state: RefState,
  { before, after, ended, lines, commit }: Inputs,
): readonly RefState[] {
  const ends = ended.filter(({ isNew }) => !isNew);
  const denied = ended.filter(({ isNew }) => isNew);
  const paused = pausedIn(lines);
  const pause: Action = (from) => (paused === null ? from : pauseRef(workflow, from, paused, commit));
  // The engine starts steps after the last event: a run that is resumed and fails in one commit starts none.
  const pauseFirst: Action = (from) => (paused === null || from.end !== null ? from : { ...from, isPaused: paused });
  const apply = (from: RefState, events: readonly RefEvent[]) => applyEvents(workflow, from, events, commit);
  const ending = endIn(after);
  const actions = [expiriesIn(after, lines), ending].filter((events) => events.length > 0);
  const received = receivedIn(after, lines);
  const deny: Action = (from) => applyDenied(workflow, from, denied, commit);
  const results: RefState[] = [];
  if (received.length > 0) return withReceived(workflow, state, { before, after, ended, lines, commit });
  const visit = (from: RefState, at: number, next: number, isEarly: boolean): void => {
    const settled: Action = (to) => (isEarly ? deny(to) : to);
    const action = actions[next];
    if (action === undefined) {
      results.push(deny(apply(from, ends.slice(at))));
      return;
    }
    for (let to = at; to <= ends.length; to += 1) {
      const applied = to === at ? from : settled(apply(from, ends.slice(at, to)));
      visit(settled(apply(applied, action)), to, next + 1, isEarly);
      // The later events are applied before the children that the action stops.
      if (next === actions.length - 1) results.push(deny(apply(applied, [...action, ...ends.slice(to)])));
    }
  };
  for (const isEarly of actions.length > 0 && denied.length > 0 ? [false, true] : [false]) {
    visit(pauseFirst(state), 0, 0, isEarly);
    // The engine settles the run before it ends: a run that is resumed and cancelled in one commit starts steps.
    if (paused !== null && ending.length > 0) visit(pause(state), 0, 0, isEarly);
    // A pause after a timeout of the same commit.
    if (paused !== null && actions.length > 0) visit(state, 0, 0, isEarly);
  }
  return paused === null ? results : results.map(pause);
}

type Action = (state: RefState) => RefState;

/** Timeouts of lists and of steps without a job. The model has no times, so they are inputs. */
function expiriesIn({ steps }: Run, lines: readonly TimelineLine[]): readonly RefEvent[] {
  const late = Object.keys(steps).filter((id) => {
    const { state, fan, dueMs = fan?.dueMs } = steps[id] ?? {};
    return dueMs !== undefined && (state === "TIMEOUT" || fan?.endsAs === "TIMEOUT");
  });
  // A step of a loop may have started again in the same commit.
  const ended = lines.flatMap(({ event, stepId = "", jobId }) =>
    event === "step_timed_out" && jobId === undefined ? [stepId] : [],
  );
  return [...new Set([...late, ...ended])].map((id) => ({ expire: id }));
}

/** The events that the commit accepted. A key that equals the number of the order is that of its correlated steps. */
function receivedIn({ labels }: Run, lines: readonly TimelineLine[]): readonly RefReceived[] {
  return lines.flatMap(({ event, why = "" }) => {
    if (event !== "event_received") return [];
    const [, name = "", key = null] = /^event `([^`]*)`(?:, correlation key `([^`]*)`)?$/.exec(why) ?? [];
    return [{ event: name, key: key === labels.run_order ? "own" : key }];
  });
}

/**
 * Events arrive between the ends of jobs, which may end the loop of the step that would take them. They do not settle
 * anything by themselves, so all of one commit are tried at each place.
 */
function withReceived(workflow: SimWorkflow, state: RefState, inputs: Inputs): readonly RefState[] {
  const { after, lines, ended } = inputs;
  const others = lines.filter(({ event }) => event !== "event_received");
  const received = receivedIn(after, lines).map((receive) => ({ receive }));
  const ends = ended.filter(({ isNew }) => !isNew);
  const unsettled = (from: RefState, events: readonly RefEvent[]) =>
    unsettledEvents(workflow, from, events, inputs.commit);
  return ends
    .map((_, at) => at + 1)
    .concat(0)
    .flatMap((at) => {
      const from = unsettled(state, [...ends.slice(0, at), ...received]);
      const rest = ended.filter((one) => !ends.slice(0, at).includes(one));
      return inAnyOrder(workflow, from, { ...inputs, ended: rest, lines: others });
    });
}

function endIn({ endsAs, state }: Run): readonly RefEvent[] {
  const end = endsAs?.state ?? state;
  return end === "CANCELLED" || end === "TIMEOUT" ? [{ stop: end }] : [];
}

/** Whether the last request of this commit pauses or resumes the run; null: neither. */
function pausedIn(lines: readonly TimelineLine[]): boolean | null {
  const requests = lines.map(({ event }) => event);
  const last = requests.findLast((event) => event === "run_paused" || event === "run_resumed");
  return last === undefined ? null : last === "run_paused";
}

/** At the limit of a commit and after the timeout of a list, the engine decides how many children it creates. */
function commitOf(
  { steps, updatedMs, lineCount, compensation }: Run,
  jobs: ReadonlyMap<string, Job>,
  isRefused: RefCommit["isRefused"],
  started: number,
): Omit<RefCommit, "isLate"> {
  const isFull = started >= CREATED_MAX;
  return {
    at: lineCount,
    undoOrder: compensation?.order ?? [],
    mayUndo: (job) => !isFull || jobs.has(job),
    isRefused,
    isStopped: (job) => {
      const known = jobs.get(job);
      return known === undefined || isStoppedByRun(known);
    },
    iterationMax: (stepId) => steps[stepId]?.loop?.iteration ?? Number.POSITIVE_INFINITY,
    createdMax: (stepId) => {
      const { spawned = 0, dueMs = Number.POSITIVE_INFINITY } = steps[stepId]?.fan ?? {};
      const isBounded = isFull || updatedMs >= dueMs;
      return isBounded ? spawned : Number.POSITIVE_INFINITY;
    },
  };
}

/** The run itself cancelled the job. Other ends of jobs are inputs. */
const isStoppedByRun = ({ state, step, history }: Job): boolean =>
  state === "CANCELLED" && history.at(-1)?.who === `run ${step?.runId}`;

/** Applies jobs that were denied at their creation. Each may start other steps that are denied as well. */
function applyDenied(workflow: SimWorkflow, state: RefState, denied: readonly EndedJob[], commit: RefCommit): RefState {
  let next = state;
  for (let left = denied; left.length > 0; ) {
    const open = new Set(openJobsOf(next, workflow));
    const now = left.filter(({ job }) => open.has(job));
    if (now.length === 0) break;
    next = applyEvents(workflow, next, now, commit);
    left = left.filter((one) => !now.includes(one));
  }
  return next;
}

function distinct(states: readonly RefState[]): readonly RefState[] {
  return [...new Map(states.map((state) => [`${fingerprint(state)} ${state.isPaused}`, state])).values()];
}

const END_OF: Partial<Record<JobState, RefEnd>> = {
  SUCCEEDED: "ok",
  FAILED: "fail",
  TIMEOUT: "timeout",
  DENIED: "denied",
  CANCELLED: "cancelled",
};
