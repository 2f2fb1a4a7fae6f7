/** Subjects and queue groups of CAP. What is listed as durable is bound to the stream; nothing else is. */
export const SUBMIT = "sys.job.submit";
export const RESULT = "sys.job.result";
export const DLQ = "sys.job.dlq";
export const HEARTBEAT = "sys.heartbeat";
export const HANDSHAKE = "sys.handshake";
export const PROGRESS = "sys.job.progress";
export const CANCEL = "sys.job.cancel";
export const ALERT = "sys.alert";
/** What happened to jobs, for whoever watches: see `flow/notices.ts`. */
export const EVENTS = "sys.workflow.event";
/** Something that processes keep a copy of has changed in the store: the policy in force, a lease, the breaker. */
export const CHANGED = "sys.config.changed";
/** Work for one worker alone; only for those that said in their handshake that they listen there. */
export const directSubject = (workerId: string): string => `worker.${workerId}.jobs`;

export const STREAM = "CORDUM_SYS";
export const DURABLE_SUBJECTS = [SUBMIT, RESULT, DLQ] as const;

export const SCHEDULER_GROUP = "cordum-scheduler";
export const ENGINE_GROUP = "cordum-workflow-engine";

/** Where a topic's work is served. A topic may already carry the prefix, as CAP clients write it. */
export const workSubject = (topic: string): string => (topic.startsWith("job.") ? topic : `job.${topic}`);

export const TOPIC_LENGTH_MAX = 128;
const TOPIC = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

export const isTopic = (text: string): boolean => text.length <= TOPIC_LENGTH_MAX && TOPIC.test(text);
