/** Background duties: one loop each (sweeper), due timers, redrive of dead letters, slot recounts. */
export type { BulkPage, Handled } from "./bulk.ts";
export { type BulkAction, type BulkOutcome, bulkDeadLetters, recordBulk } from "./bulk-dead-letters.ts";
export {
  BULK_STATES,
  bulkJobLists,
  bulkJobs,
  type JobBulkAction,
  type JobBulkOutcome,
  recordJobBulk,
} from "./bulk-jobs.ts";
export { type DeadLetterGroup, deadLetterGroups } from "./dead-letter-groups.ts";
export { onDue } from "./due-timers.ts";
export type { DutyStatus } from "./duty-loop.ts";
export { indexEarlierJobs } from "./index-jobs.ts";
export { discardDeadLetter, type RetryOutcome, redriveDeadLetter } from "./redrive.ts";
export { Sweeper } from "./sweeper.ts";
