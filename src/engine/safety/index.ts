/** Safety checks: circuit breaker, decisions, approvals, fail-open leases, kill switch, policies. */
export { approve, reject } from "./approve-job.ts";
export { checkSafety, FAIL_OPEN_TOTAL, policyRequestOf } from "./check-job.ts";
export { askKernel, breakerRefusal } from "./circuit-breaker.ts";
export { closeFailOpen, listFailOpen, onFailOpenDue, openAtStart, openFailOpen } from "./fail-open.ts";
export { engageKill, listKills, releaseKill, stopKilled } from "./kill-switch.ts";
export { type Published, publishFile, publishPolicy, releases, rollbackPolicy } from "./publish-policy.ts";
export type { ReplayedLimits } from "./replay-recorded.ts";
export { reviewBypass } from "./review-bypass.ts";
export { SafetyState } from "./safety-state.ts";
export { RECORDED_JOBS, type RecordedFlips, simulateRecorded } from "./simulate-recorded.ts";
export { watchPolicy } from "./watch-policy.ts";
export { watchSafety } from "./watch-safety.ts";
