import type { JobProgress, JobRequest, JobResult } from "../../protocol/packet.ts";
import { isInternalPointer } from "./payload.ts";

/**
 * Optional fields of a CAP request that the control plane does not interpret, except `budget.deadlineMs`. They are passed
 * on to the worker and shown on the job.
 */
export type JobDetails = Pick<
  JobRequest,
  | "adapterId"
  | "env"
  | "parentJobId"
  | "workflowId"
  | "stepIndex"
  | "memoryId"
  | "contextHints"
  | "budget"
  | "compensation"
  /** Only if it differs from the actor. */
  | "principalId"
>;

/** Optional fields of the last result. */
export type ResultDetails = Pick<JobResult, "executionMs" | "errorCode" | "errorCodeEnum" | "artifactPtrs" | "usage">;

/** Optional fields of the last progress report. The pointers are shown, not read. */
export type ProgressDetails = Pick<JobProgress, "stepId" | "resultPtr" | "artifactPtrs" | "status">;

/** Excess is cut off, as in `resultDetailsOf`. */
export function progressDetailsOf({
  stepId,
  resultPtr,
  artifactPtrs,
  status,
}: JobProgress): ProgressDetails | undefined {
  const [shownPtr] = shortened(resultPtr ? [resultPtr] : []);
  const details = {
    ...(stepId ? { stepId: stepId.slice(0, CODE_LENGTH_MAX) } : {}),
    ...(status ? { status } : {}),
    ...(shownPtr === undefined ? {} : { resultPtr: shownPtr }),
    ...(artifactPtrs?.length ? { artifactPtrs: shortened(artifactPtrs) } : {}),
  };
  return Object.keys(details).length === 0 ? undefined : details;
}

/** Keys of the control plane, such as the input's, are left out: no view contains one. */
const shortened = (pointers: readonly string[]): readonly string[] =>
  pointers
    .slice(0, ARTIFACTS_MAX)
    .filter((ptr) => !isInternalPointer(ptr))
    .map((ptr) => ptr.slice(0, POINTER_LENGTH_MAX));

/** The time that the submitter allows, from the submission; infinite if there is no limit. */
export function budgetMsOf(details: JobDetails | undefined): number {
  const ms = Number(details?.budget?.deadlineMs ?? 0);
  return ms > 0 ? ms : Number.POSITIVE_INFINITY;
}

/** Excess is cut off: a result is never refused because of its details. */
export function resultDetailsOf(result: JobResult): ResultDetails | undefined {
  const { executionMs, errorCode, errorCodeEnum, artifactPtrs, usage } = result;
  const isEmpty = executionMs === undefined && !errorCode && errorCodeEnum === undefined && !artifactPtrs;
  if (isEmpty && usage === undefined) return undefined;
  const details: { -readonly [K in keyof ResultDetails]: ResultDetails[K] } = {};
  if (executionMs !== undefined) details.executionMs = Math.max(0, executionMs);
  if (errorCode) details.errorCode = errorCode.slice(0, CODE_LENGTH_MAX);
  if (errorCodeEnum !== undefined) details.errorCodeEnum = errorCodeEnum;
  if (usage !== undefined) details.usage = usage;
  if (artifactPtrs && artifactPtrs.length > 0) {
    details.artifactPtrs = shortened(artifactPtrs);
  }
  return details;
}

export const POINTER_LENGTH_MAX = 1_024;
const CODE_LENGTH_MAX = 256;
const ARTIFACTS_MAX = 64;

/** The step that a job executes. Only `worker` steps are sent to workers. */
export interface StepRef {
  readonly runId: string;
  readonly stepId: string;
  readonly kind: "worker" | "approval" | "delay" | "subworkflow";
  /** The child's index in a `for_each`. */
  readonly index?: number;
  /** The job undoes the step. */
  readonly isCompensation?: true;
  /** `max_output_bytes` of the step. */
  readonly outputBytesMax?: number;
  /** Of the loop that the step is in, from 1. */
  readonly iteration?: number;
  /** Replaces the retry policy of the class `unclassified`. */
  readonly retry?: StepRetry;
  /** `delay`: when it ends. */
  readonly untilMs?: number;
  /** `subworkflow`: the workflow and its current sub-run. */
  readonly workflowId?: string;
  readonly version?: number;
  readonly subRunId?: string;
  /** The job ended before its sub-run: the sub-run must still be cancelled. */
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
