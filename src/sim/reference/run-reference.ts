import type { RunEnd, StepState } from "../../core/model/run.ts";

/**
 * What a workflow means, said as plainly as it can be: the rules of a step are read over the whole state, again and again,
 * until nothing changes. It shares no code with the engine, has no times, outputs or batches, and is slow; so that where
 * the two disagree, one of them is wrong.
 */
export interface RefWorkflow {
  /** Each after everything that it depends on, in whatever way. */
  readonly steps: readonly RefStep[];
}

export interface RefStep {
  readonly id: string;
  /** `job` takes time, `instant` takes none; `choice` is a `condition` or a `switch`. */
  readonly act: "job" | "instant" | "choice" | "parallel";
  /** As written: what follows from arms, branches and handlers is added here. */
  readonly dependsOn: readonly string[];
  /** `fail`, `continue`, or the id of the handler. */
  readonly onError: string;
  /** Whether its `condition` holds; null: it has none. */
  readonly when: boolean | "fault" | null;
  /** `choice`: who is in which arm, and which arm is chosen; a list: by each item, since it is asked for each. */
  readonly arms: Readonly<Record<string, readonly string[]>>;
  readonly chosen: string | "fault" | readonly string[];
  readonly branches: readonly string[];
  readonly need: number;
  /** `job`: it is done for each item; `parallel`: each of its branches is. */
  readonly fan: RefFan | null;
}

export interface RefFan {
  readonly count: number;
  readonly parallelMax: number;
  readonly isFailFast: boolean;
  readonly failuresMax: number;
}

/** How a job ended; `cancelled` by somebody who did not mean the run. */
export type RefEnd = "ok" | "fail" | "timeout" | "denied" | "cancelled";
/** `stopped`: nobody waited for it any more. `failed_before`: in an earlier life of its step. */
export type RefChild = "open" | RefEnd | "stopped" | "failed_before";

export interface RefState {
  /** A step that nothing has happened to is absent. */
  readonly steps: ReadonlyMap<string, StepState>;
  /** Of every `for_each` that began: its children so far. */
  readonly children: ReadonlyMap<string, readonly RefChild[]>;
  readonly isPaused: boolean;
  readonly end: RunEnd | null;
}

/** `stepId`, or `stepId.index` of a child. */
export const refJob = (stepId: string, index: number | null | undefined): string =>
  index === null || index === undefined ? stepId : `${stepId}.${index}`;

/** `kept`: what a rerun takes over from the run before. */
export function startRef(workflow: RefWorkflow, kept: ReadonlyMap<string, StepState> = new Map()): RefState {
  return settle(workflow, { steps: new Map(kept), children: new Map(), isPaused: false, end: null });
}

/** Jobs that end at the same instant: all are taken in, and the first to end the run does; then it is seen what follows. */
export function applyEnds(
  workflow: RefWorkflow,
  state: RefState,
  ends: readonly { readonly job: string; readonly end: RefEnd }[],
): RefState {
  if (state.end !== null) return state;
  const next = thaw(state);
  for (const { job, end } of ends) {
    const [stepId = "", index] = job.split(".");
    const own = next.children.get(stepId);
    if (index !== undefined && own?.[Number(index)] === "open") {
      next.children.set(stepId, own.with(Number(index), end));
    }
  }
  for (const { job, end } of ends) {
    if (next.steps.get(job) !== "RUNNING" || next.children.has(job)) continue;
    next.steps.set(job, STEP_END[end]);
    if (endsRun(workflow, next, job)) {
      stop(workflow, next, "FAILED");
      return next;
    }
  }
  return settle(workflow, next);
}

export function pauseRef(workflow: RefWorkflow, state: RefState, isPaused: boolean): RefState {
  return state.end === null ? settle(workflow, { ...state, isPaused }) : state;
}

/** Cancelled by somebody, or out of time. */
export function endRef(workflow: RefWorkflow, state: RefState, end: "CANCELLED" | "TIMEOUT"): RefState {
  if (state.end !== null) return state;
  const next = thaw(state);
  stop(workflow, next, end);
  return next;
}

/** A list or a `parallel` step that is not done when its time is up. */
export function expireRef(workflow: RefWorkflow, state: RefState, stepId: string): RefState {
  if (state.end !== null || state.steps.get(stepId) !== "RUNNING") return state;
  const next = thaw(state);
  cancel(next, stepId);
  next.steps.set(stepId, "TIMEOUT");
  const { branches = [] } = workflow.steps.find(({ id }) => id === stepId) ?? {};
  for (const branch of branches) if (!isSettled(next, branch)) cancel(next, branch);
  if (endsRun(workflow, next, stepId)) stop(workflow, next, "FAILED");
  return settle(workflow, next);
}

/** The jobs that are out at this moment: those, and no others. */
export function openJobsOf(state: RefState, workflow: RefWorkflow): readonly string[] {
  return workflow.steps.flatMap(({ id, act }) => {
    if (state.steps.get(id) !== "RUNNING" || act !== "job") return [];
    const own = state.children.get(id);
    if (own === undefined) return [id];
    return own.flatMap((child, index) => (child === "open" ? [refJob(id, index)] : []));
  });
}

interface Thawed {
  readonly steps: Map<string, StepState>;
  readonly children: Map<string, readonly RefChild[]>;
  readonly isPaused: boolean;
  end: RunEnd | null;
}

const thaw = ({ steps, children, isPaused, end }: RefState): Thawed => ({
  steps: new Map(steps),
  children: new Map(children),
  isPaused,
  end,
});

const STEP_END: Readonly<Record<RefEnd, StepState>> = {
  ok: "SUCCEEDED",
  fail: "FAILED",
  timeout: "TIMEOUT",
  denied: "DENIED",
  // The step was not done.
  cancelled: "FAILED",
};

/** Reads every rule over every step until none has anything to say. */
function settle(workflow: RefWorkflow, from: RefState): RefState {
  const state = thaw(from);
  for (let before = ""; before !== fingerprint(state); ) {
    before = fingerprint(state);
    for (const step of workflow.steps) {
      if (state.end !== null) return state;
      const isNew = !state.steps.has(step.id);
      if (isNew && !state.isPaused) look(workflow, state, step);
      const fan = listOf(workflow, step);
      if (state.steps.get(step.id) === "RUNNING" && fan) followFan(state, step, fan);
      // What its branches come to is seen once each of them was looked at; a rerun may have kept some.
      if (!isNew && state.steps.get(step.id) === "RUNNING" && step.act === "parallel") followBranches(state, step);
      if (endsRun(workflow, state, step.id)) stop(workflow, state, "FAILED");
    }
  }
  if (state.end === null && !state.isPaused && workflow.steps.every(({ id }) => isSettled(state, id)))
    state.end = "SUCCEEDED";
  return state;
}

/** A step that nothing has happened to yet: may it start, must it wait, or will it never? */
function look(workflow: RefWorkflow, state: Thawed, step: RefStep): void {
  const parallel = workflow.steps.find(({ branches }) => branches.includes(step.id));
  if (parallel) {
    const around = state.steps.get(parallel.id);
    if (around === undefined) return;
    if (around === "RUNNING") begin(workflow, state, step);
    else state.steps.set(step.id, "SKIPPED");
    return;
  }
  const dependencies = dependenciesOf(workflow, step);
  if (!dependencies.every((id) => isSettled(state, id))) return;
  if (isWanted(workflow, state, step, dependencies)) begin(workflow, state, step);
  else state.steps.set(step.id, "SKIPPED");
}

function isWanted(workflow: RefWorkflow, state: Thawed, step: RefStep, dependencies: readonly string[]): boolean {
  const handled = workflow.steps.filter(({ onError }) => onError === step.id).map(({ id }) => id);
  if (handled.length > 0 && !handled.some((id) => isFailed(state, id))) return false;
  const isBlocked = dependencies.some((id) => {
    const onError = workflow.steps.find((other) => other.id === id)?.onError;
    return isFailed(state, id) && onError !== "continue" && !handled.includes(id);
  });
  if (isBlocked) return false;
  for (const choice of workflow.steps) {
    const own = Object.keys(choice.arms).filter((arm) => choice.arms[arm]?.includes(step.id));
    if (own.length === 0) continue;
    const isChosen = [choice.chosen].flat().some((arm) => own.includes(arm));
    if (state.steps.get(choice.id) !== "SUCCEEDED" || !isChosen) return false;
  }
  const didRun = dependencies.some((id) => !["SKIPPED", "CANCELLED"].includes(state.steps.get(id) ?? ""));
  return dependencies.length === 0 || didRun;
}

/** The list that a step is done for: its own, or that of the `parallel` step that it is a branch of. */
export function listOf({ steps }: RefWorkflow, { id, act, fan }: RefStep): RefFan | null {
  if (act !== "job") return null;
  return steps.find(({ branches }) => branches.includes(id))?.fan ?? fan;
}

function begin(workflow: RefWorkflow, state: Thawed, step: RefStep): void {
  if (step.when === false) state.steps.set(step.id, "SKIPPED");
  else if (step.when === "fault") state.steps.set(step.id, "FAILED");
  else if (step.act === "instant") state.steps.set(step.id, "SUCCEEDED");
  else if (step.act === "choice") state.steps.set(step.id, step.chosen === "fault" ? "FAILED" : "SUCCEEDED");
  else {
    state.steps.set(step.id, "RUNNING");
    if (listOf(workflow, step)) state.children.set(step.id, []);
  }
}

function followFan(state: Thawed, { id }: RefStep, { count, parallelMax, isFailFast, failuresMax }: RefFan): void {
  let own = state.children.get(id) ?? [];
  const failed = own.filter((child) => !["open", "ok", "stopped"].includes(child)).length;
  const isLost = failed > failuresMax;
  // Failures of an earlier life count in the end; until then each of them may be tried again as well.
  const isOver =
    isFailFast && isLost && own.some((child) => !["open", "ok", "stopped", "failed_before"].includes(child));
  if (isOver) {
    own = own.map((child) => (child === "open" ? "stopped" : child));
  } else if (!state.isPaused) {
    const open = (): number => own.filter((child) => child === "open").length;
    while (own.length < count && open() < parallelMax) own = [...own, "open"];
  }
  state.children.set(id, own);
  if (isOver || (own.length === count && !own.includes("open"))) {
    state.steps.set(id, isLost ? "FAILED" : "SUCCEEDED");
  }
}

function followBranches(state: Thawed, { id, branches, need }: RefStep): void {
  const done = branches.filter((branch) => state.steps.get(branch) === "SUCCEEDED").length;
  const possible = branches.filter((branch) => !isSettled(state, branch)).length;
  if (done < need && done + possible >= need) return;
  state.steps.set(id, done >= need ? "SUCCEEDED" : "FAILED");
  for (const branch of branches) if (!isSettled(state, branch)) cancel(state, branch);
}

/** A failure that nobody has said anything else about; that of a branch is its parallel step's business. */
function endsRun({ steps }: RefWorkflow, state: Thawed, id: string): boolean {
  const isBranch = steps.some(({ branches }) => branches.includes(id));
  return isFailed(state, id) && !isBranch && steps.find((step) => step.id === id)?.onError === "fail";
}

function stop(workflow: RefWorkflow, state: Thawed, end: RunEnd): void {
  state.end = end;
  for (const { id } of workflow.steps) if (!isSettled(state, id)) cancel(state, id);
}

function cancel(state: Thawed, id: string): void {
  state.steps.set(id, "CANCELLED");
  const own = state.children.get(id);
  if (own) {
    state.children.set(
      id,
      own.map((child) => (child === "open" ? "stopped" : child)),
    );
  }
}

/** As written, and what follows from arms, branches and handlers. */
export function dependenciesOf({ steps }: RefWorkflow, step: RefStep): readonly string[] {
  const others = steps.filter(
    ({ arms, branches, onError }) =>
      branches.includes(step.id) || onError === step.id || Object.values(arms).some((ids) => ids.includes(step.id)),
  );
  return [...new Set([...step.dependsOn, ...others.map(({ id }) => id)])];
}

function isSettled(state: Pick<RefState, "steps">, id: string): boolean {
  const found = state.steps.get(id);
  return found !== undefined && found !== "RUNNING";
}

function isFailed(state: Pick<RefState, "steps">, id: string): boolean {
  return ["FAILED", "TIMEOUT", "DENIED"].includes(state.steps.get(id) ?? "");
}

const fingerprint = ({ steps, children }: Thawed): string =>
  `${[...steps.values()].join()} ${[...children.values()].join(" ")} ${steps.size}`;
