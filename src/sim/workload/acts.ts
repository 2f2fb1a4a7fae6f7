/** What workers do with an attempt, and the topics on which something special happens to a job. */
export const ACTS = ["ok", "retry", "throw", "fatal", "hang", "late", "twice", "die"] as const;
export type Act = (typeof ACTS)[number];

/** The policies deny it. */
export const DENIED_TOPIC = "danger.wipe";
/** The policies ask a human. */
export const ASKED_TOPIC = "ask.human";
