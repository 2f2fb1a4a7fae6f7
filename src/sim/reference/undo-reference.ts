import type { RunEnd, StepState } from "../../core/model/run.ts";
import type { RefChild, RefFan, RefStep } from "./model.ts";

/**
 * The reference model of compensation: a run that does not succeed undoes its completed steps one after the other, the
 * last one to complete first. Steps that complete in one commit have no order of their own.
 */
export interface RefUndo {
  /** The steps to undo, with the number of the commit in which each completed. */
  readonly completed: ReadonlyMap<string, number>;
  /** By `undoJob`. */
  readonly jobs: ReadonlyMap<string, "open" | "ok" | "failed">;
  /** An operator stopped it. */
  readonly isStopped: boolean;
}

/** The part of a commit that the model does not predict. */
export interface UndoCommit {
  /** Grows with each commit of the run. */
  readonly at?: number;
  /** The order among steps that completed in one commit. */
  readonly undoOrder?: readonly string[];
  /** Whether the compensation may be created by now. */
  mayUndo?(job: string): boolean;
}

/** The part of the state that it depends on. */
export interface Undoable {
  readonly steps: ReadonlyMap<string, StepState>;
  readonly children: ReadonlyMap<string, readonly RefChild[]>;
  /** Steps of the earlier run. */
  readonly kept: ReadonlySet<string>;
  readonly end: RunEnd | null;
}

export const NO_UNDO: RefUndo = { completed: new Map(), jobs: new Map(), isStopped: false };

/** `undo:stepId`, or `undo:stepId.index` for a child. */
export const undoJob = (stepId: string, index: number | null | undefined): string =>
  `${UNDO}${stepId}${index === null || index === undefined ? "" : `.${index}`}`;
export const isUndoJob = (job: string): boolean => job.startsWith(UNDO);
const UNDO = "undo:";

/** Records the steps that have completed, and starts compensations if the run ends without success. */
export function advanceUndo(
  steps: readonly RefStep[],
  listOf: (step: RefStep) => RefFan | null,
  state: Undoable,
  undo: RefUndo,
  commit: UndoCommit,
): RefUndo {
  const at = commit.at ?? Math.max(0, ...undo.completed.values()) + 1;
  const completed = new Map<string, number>();
  for (const { id, isCompensated } of steps) {
    if (isCompensated && hasCompleted(state, id)) completed.set(id, undo.completed.get(id) ?? at);
  }
  const next = { ...undo, completed };
  const isUndoing = state.end !== null && state.end !== "SUCCEEDED";
  return isUndoing && steps.every(({ id }) => isSettled(state, id))
    ? startUndo(steps, listOf, state, next, commit)
    : next;
}

function startUndo(
  steps: readonly RefStep[],
  listOf: (step: RefStep) => RefFan | null,
  state: Undoable,
  undo: RefUndo,
  { undoOrder = [], mayUndo = () => true }: UndoCommit,
): RefUndo {
  const jobs = new Map(undo.jobs);
  const rank = (id: string): number => undoOrder.indexOf(id);
  const order = [...undo.completed].sort(([a, atA], [b, atB]) => atB - atA || rank(a) - rank(b)).map(([id]) => id);
  for (const id of order) {
    const step = steps.find((one) => one.id === id);
    const parallelMax = (step && listOf(step)?.parallelMax) ?? 1;
    const wanted = jobsOf(state, id);
    for (const job of undo.isStopped ? [] : wanted) {
      if (jobs.has(job)) continue;
      if (wanted.filter((one) => jobs.get(one) === "open").length >= parallelMax || !mayUndo(job)) break;
      jobs.set(job, "open");
    }
    if (!isStepOver(wanted, { ...undo, jobs })) break;
  }
  return { ...undo, jobs };
}

/** Whether the run may end. */
export const isUndoOver = (state: Undoable, undo: RefUndo): boolean =>
  [...undo.completed.keys()].every((id) => isStepOver(jobsOf(state, id), undo));

const isStepOver = (wanted: readonly string[], { jobs, isStopped }: RefUndo): boolean =>
  wanted.every((job) => (jobs.has(job) ? jobs.get(job) !== "open" : isStopped));

/** Steps that were undone as a whole: a rerun executes them again. */
export const undoneSteps = (state: Undoable, { completed, jobs }: RefUndo): readonly string[] =>
  [...completed.keys()].filter((id) => jobsOf(state, id).every((job) => jobs.get(job) === "ok"));

/** The compensations of a step; of a list, the last child that succeeded first. */
function jobsOf({ children }: Undoable, id: string): readonly string[] {
  const own = children.get(id);
  if (own === undefined) return [undoJob(id, null)];
  return own.flatMap((child, index) => (child === "ok" ? [undoJob(id, index)] : [])).toReversed();
}

function hasCompleted(state: Undoable, id: string): boolean {
  if (state.kept.has(id) || !isSettled(state, id)) return false;
  const own = state.children.get(id);
  return own === undefined ? state.steps.get(id) === "SUCCEEDED" : own.includes("ok");
}

function isSettled({ steps }: Undoable, id: string): boolean {
  const found = steps.get(id);
  return found !== undefined && found !== "RUNNING";
}

/** Equal for equal states: the order in which steps completed, and their compensations. */
export function undoFingerprint({ completed, jobs, isStopped }: RefUndo): string {
  const ranks = [...new Set(completed.values())].sort((a, b) => a - b);
  const order = [...completed].map(([id, at]) => `${id}@${ranks.indexOf(at)}`).sort();
  return `${order.join()} ${[...jobs].join(" ")} ${isStopped}`;
}
