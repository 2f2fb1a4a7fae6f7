/** Backlog, placement, capacity, sending, leases and settling of jobs. */
export { type AcceptedOutput, acceptResult, discardOutput, stepSizeProblem } from "./accept-output.ts";
export { backlogTopics, drainAllBacklogs, drainBacklog, sendJob } from "./backlog.ts";
export { type CancelOutcome, cancelOwnJob, isOwnCancel, loadTenantJob, notifyWorkers } from "./cancel-job.ts";
export { capacityGuards, failOpenGuard, jobLimitOf } from "./capacity-guards.ts";
export { recordLoss, recordSuccess, windowOf } from "./dispatch-window.ts";
export { completeLeased, extendLease, failLeased, type JobLeaseOutcome, releaseLease } from "./job-lease.ts";
export { LEASE_WAIT_MS_MAX, leaseJobs, releaseJob } from "./lease-jobs.ts";
export { LongPollWaiters } from "./long-poll-waiters.ts";
export { placeJob } from "./place-job.ts";
export { recordHeartbeat, requeueAllEligible } from "./requeue-eligible.ts";
export { applyPoolSettings, type DispatchBlock, dispatchBlock, dispatched, targetOf } from "./select-target.ts";
export { settleJob, settleJobAlone } from "./settle-job.ts";
