export { onDue } from "./due-timers.ts";
export { discardDeadLetter, type RetryOutcome, redriveDeadLetter } from "./redrive.ts";
export { Sweeper } from "./sweeper.ts";
