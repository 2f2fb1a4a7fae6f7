import type { JobRequest, JobResult } from "../../protocol/packet.ts";

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
export type ResultDetails = Pick<JobResult, "executionMs" | "errorCode" | "errorCodeEnum" | "artifactPtrs">;

/** The time that the submitter allows, from the submission; infinite if there is no limit. */
export function budgetMsOf(details: JobDetails | undefined): number {
  const ms = Number(details?.budget?.deadlineMs ?? 0);
  return ms > 0 ? ms : Number.POSITIVE_INFINITY;
}

/** Excess is cut off: a result is never refused because of its details. */
export function resultDetailsOf(result: JobResult): ResultDetails | undefined {
  const { executionMs, errorCode, errorCodeEnum, artifactPtrs } = result;
  if (executionMs === undefined && !errorCode && errorCodeEnum === undefined && !artifactPtrs) return undefined;
  const details: { -readonly [K in keyof ResultDetails]: ResultDetails[K] } = {};
  if (executionMs !== undefined) details.executionMs = Math.max(0, executionMs);
  if (errorCode) details.errorCode = errorCode.slice(0, CODE_LENGTH_MAX);
  if (errorCodeEnum !== undefined) details.errorCodeEnum = errorCodeEnum;
  if (artifactPtrs && artifactPtrs.length > 0) {
    details.artifactPtrs = artifactPtrs.slice(0, ARTIFACTS_MAX).map((ptr) => ptr.slice(0, POINTER_LENGTH_MAX));
  }
  return details;
}

export const POINTER_LENGTH_MAX = 1_024;
const CODE_LENGTH_MAX = 256;
const ARTIFACTS_MAX = 64;
