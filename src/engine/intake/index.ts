/** Admission of jobs and runs: idempotency keys, slots, reruns. */
export { AdmissionLimiter } from "./admission-limiter.ts";
export { admissionLockOf } from "./admission-lock.ts";
export { type Admitted, admitJob } from "./admit-job.ts";
export { rerun } from "./rerun-run.ts";
export {
  defaultRunRequest,
  fingerprintOfBody,
  type RunRequest,
  replayOf,
  reservationKey,
  type StartOutcome,
  startRun,
  startRunOnce,
} from "./start-run.ts";
