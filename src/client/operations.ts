/** Which operations can be sent again. Others are repeated only if the response says that nothing was changed. */
import type { CordumError } from "./client-error.ts";
import type { Operations } from "./schema.ts";

export type OperationName = keyof Operations;

/** They accept `Idempotency-Key`: a repetition returns the first result. */
export const KEYED: ReadonlySet<OperationName> = new Set([
  "POST /jobs",
  "POST /workflows/{id}/runs",
  "POST /workflow-runs/{id}/rerun",
  "POST /schedules/{id}/trigger",
]);

/** They change nothing. */
const READING: ReadonlySet<OperationName> = new Set([
  "POST /workflows/{id}/dry-run",
  "POST /policy/evaluate",
  "POST /policy/explain",
  "POST /policy/simulate",
  "POST /policy/test",
  "POST /policy/diff",
]);

export function isRepeatable(name: OperationName): boolean {
  return !name.startsWith("POST ") || KEYED.has(name) || READING.has(name);
}

/** Whether another attempt can help and is safe. */
export function mayRetry({ code, status, problem }: CordumError, repeatable: boolean): boolean {
  if (problem.retryable === false) return false;
  if (status === 429 || UNCHANGED.has(code)) return true;
  return repeatable && (code === "unreachable" || status === 502 || status === 503 || status === 504);
}

/** 503 responses that promise that nothing was changed. */
const UNCHANGED: ReadonlySet<string> = new Set(["lock_busy", "gate_unavailable"]);
