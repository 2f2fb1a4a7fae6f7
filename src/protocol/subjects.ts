/** Subjects and queue groups of CAP. Only `DURABLE_SUBJECTS` are bound to the stream. */
export const SUBMIT = "sys.job.submit";
export const RESULT = "sys.job.result";
export const DLQ = "sys.job.dlq";
export const HEARTBEAT = "sys.heartbeat";
export const HANDSHAKE = "sys.handshake";
export const PROGRESS = "sys.job.progress";
export const CANCEL = "sys.job.cancel";
export const ALERT = "sys.alert";
/** Job and run events (see `engine/observe/event-feed.ts`). */
export const EVENTS = "sys.workflow.event";
/** Invalidation of cached records: the active policy, fail-open leases, the breaker state. */
export const CHANGED = "sys.config.changed";
/** Dispatch to one worker; only for workers that announced `direct`. */
export const directSubject = (workerId: string): string => `worker.${workerId}.jobs`;

export const STREAM = "CORDUM_SYS";
export const DURABLE_SUBJECTS = [SUBMIT, RESULT, DLQ] as const;

export const SCHEDULER_GROUP = "cordum-scheduler";
export const ENGINE_GROUP = "cordum-workflow-engine";

/** The dispatch subject of a topic. CAP clients may include the prefix in the topic. */
export const workSubject = (topic: string): string => (topic.startsWith("job.") ? topic : `job.${topic}`);

export const TOPIC_LENGTH_MAX = 128;
const TOPIC = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

export const isTopic = (text: string): boolean => text.length <= TOPIC_LENGTH_MAX && TOPIC.test(text);
