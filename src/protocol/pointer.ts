/**
 * Pointers to payloads in CAP: `redis://` and a key. They are opaque: `context_ptr` of dispatched work is a key that only the
 * control plane forms. Clients and workers refer to payloads they stored by names that contain their own job's id.
 */
export const toPointer = (key: string): string => `${PREFIX}${key}`;

export const keyIn = (pointer: string): string => (pointer.startsWith(PREFIX) ? pointer.slice(PREFIX.length) : pointer);

/** Names of a job's input and output. */
export const inputKey = (jobId: string): string => `ctx:${jobId}`;
export const outputKey = (jobId: string): string => `res:${jobId}`;

/** A name for one attempt's output; `/` occurs in no job id. */
export const attemptOutputKey = (jobId: string, attemptId: string): string => `${outputKey(jobId)}/${attemptId}`;

/** The key of a pointer that belongs to the job: `ctx:<id>`, `ctx/<id>`, `res:<id>`, `res/<id>`; null for any other. */
export function ownKeyIn(pointer: string, kind: "ctx" | "res", jobId: string): string | null {
  const key = keyIn(pointer);
  if (key === `${kind}:${jobId}` || key === `${kind}/${jobId}`) return key;
  const attempt = `${kind}:${jobId}/`;
  return kind === "res" && key.startsWith(attempt) && /^[A-Za-z0-9_-]{1,64}$/.test(key.slice(attempt.length))
    ? key
    : null;
}

const PREFIX = "redis://";
