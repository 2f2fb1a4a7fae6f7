import type { JobState } from "../../model/job.ts";
import type { RunState, StepState, TimelineEvent } from "../../model/run.ts";

export type SettledState = Exclude<StepState, "PENDING" | "RUNNING">;

export const stepStateOf: Readonly<
  Record<Extract<JobState, "SUCCEEDED" | "FAILED" | "CANCELLED" | "TIMEOUT" | "DENIED">, SettledState>
> = {
  SUCCEEDED: "SUCCEEDED",
  FAILED: "FAILED",
  // The job was cancelled, not the run: the step was not done.
  CANCELLED: "FAILED",
  TIMEOUT: "TIMEOUT",
  DENIED: "DENIED",
};

export const runEventOf: Readonly<Record<Exclude<RunState, "RUNNING" | "PAUSED" | "ENDING">, TimelineEvent>> = {
  SUCCEEDED: "run_succeeded",
  FAILED: "run_failed",
  CANCELLED: "run_cancelled",
  TIMEOUT: "run_timed_out",
};

export const stepEventOf: Readonly<Record<StepState, TimelineEvent>> = {
  PENDING: "step_started",
  RUNNING: "step_started",
  SUCCEEDED: "step_succeeded",
  FAILED: "step_failed",
  SKIPPED: "step_skipped",
  CANCELLED: "step_cancelled",
  TIMEOUT: "step_timed_out",
  DENIED: "step_denied",
};
