import type { RunEnd, RunState, StepState } from "../../core/model/run.ts";
import type {
  RefChild,
  RefCommit,
  RefEnd,
  RefEvent,
  RefFan,
  RefLoop,
  RefReceived,
  RefState,
  RefStep,
  RefWorkflow,
} from "./model.ts";
import { advanceUndo, isUndoJob, isUndoOver, NO_UNDO, type RefUndo, undoFingerprint } from "./undo-reference.ts";

export const UNBOUNDED: RefCommit = {
  isStopped: () => true,
  createdMax: () => Number.POSITIVE_INFINITY,
  isRefused: () => false,
  iterationMax: () => Number.POSITIVE_INFINITY,
  isLate: () => false,
};

/** `stepId`, or `stepId.index` for a child. */
export const refJob = (stepId: string, index: number | null | undefined): string =>
  index === null || index === undefined ? stepId : `${stepId}.${index}`;

/** `kept`: the step states that a rerun keeps. */
export function startRef(
  workflow: RefWorkflow,
  kept: ReadonlyMap<string, StepState> = new Map(),
  commit: RefCommit = UNBOUNDED,
  asks: ReadonlySet<string> = new Set(),
): RefState {
  const state: RefState = {
    ...{ steps: new Map(kept), children: new Map(), ending: new Map(), isPaused: false, end: null, asks },
    ...{ kept: new Set(kept.keys()), undo: NO_UNDO, iterations: new Map(), mailbox: [] },
  };
  return new Transition(workflow, state, commit).settle();
}

/**
 * Applies the events of one commit in their order, then the rules. Children that must stop are stopped after the last
 * event: until then their list is not settled, and cannot end the run.
 */
export function applyEvents(
  workflow: RefWorkflow,
  state: RefState,
  events: readonly RefEvent[],
  commit: RefCommit = UNBOUNDED,
): RefState {
  return new Transition(workflow, apply(workflow, state, events, commit), commit).settle();
}

/** The events without the rules, as the engine applies those of one batch. */
export function unsettledEvents(
  workflow: RefWorkflow,
  state: RefState,
  events: readonly RefEvent[],
  commit: RefCommit,
): RefState {
  return apply(workflow, state, events, commit);
}

function apply(workflow: RefWorkflow, state: RefState, events: readonly RefEvent[], commit: RefCommit): Transition {
  const next = new Transition(workflow, state, { ...commit, isStopped: () => false });
  for (const event of events) {
    if ("job" in event) next.endJob(event.job, event.end);
    else if ("expire" in event) next.expire(event.expire);
    else if ("receive" in event) next.receive(event.receive);
    else next.stop(event.stop);
  }
  return next;
}

export function pauseRef(
  workflow: RefWorkflow,
  state: RefState,
  isPaused: boolean,
  commit: RefCommit = UNBOUNDED,
): RefState {
  return state.end === null ? new Transition(workflow, { ...state, isPaused }, commit).settle() : state;
}

/** The state of the run; ENDING while children of its lists are stopped, and while its steps are undone. */
export function runStateOf({ steps }: RefWorkflow, state: RefState): RunState {
  if (state.end === null) return state.isPaused ? "PAUSED" : "RUNNING";
  const isOver = state.end === "SUCCEEDED" || isUndoOver(state, state.undo);
  return isOver && steps.every(({ id }) => isSettled(state, id)) ? state.end : "ENDING";
}

/** The jobs that are open in this state. */
export function openJobsOf(state: RefState, workflow: RefWorkflow): readonly string[] {
  const open = workflow.steps.flatMap(({ id, act }) => {
    if (state.steps.get(id) !== "RUNNING" || act !== "job") return [];
    const own = state.children.get(id);
    if (own === undefined) return [id];
    return own.flatMap((child, index) => (isOpen(child) ? [refJob(id, index)] : []));
  });
  return [...open, ...[...state.undo.jobs].flatMap(([job, is]) => (is === "open" ? [job] : []))];
}

const isOpen = (child: RefChild): boolean => child === "open" || child === "stopping";
const isFailed = (child: RefChild): boolean => !isOpen(child) && child !== "ok" && child !== "stopped";

const STEP_END: Readonly<Record<RefEnd, StepState>> = {
  ok: "SUCCEEDED",
  fail: "FAILED",
  timeout: "TIMEOUT",
  denied: "DENIED",
  cancelled: "FAILED",
};

/** A copy of a state that the events of one commit change. */
class Transition implements RefState {
  readonly #workflow: RefWorkflow;
  readonly #commit: RefCommit;
  readonly steps: Map<string, StepState>;
  readonly children: Map<string, readonly RefChild[]>;
  readonly ending: Map<string, StepState>;
  readonly iterations: Map<string, number>;
  mailbox: readonly RefReceived[];
  readonly isPaused: boolean;
  readonly asks: ReadonlySet<string>;
  readonly kept: ReadonlySet<string>;
  end: RunEnd | null;
  undo: RefUndo;

  constructor(workflow: RefWorkflow, before: RefState, commit: RefCommit) {
    const { steps, children, ending, iterations, mailbox, isPaused, end, asks, kept, undo } = before;
    this.asks = asks;
    this.kept = kept;
    this.undo = undo;
    this.iterations = new Map(iterations);
    this.mailbox = mailbox;
    this.#workflow = workflow;
    this.#commit = commit;
    this.steps = new Map(steps);
    this.children = new Map(children);
    this.ending = new Map(ending);
    this.isPaused = isPaused;
    this.end = end;
  }

  /** A child that must stop may end by itself before. */
  endJob(job: string, end: RefEnd): void {
    if (isUndoJob(job)) {
      this.undo = { ...this.undo, jobs: new Map(this.undo.jobs).set(job, end === "ok" ? "ok" : "failed") };
      return;
    }
    const [stepId = "", index] = job.split(".");
    const own = this.children.get(stepId);
    if (this.steps.get(stepId) !== "RUNNING") {
      // Its worker completed it in the commit that cancels it: it is undone with the others.
      const { isCompensated = false } = this.#workflow.steps.find(({ id }) => id === stepId) ?? {};
      const isDone = isCompensated && !own && end === "ok" && this.steps.get(stepId) === "CANCELLED";
      if (isDone) this.steps.set(stepId, "SUCCEEDED");
      return;
    }
    if (own) this.#endChild(stepId, own, Number(index), end);
    else this.steps.set(stepId, STEP_END[end]);
    this.#applyFailure(stepId);
  }

  /** The first waiting step that the event matches takes it; else the run keeps it. */
  receive(received: RefReceived): void {
    if (this.end !== null) return;
    const isOpen = (id: string): boolean => this.steps.get(id) === "RUNNING" && !this.#commit.isLate(id);
    const taker = this.#workflow.steps.find((step) => isOpen(step.id) && isTakenBy(step, received));
    if (taker) this.steps.set(taker.id, "SUCCEEDED");
    else this.mailbox = [...this.mailbox, received];
  }

  expire(stepId: string): void {
    if (this.end !== null || this.ending.has(stepId) || this.steps.get(stepId) !== "RUNNING") return;
    this.#endStep(stepId, "TIMEOUT");
    const { branches = [], loop } = this.#workflow.steps.find(({ id }) => id === stepId) ?? {};
    for (const within of [...branches, ...(loop?.body ?? [])]) this.#cancel(within);
    this.#applyFailure(stepId);
  }

  stop(end: RunEnd): void {
    if (this.end !== null) return;
    this.end = end;
    for (const { id } of this.#workflow.steps) this.#cancel(id);
  }

  /** Applies the rules to all steps until nothing changes. */
  settle(): RefState {
    const { steps } = this.#workflow;
    for (let before = ""; before !== fingerprint(this); ) {
      before = fingerprint(this);
      for (const step of steps) {
        const isNew = !this.steps.has(step.id);
        if (isNew && !this.isPaused && this.end === null) this.#startOrSkip(step);
        const fan = listOf(this.#workflow, step);
        if (this.steps.get(step.id) === "RUNNING" && fan) this.#advanceFan(step, fan);
        // Not for a new step: its branches must be evaluated first, because a rerun may have kept some of them.
        if (!isNew && this.steps.get(step.id) === "RUNNING" && step.act === "parallel") this.#advanceBranches(step);
        if (!isNew && this.steps.get(step.id) === "RUNNING" && step.loop) this.#advanceLoop(step.id, step.loop);
        this.#applyFailure(step.id);
      }
    }
    if (this.end === null && !this.isPaused && steps.every(({ id }) => isSettled(this, id))) this.end = "SUCCEEDED";
    this.undo = advanceUndo(steps, (step) => listOf(this.#workflow, step), this, this.undo, this.#commit);
    return this;
  }

  /** Starts or skips a pending step, or leaves it pending. */
  #startOrSkip(step: RefStep): void {
    const parallel = this.#workflow.steps.find(({ branches }) => branches.includes(step.id));
    if (parallel) {
      const parallelState = this.steps.get(parallel.id);
      if (parallelState === undefined) return;
      if (parallelState === "RUNNING") this.#start(step);
      else this.steps.set(step.id, "SKIPPED");
      return;
    }
    const loop = this.#workflow.steps.find((other) => other.loop?.body.includes(step.id));
    if (loop && this.steps.get(loop.id) !== "RUNNING") {
      if (isSettled(this, loop.id)) this.steps.set(step.id, "SKIPPED");
      return;
    }
    const asked = [...this.asks].filter((id) => precedes(this.#workflow, id, step));
    const own = dependenciesOf(this.#workflow, step).filter((id) => id !== loop?.id);
    const dependencies = [...new Set([...own, ...asked])];
    if (!dependencies.every((id) => isSettled(this, id))) return;
    if (this.#shouldRun(step, own, dependencies)) this.#start(step);
    else this.steps.set(step.id, "SKIPPED");
  }

  #shouldRun(step: RefStep, own: readonly string[], dependencies: readonly string[]): boolean {
    const { steps } = this.#workflow;
    const handled = steps.filter(({ onError }) => onError === step.id).map(({ id }) => id);
    if (handled.length > 0 && !handled.some((id) => hasFailed(this, id))) return false;
    const isBlocked = dependencies.some((id) => {
      const onError = steps.find((other) => other.id === id)?.onError;
      return hasFailed(this, id) && onError !== "continue" && !handled.includes(id);
    });
    if (isBlocked) return false;
    for (const choice of steps) {
      const arms = Object.keys(choice.arms).filter((arm) => choice.arms[arm]?.includes(step.id));
      if (arms.length === 0) continue;
      const isChosen = [choice.chosen].flat().some((arm) => arms.includes(arm));
      if (this.steps.get(choice.id) !== "SUCCEEDED" || !isChosen) return false;
    }
    const didRun = own.some((id) => !["SKIPPED", "CANCELLED"].includes(this.steps.get(id) ?? ""));
    return own.length === 0 || didRun;
  }

  #start(step: RefStep): void {
    if (step.when === false) this.steps.set(step.id, "SKIPPED");
    else if (step.when === "fault") this.steps.set(step.id, "FAILED");
    else if (step.act === "instant") this.steps.set(step.id, "SUCCEEDED");
    else if (step.act === "choice") this.steps.set(step.id, step.chosen === "fault" ? "FAILED" : "SUCCEEDED");
    else if (step.act === "wait") this.#startWait(step);
    else {
      if (step.loop) this.iterations.set(step.id, 1);
      const isList = listOf(this.#workflow, step) !== null;
      this.steps.set(step.id, !isList && this.#commit.isRefused(step.id) ? "FAILED" : "RUNNING");
      if (isList) this.children.set(step.id, []);
    }
  }

  #startWait(step: RefStep): void {
    const early = this.mailbox.find((received) => isTakenBy(step, received));
    this.mailbox = this.mailbox.filter((received) => received !== early);
    this.steps.set(step.id, early ? "SUCCEEDED" : "RUNNING");
  }

  #advanceLoop(id: string, { body, untilIteration, iterationsMax }: RefLoop): void {
    if (!body.every((step) => isSettled(this, step))) return;
    const iteration = this.iterations.get(id) ?? 1;
    if (iteration >= untilIteration) this.steps.set(id, "SUCCEEDED");
    else if (iteration >= iterationsMax) this.steps.set(id, "FAILED");
    else if (iteration < this.#commit.iterationMax(id)) {
      this.iterations.set(id, iteration + 1);
      for (const step of body) {
        this.steps.delete(step);
        this.children.delete(step);
      }
    }
  }

  #advanceFan({ id }: RefStep, fan: RefFan): void {
    const createdMax = Math.min(fan.count, this.#commit.createdMax(id));
    while (!this.isPaused && !this.ending.has(id) && this.steps.get(id) === "RUNNING") {
      const own = this.children.get(id) ?? [];
      if (own.length >= createdMax || own.filter(isOpen).length >= fan.parallelMax) break;
      const next: readonly RefChild[] = [...own, "open"];
      this.children.set(id, next);
      if (this.#commit.isRefused(refJob(id, own.length))) this.#endChild(id, next, own.length, "fail");
    }
    if (this.steps.get(id) === "RUNNING") this.#closeFan(id, fan);
  }

  #endChild(id: string, own: readonly RefChild[], index: number, end: RefEnd): void {
    const step = this.#workflow.steps.find((other) => other.id === id);
    const fan = step && listOf(this.#workflow, step);
    const child = own[index];
    if (!fan || !child || !isOpen(child)) return;
    const next = own.with(index, end);
    this.children.set(id, next);
    // Failures before a redrive do not stop the other children, because each of them may be redriven, too.
    const isOver = end !== "ok" && fan.isFailFast && next.filter(isFailed).length > fan.failuresMax;
    if (isOver && !this.ending.has(id)) this.#endStep(id, "FAILED");
    else this.#closeFan(id, fan);
  }

  #closeFan(id: string, { count, failuresMax }: RefFan): void {
    const own = this.children.get(id) ?? [];
    const ending = this.ending.get(id);
    if (ending !== undefined) this.#endStep(id, ending);
    else if (own.length === count && !own.some(isOpen))
      this.steps.set(id, own.filter(isFailed).length > failuresMax ? "FAILED" : "SUCCEEDED");
  }

  #advanceBranches({ id, branches, need }: RefStep): void {
    const done = branches.filter((branch) => this.steps.get(branch) === "SUCCEEDED").length;
    const possible = branches.filter((branch) => !isSettled(this, branch)).length;
    if (done < need && done + possible >= need) return;
    this.steps.set(id, done >= need ? "SUCCEEDED" : "FAILED");
    for (const branch of branches) this.#cancel(branch);
  }

  /** The failure of a step without error handling, which is not a branch, ends its loop, or the run. */
  #applyFailure(id: string): void {
    const { steps } = this.#workflow;
    const isBranch = steps.some(({ branches }) => branches.includes(id));
    if (!hasFailed(this, id) || isBranch || steps.find((step) => step.id === id)?.onError !== "fail") return;
    const around = steps.find(({ loop }) => loop?.body.includes(id));
    if (!around) this.stop("FAILED");
    else if (this.steps.get(around.id) === "RUNNING") {
      this.steps.set(around.id, "FAILED");
      for (const step of around.loop?.body ?? []) this.#cancel(step);
      this.#applyFailure(around.id);
    }
  }

  #cancel(id: string): void {
    if (!isSettled(this, id) && !this.ending.has(id)) this.#endStep(id, "CANCELLED");
  }

  /** A list ends when its last open child has stopped. */
  #endStep(id: string, as: StepState): void {
    const own = this.children.get(id) ?? [];
    const next = own.map((child, index): RefChild => {
      if (!isOpen(child)) return child;
      return this.#commit.isStopped(refJob(id, index)) ? "stopped" : "stopping";
    });
    if (own.length > 0) this.children.set(id, next);
    if (next.includes("stopping")) {
      this.ending.set(id, as);
      return;
    }
    this.ending.delete(id);
    this.steps.set(id, as);
  }
}

/** The list of a step: its own, or the one of the `parallel` step that it is a branch of. */
export function listOf({ steps }: RefWorkflow, { id, act, fan }: RefStep): RefFan | null {
  if (act !== "job") return null;
  return steps.find(({ branches }) => branches.includes(id))?.fan ?? fan;
}

/** The explicit dependencies and those from arms, branches and error handlers. */
export function dependenciesOf({ steps }: RefWorkflow, step: RefStep): readonly string[] {
  const others = steps.filter(({ arms, branches, onError, loop }) =>
    [...branches, onError, ...(loop?.body ?? []), ...Object.values(arms).flat()].includes(step.id),
  );
  return [...new Set([...step.dependsOn, ...others.map(({ id }) => id)])];
}

function precedes(workflow: RefWorkflow, id: string, step: RefStep): boolean {
  return dependenciesOf(workflow, step).some((before) => {
    const own = workflow.steps.find((other) => other.id === before);
    return before === id || (own !== undefined && precedes(workflow, id, own));
  });
}

const isTakenBy = ({ awaits }: RefStep, { event, key }: RefReceived): boolean =>
  awaits !== undefined && awaits.event === event && (awaits.key === null || awaits.key === key);

function isSettled(state: Pick<RefState, "steps">, id: string): boolean {
  const found = state.steps.get(id);
  return found !== undefined && found !== "RUNNING";
}

function hasFailed(state: Pick<RefState, "steps">, id: string): boolean {
  return ["FAILED", "TIMEOUT", "DENIED"].includes(state.steps.get(id) ?? "");
}

/** Equal for equal states of one workflow. */
export const fingerprint = ({ steps, children, ending, end, iterations, mailbox, undo }: RefState): string =>
  [
    ...[[...steps].join(), [...children].join(" "), [...ending].join(), [...iterations].join()],
    ...[JSON.stringify(mailbox), end, undoFingerprint(undo)],
  ].join(" ");
