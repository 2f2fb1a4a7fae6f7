import { isInternalKey } from "../core/model/payload.ts";

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
export const attemptOutputKey = (jobId: string, attemptId: string): string =>
  `${outputKey(jobId)}/${ATTEMPT}${attemptId}`;

export const isAttemptOutput = (key: string): boolean => key.startsWith("res:") && key.includes(`/${ATTEMPT}`);

/**
 * The key of a pointer to the job's own input (`ctx`) or output (`res`); null for any other.
 *
 * CAP calls pointers opaque, so the first part is free: `<name>:<id>` or `<name>/<id>`, each with an optional `/<rest>`. The
 * name contains no separator and the id no `/`, so a key belongs to exactly one job, whatever ids others choose.
 */
export function ownKeyIn(pointer: string, kind: "ctx" | "res", jobId: string): string | null {
  const key = keyIn(pointer);
  const [, name, id] = OWN.exec(key) ?? [];
  if (name === undefined || id !== jobId || isInternalKey(key)) return null;
  return name === (kind === "ctx" ? "res" : "ctx") ? null : key;
}

const OWN = /^([A-Za-z0-9_.-]{1,64})[:/]([^/]{1,512})(?:\/[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,127}){0,4}$/;
const ATTEMPT = "attempt-";
const PREFIX = "redis://";
