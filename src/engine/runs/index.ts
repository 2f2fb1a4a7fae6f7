/** Runs: run lock, advance, commit, sub-runs, slots, control, workflow definitions. */
export { askingSteps } from "./asking-steps.ts";
export { afterRunCommit, type RunEffects } from "./commit-effects.ts";
export { cancelRun, loadTenantRun, pauseRun, resumeRun, sendEvent } from "./control-run.ts";
export { createRun } from "./create-run.ts";
export { CREATED_MAX } from "./decide-run.ts";
export { PlanCache } from "./plan-cache.ts";
export { children, timeline } from "./read-run.ts";
export { rejoinRun } from "./rejoin-run.ts";
export { removeRun } from "./remove-run.ts";
export { RunCache } from "./run-cache.ts";
export { RunInbox, type RunPath } from "./run-inbox.ts";
export { type RunLimitReached, runCountsOf, runLimitOf } from "./run-limit.ts";
export { processRunQueue, runLockKey } from "./run-lock.ts";
export { onRunDue, onStepJobDue } from "./run-timer.ts";
export { grantSlots } from "./slot-waiters.ts";
export { stopSubRun } from "./sub-run.ts";
export {
  type Applied,
  applyWorkflow,
  deleteWorkflow,
  loadWorkflow,
  onWorkflowDue,
  planOf,
  versionToRun,
} from "./workflows.ts";
