/** Schedules of workflows: slots, starts, actions of operators. */
export {
  type AppliedSchedule,
  applySchedule,
  backfillSchedule,
  cancelBackfill,
  deleteSchedule,
  loadSchedule,
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
} from "./control-schedule.ts";
export { onScheduleDue } from "./due-schedule.ts";
