import type { StepRef, StepRetry } from "../../model/job.ts";
import type { StepMeta } from "../definition/plan.ts";

/** Side effects of a decision about a run. */

/** A job to create. */
export interface Start {
  readonly stepId: string;
  readonly index: number | null;
  readonly kind: StepRef["kind"];
  /** The worker topic, or a reserved one for steps that are not sent. */
  readonly topic: string;
  readonly input: unknown;
  readonly meta: StepMeta;
  readonly retry: StepRetry | null;
  readonly timeoutMs: number | null;
  /** `delay`. */
  readonly untilMs?: number;
  /** `approval`. */
  readonly reason?: string;
  readonly bySubmitter?: boolean;
  /** `subworkflow`. */
  readonly workflowId?: string;
  readonly version?: number;
}

/** A job, or all open children of a step, to cancel. */
export type Stop =
  | { readonly kind: "job"; readonly stepId: string; readonly jobId: string; readonly why: string }
  | { readonly kind: "children"; readonly stepId: string; readonly why: string };

/** The message of a `notify` step. */
export interface Notification {
  readonly stepId: string;
  readonly level: "INFO" | "WARN" | "ERROR";
  readonly message: string;
}

/** To be written to the blob store before the commit. */
export interface Blob {
  readonly ptr: string;
  readonly text: string;
}
