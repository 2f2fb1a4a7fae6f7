/** One turn of the run lock with `run_lock.coalesce`: alone, and while other runs are active in the process. */

/** Events per commit: enough to share its cost, few enough to keep it short. */
export const BATCH_MAX = 16;
export const PACED_BATCH_MAX = 4;
/** Commits and time under one lock acquisition. */
export const ROUNDS_MAX = 64;
export const ALONE = { holdMs: 100, roundsMin: 1 } as const;
/** Shorter with pauses in between, because other holders wait; but at least a few batches. */
export const WITH_OTHERS = { holdMs: 40, roundsMin: 3 } as const;
