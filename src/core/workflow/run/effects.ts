import type { StepRef, StepRetry } from "../../model/job.ts";
import type { StepMeta } from "../definition/plan.ts";

/** What has to be done besides, once a decision about a run is made. */

/** A job to be made. */
export interface Start {
  readonly stepId: string;
  readonly index: number | null;
  readonly kind: StepRef["kind"];
  /** Where it is sent; what stands in for that where it is sent nowhere. */
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

/** A job, or all open children of a step, that nobody waits for any more. */
export type Stop =
  | { readonly kind: "job"; readonly stepId: string; readonly jobId: string; readonly why: string }
  | { readonly kind: "children"; readonly stepId: string; readonly why: string };

/** What a `notify` step says. */
export interface Notification {
  readonly stepId: string;
  readonly level: "INFO" | "WARN" | "ERROR";
  readonly message: string;
}

/** To be put into the blob store before the commit. */
export interface Blob {
  readonly ptr: string;
  readonly text: string;
}
