/**
 * Payloads by pointer, as CAP writes them: `redis://` and the raw key. On the wire a pointer has the prefix; in records and
 * in the blob store it is the key alone.
 */
export const toPointer = (key: string): string => `${PREFIX}${key}`;

export const keyIn = (pointer: string): string => (pointer.startsWith(PREFIX) ? pointer.slice(PREFIX.length) : pointer);

/** Where a job's input and result stand. A pointer to anything else is somebody else's. */
export const inputKey = (jobId: string): string => `ctx:${jobId}`;
export const outputKey = (jobId: string): string => `res:${jobId}`;

const PREFIX = "redis://";
