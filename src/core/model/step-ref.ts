/**
 * A step that takes time is a job, whoever it waits for: a worker, a human (`approval`), the clock (`delay`), another run
 * (`subworkflow`). Only the first is sent anywhere.
 */
export interface StepRef {
  readonly runId: string;
  readonly stepId: string;
  readonly kind: "worker" | "approval" | "delay" | "subworkflow";
  /** Which child of a `for_each`. */
  readonly index?: number;
  /** In place of the retry policy of the class `unclassified`. */
  readonly retry?: StepRetry;
  /** `delay`: when it is over. */
  readonly untilMs?: number;
  /** `subworkflow`: which one, and the run of it that is under way. */
  readonly workflowId?: string;
  readonly version?: number;
  readonly subRunId?: string;
  /** The job has ended before its run did: that one must still be stopped. */
  readonly isSubRunLeft?: true;
}

export interface StepRetry {
  readonly retriesMax: number;
  readonly initialMs: number;
  readonly maxMs: number;
  readonly multiplier: number;
  /** `full`: uniform from 0 to the backoff; `equal`: its upper half; `none`: the backoff itself. */
  readonly jitter: "full" | "equal" | "none";
}
