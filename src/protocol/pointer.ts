/**
 * Pointers to payloads in CAP: `redis://` and the key. Packets contain the pointer; records and the blob store use the key.
 */
export const toPointer = (key: string): string => `${PREFIX}${key}`;

export const keyIn = (pointer: string): string => (pointer.startsWith(PREFIX) ? pointer.slice(PREFIX.length) : pointer);

/** Keys of a job's input and output. */
export const inputKey = (jobId: string): string => `ctx:${jobId}`;
export const outputKey = (jobId: string): string => `res:${jobId}`;

const PREFIX = "redis://";
