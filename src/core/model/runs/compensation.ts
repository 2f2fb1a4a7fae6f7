import type { WireError } from "../../retry/intent.ts";

/**
 * Compensation: the steps of a run that did not succeed are undone by jobs of their own, in the reverse order of their
 * completion. The run stays ENDING until the last one has ended.
 */
export interface Compensation {
  /** The completed steps that have a `compensate`, in the order in which they are undone. */
  readonly order: readonly string[];
  /** An operator stopped it: compensations that have not started do not start. */
  readonly isStopped?: true;
}

/** The compensation of one step; absent until it starts. */
export interface StepCompensation {
  readonly state: "RUNNING" | "SUCCEEDED" | "FAILED";
  readonly startedMs: number;
  readonly endedMs?: number;
  /** Absent for a list: its children have one job each. */
  readonly jobId?: string;
  /** Of the first compensation that failed. */
  readonly error?: WireError;
  /** Its latest timeline line. */
  readonly line?: number;
  readonly fan?: CompensationFan;
}

/** Progress of the compensations of a list, from the last child to the first. Children that did not succeed are passed over. */
export interface CompensationFan {
  /** Children below this index are left. */
  readonly left: number;
  readonly open: number;
  readonly succeeded: number;
  readonly failed: number;
}

export interface CompensationProgress {
  readonly total: number;
  readonly undone: readonly string[];
  readonly running: readonly string[];
  readonly failed: readonly string[];
  /** Not started: still to come, or stopped by an operator. */
  readonly left: readonly string[];
}

/** The steps of a run by the state of their compensation, in the order in which they are undone. Null if there is none. */
export function compensationProgress({ compensation, steps }: Compensated): CompensationProgress | null {
  if (compensation === undefined || compensation.order.length === 0) return null;
  const { order } = compensation;
  const inState = (state?: StepCompensation["state"]) => order.filter((id) => steps[id]?.compensation?.state === state);
  return {
    total: order.length,
    undone: inState("SUCCEEDED"),
    running: inState("RUNNING"),
    failed: inState("FAILED"),
    left: inState(),
  };
}

/** Whether the job that failed has a dead letter: a denied or cancelled one has none. */
export const hasDeadLetter = ({ state, jobId, error }: StepCompensation): boolean =>
  state === "FAILED" && jobId !== undefined && error?.name !== "Denied" && error?.name !== "Cancelled";

/** `undone: 2 of 3; undoing: crm-update; failed to undo: charge`. */
export function describeCompensation({ total, undone, running, failed, left }: CompensationProgress): string {
  const parts = [`undone: ${undone.length} of ${total}`];
  if (running.length > 0) parts.push(`undoing: ${running.join(", ")}`);
  if (failed.length > 0) parts.push(`failed to undo: ${failed.join(", ")}`);
  if (running.length === 0 && left.length > 0) parts.push(`not undone: ${left.join(", ")}`);
  return parts.join("; ");
}

/** The part of a run that its compensation consists of. */
interface Compensated {
  readonly compensation?: Compensation | undefined;
  readonly steps: Readonly<Record<string, { readonly compensation?: StepCompensation }>>;
}
