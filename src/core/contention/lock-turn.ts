/** One turn of the run lock, with `run_lock.coalesce`. */

/** Events per commit: enough to share its cost, few enough to keep it short. */
export const BATCH_MAX = 16;
/** Commits and time under one lock acquisition. */
export const ROUNDS_MAX = 64;
export const ALONE = { holdMs: 100, roundsMin: 1 } as const;
