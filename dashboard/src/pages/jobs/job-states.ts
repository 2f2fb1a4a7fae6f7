import type { JobState } from "../../../../src/client/schema.ts";

export const JOB_STATES: readonly JobState[] = [
  "PENDING",
  "APPROVAL_REQUIRED",
  "SCHEDULED",
  "DISPATCHED",
  "RUNNING",
  "RETRYING",
  "SUCCEEDED",
  "FAILED",
  "CANCELLED",
  "TIMEOUT",
  "DENIED",
];

const FINAL: readonly JobState[] = ["SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT", "DENIED"];
export const isFinal = (state: JobState): boolean => FINAL.includes(state);
