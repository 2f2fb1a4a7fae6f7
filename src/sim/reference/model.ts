import type { RunEnd, StepState } from "../../core/model/run.ts";
import type { RefUndo, UndoCommit } from "./undo-reference.ts";

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
  readonly act: "job" | "instant" | "choice" | "parallel" | "wait" | "loop";
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
  /** It has a `compensate`. */
  readonly isCompensated?: boolean;
  /** `wait`: the event that it takes; `key` null: with any correlation key. */
  readonly awaits?: { readonly event: string; readonly key: string | null };
  /** `loop`: its steps, the iteration after which it succeeds, and the one after which it fails. */
  readonly loop?: RefLoop;
}

export interface RefLoop {
  readonly body: readonly string[];
  readonly untilIteration: number;
  readonly iterationsMax: number;
}

export interface RefFan {
  readonly count: number;
  readonly parallelMax: number;
  readonly isFailFast: boolean;
  readonly failuresMax: number;
}

/** How a job ended; `cancelled`: by a request for the job, not for the run. */
export type RefEnd = "ok" | "fail" | "timeout" | "denied" | "cancelled";
/** `stopping`: to be cancelled by its step, which takes one or more commits. `failed_before`: failed before a redrive of its step. */
export type RefChild = "open" | RefEnd | "stopping" | "stopped" | "failed_before";

export interface RefState {
  /** Pending steps are absent. */
  readonly steps: ReadonlyMap<string, StepState>;
  /** The children of each started `for_each`. */
  readonly children: ReadonlyMap<string, readonly RefChild[]>;
  /** The states that running lists take when their last child has stopped. */
  readonly ending: ReadonlyMap<string, StepState>;
  readonly isPaused: boolean;
  /** Decided once; the run is over when all steps have settled. */
  readonly end: RunEnd | null;
  /** The current iteration of each started loop. */
  readonly iterations: ReadonlyMap<string, number>;
  /** Events that no step has taken, oldest first. */
  readonly mailbox: readonly RefReceived[];
  /** Approvals that a rerun asks for again; every later step waits for them. */
  readonly asks: ReadonlySet<string>;
  /** Steps that a rerun keeps. */
  readonly kept: ReadonlySet<string>;
  readonly undo: RefUndo;
}

/** Bounds of one commit that the model does not predict. */
export interface RefCommit extends UndoCommit {
  /** Whether a child that must stop has been stopped, or was never created. */
  isStopped(job: string): boolean;
  /** The number of children that a list may have created by now. */
  createdMax(stepId: string): number;
  /** Whether a delay fails at its start, without a job: it would end after the run's deadline. */
  isRefused(job: string): boolean;
  /** The iteration that a loop has reached by now: one commit may end several, or leave the next one to another commit. */
  iterationMax(stepId: string): number;
  /** Whether the deadline of a waiting step has passed, although its timer has not fired. */
  isLate(stepId: string): boolean;
}

/** An event as it arrives. */
export interface RefReceived {
  readonly event: string;
  readonly key: string | null;
}

/** `expire`: the timeout of a list or of a step without a job; `receive`: an event; `stop`: the end of the run. */
export type RefEvent =
  | { readonly job: string; readonly end: RefEnd }
  | { readonly expire: string }
  | { readonly receive: RefReceived }
  | { readonly stop: "CANCELLED" | "TIMEOUT" };
