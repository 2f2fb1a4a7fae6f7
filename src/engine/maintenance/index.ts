/** Background duties: sweeper, due timers, redrive of dead letters, slot recounts. */
export { onDue } from "./due-timers.ts";
export { discardDeadLetter, type RetryOutcome, redriveDeadLetter } from "./redrive.ts";
export { Sweeper } from "./sweeper.ts";
