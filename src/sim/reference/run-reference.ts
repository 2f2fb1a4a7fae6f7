import type { RunEnd, StepState } from "../../core/model/run.ts";

/**
 * The reference model of runs: the rules of a step are applied to the whole state until a fixed point is reached. It shares
 * no code with the engine and has no times, outputs or batches. A difference to the engine is a bug in one of them.
 */
export interface RefWorkflow {
  /** In topological order. */
  readonly steps: readonly RefStep[];
}

export interface RefStep {
  readonly id: string;
  /** `job`: a job or a sub-run; `instant`: no job; `choice`: a `condition` or a `switch`. */
  readonly act: "job" | "instant" | "choice" | "parallel";
  /** Explicit dependencies; `dependenciesOf` adds those from arms, branches and error handlers. */
  readonly dependsOn: readonly string[];
  /** `fail`, `continue`, or the id of the error handler. */
  readonly onError: string;
  /** The result of the step's `condition`; null: no condition. */
  readonly when: boolean | "fault" | null;
  /** `choice`: the steps of each arm, and the chosen arm; a list: the chosen arm of each item. */
  readonly arms: Readonly<Record<string, readonly string[]>>;
  readonly chosen: string | "fault" | readonly string[];
  readonly branches: readonly string[];
  readonly need: number;
  /** `job`: one child per item; `parallel`: one child per item in each branch. */
  readonly fan: RefFan | null;
}

export interface RefFan {
  readonly count: number;
  readonly parallelMax: number;
  readonly isFailFast: boolean;
  readonly failuresMax: number;
}

/** How a job ended; `cancelled`: by a request for the job, not for the run. */
export type RefEnd = "ok" | "fail" | "timeout" | "denied" | "cancelled";
/** `stopped`: cancelled by its step. `failed_before`: failed before a redrive of its step. */
export type RefChild = "open" | RefEnd | "stopped" | "failed_before";

export interface RefState {
  /** Pending steps are absent. */
  readonly steps: ReadonlyMap<string, StepState>;
  /** The children of each started `for_each`. */
  readonly children: ReadonlyMap<string, readonly RefChild[]>;
  readonly isPaused: boolean;
  readonly end: RunEnd | null;
}

/** `stepId`, or `stepId.index` for a child. */
export const refJob = (stepId: string, index: number | null | undefined): string =>
  index === null || index === undefined ? stepId : `${stepId}.${index}`;

/** `kept`: the step states that a rerun keeps. */
export function startRef(workflow: RefWorkflow, kept: ReadonlyMap<string, StepState> = new Map()): RefState {
  return settle(workflow, { steps: new Map(kept), children: new Map(), isPaused: false, end: null });
}

/** Applies jobs that end in one commit. The first one that ends the run wins; else the rules are applied. */
export function applyEnds(
  workflow: RefWorkflow,
  state: RefState,
  ends: readonly { readonly job: string; readonly end: RefEnd }[],
): RefState {
  if (state.end !== null) return state;
  const next = mutable(state);
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

export function endRef(workflow: RefWorkflow, state: RefState, end: "CANCELLED" | "TIMEOUT"): RefState {
  if (state.end !== null) return state;
  const next = mutable(state);
  stop(workflow, next, end);
  return next;
}

/** The timeout of a list or a `parallel` step. */
export function expireRef(workflow: RefWorkflow, state: RefState, stepId: string): RefState {
  if (state.end !== null || state.steps.get(stepId) !== "RUNNING") return state;
  const next = mutable(state);
  cancel(next, stepId);
  next.steps.set(stepId, "TIMEOUT");
  const { branches = [] } = workflow.steps.find(({ id }) => id === stepId) ?? {};
  for (const branch of branches) if (!isSettled(next, branch)) cancel(next, branch);
  if (endsRun(workflow, next, stepId)) stop(workflow, next, "FAILED");
  return settle(workflow, next);
}

/** The jobs that are open in this state. */
export function openJobsOf(state: RefState, workflow: RefWorkflow): readonly string[] {
  return workflow.steps.flatMap(({ id, act }) => {
    if (state.steps.get(id) !== "RUNNING" || act !== "job") return [];
    const own = state.children.get(id);
    if (own === undefined) return [id];
    return own.flatMap((child, index) => (child === "open" ? [refJob(id, index)] : []));
  });
}

interface MutableState {
  readonly steps: Map<string, StepState>;
  readonly children: Map<string, readonly RefChild[]>;
  readonly isPaused: boolean;
  end: RunEnd | null;
}

const mutable = ({ steps, children, isPaused, end }: RefState): MutableState => ({
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
  cancelled: "FAILED",
};

/** Applies the rules to all steps until nothing changes. */
function settle(workflow: RefWorkflow, from: RefState): RefState {
  const state = mutable(from);
  for (let before = ""; before !== fingerprint(state); ) {
    before = fingerprint(state);
    for (const step of workflow.steps) {
      if (state.end !== null) return state;
      const isNew = !state.steps.has(step.id);
      if (isNew && !state.isPaused) startOrSkip(workflow, state, step);
      const fan = listOf(workflow, step);
      if (state.steps.get(step.id) === "RUNNING" && fan) advanceFan(state, step, fan);
      // Not for a new step: its branches must be evaluated first, because a rerun may have kept some of them.
      if (!isNew && state.steps.get(step.id) === "RUNNING" && step.act === "parallel") advanceBranches(state, step);
      if (endsRun(workflow, state, step.id)) stop(workflow, state, "FAILED");
    }
  }
  if (state.end === null && !state.isPaused && workflow.steps.every(({ id }) => isSettled(state, id)))
    state.end = "SUCCEEDED";
  return state;
}

/** Starts or skips a pending step, or leaves it pending. */
function startOrSkip(workflow: RefWorkflow, state: MutableState, step: RefStep): void {
  const parallel = workflow.steps.find(({ branches }) => branches.includes(step.id));
  if (parallel) {
    const parallelState = state.steps.get(parallel.id);
    if (parallelState === undefined) return;
    if (parallelState === "RUNNING") start(workflow, state, step);
    else state.steps.set(step.id, "SKIPPED");
    return;
  }
  const dependencies = dependenciesOf(workflow, step);
  if (!dependencies.every((id) => isSettled(state, id))) return;
  if (shouldRun(workflow, state, step, dependencies)) start(workflow, state, step);
  else state.steps.set(step.id, "SKIPPED");
}

function shouldRun(
  workflow: RefWorkflow,
  state: MutableState,
  step: RefStep,
  dependencies: readonly string[],
): boolean {
  const handled = workflow.steps.filter(({ onError }) => onError === step.id).map(({ id }) => id);
  if (handled.length > 0 && !handled.some((id) => hasFailed(state, id))) return false;
  const isBlocked = dependencies.some((id) => {
    const onError = workflow.steps.find((other) => other.id === id)?.onError;
    return hasFailed(state, id) && onError !== "continue" && !handled.includes(id);
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

/** The list of a step: its own, or the one of the `parallel` step that it is a branch of. */
export function listOf({ steps }: RefWorkflow, { id, act, fan }: RefStep): RefFan | null {
  if (act !== "job") return null;
  return steps.find(({ branches }) => branches.includes(id))?.fan ?? fan;
}

function start(workflow: RefWorkflow, state: MutableState, step: RefStep): void {
  if (step.when === false) state.steps.set(step.id, "SKIPPED");
  else if (step.when === "fault") state.steps.set(step.id, "FAILED");
  else if (step.act === "instant") state.steps.set(step.id, "SUCCEEDED");
  else if (step.act === "choice") state.steps.set(step.id, step.chosen === "fault" ? "FAILED" : "SUCCEEDED");
  else {
    state.steps.set(step.id, "RUNNING");
    if (listOf(workflow, step)) state.children.set(step.id, []);
  }
}

function advanceFan(
  state: MutableState,
  { id }: RefStep,
  { count, parallelMax, isFailFast, failuresMax }: RefFan,
): void {
  let own = state.children.get(id) ?? [];
  const failed = own.filter((child) => !["open", "ok", "stopped"].includes(child)).length;
  const exceedsMax = failed > failuresMax;
  // Failures before a redrive count at the end only, because each of them may be redriven, too.
  const isFailed =
    isFailFast && exceedsMax && own.some((child) => !["open", "ok", "stopped", "failed_before"].includes(child));
  if (isFailed) {
    own = own.map((child) => (child === "open" ? "stopped" : child));
  } else if (!state.isPaused) {
    const open = (): number => own.filter((child) => child === "open").length;
    while (own.length < count && open() < parallelMax) own = [...own, "open"];
  }
  state.children.set(id, own);
  if (isFailed || (own.length === count && !own.includes("open"))) {
    state.steps.set(id, exceedsMax ? "FAILED" : "SUCCEEDED");
  }
}

function advanceBranches(state: MutableState, { id, branches, need }: RefStep): void {
  const done = branches.filter((branch) => state.steps.get(branch) === "SUCCEEDED").length;
  const possible = branches.filter((branch) => !isSettled(state, branch)).length;
  if (done < need && done + possible >= need) return;
  state.steps.set(id, done >= need ? "SUCCEEDED" : "FAILED");
  for (const branch of branches) if (!isSettled(state, branch)) cancel(state, branch);
}

/** Whether the failure of a step ends the run: it has no error handling and is not a branch. */
function endsRun({ steps }: RefWorkflow, state: MutableState, id: string): boolean {
  const isBranch = steps.some(({ branches }) => branches.includes(id));
  return hasFailed(state, id) && !isBranch && steps.find((step) => step.id === id)?.onError === "fail";
}

function stop(workflow: RefWorkflow, state: MutableState, end: RunEnd): void {
  state.end = end;
  for (const { id } of workflow.steps) if (!isSettled(state, id)) cancel(state, id);
}

function cancel(state: MutableState, id: string): void {
  state.steps.set(id, "CANCELLED");
  const own = state.children.get(id);
  if (own) {
    state.children.set(
      id,
      own.map((child) => (child === "open" ? "stopped" : child)),
    );
  }
}

/** The explicit dependencies and those from arms, branches and error handlers. */
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

function hasFailed(state: Pick<RefState, "steps">, id: string): boolean {
  return ["FAILED", "TIMEOUT", "DENIED"].includes(state.steps.get(id) ?? "");
}

const fingerprint = ({ steps, children }: MutableState): string =>
  `${[...steps.values()].join()} ${[...children.values()].join(" ")} ${steps.size}`;
