/**
 * The error table: every code a client can see, with its HTTP status, its title and whether a retry can succeed.
 * Codes are API. The title describes the code; the details of one request go into the problem's `detail`.
 */
export interface ErrorSpec {
  readonly status: number;
  readonly retryable: boolean;
  readonly title: string;
}

export const ERRORS = {
  invalid_request: { status: 400, retryable: false, title: "invalid request" },
  invalid_submission: { status: 400, retryable: false, title: "invalid job submission" },
  invalid_cursor: { status: 400, retryable: false, title: "invalid cursor" },
  invalid_workflow: { status: 400, retryable: false, title: "invalid workflow definition" },
  invalid_run: { status: 400, retryable: false, title: "invalid run request" },
  invalid_policy: { status: 400, retryable: false, title: "invalid policy" },
  key_missing: { status: 401, retryable: false, title: "API key required" },
  key_invalid: { status: 401, retryable: false, title: "invalid API key" },
  key_expired: { status: 401, retryable: false, title: "API key expired" },
  key_revoked: { status: 401, retryable: false, title: "API key revoked" },
  forbidden: { status: 403, retryable: false, title: "insufficient permissions" },
  tenant_forbidden: { status: 403, retryable: false, title: "API key belongs to another tenant" },
  own_job: { status: 403, retryable: false, title: "submitters cannot approve their own jobs" },
  denied: { status: 403, retryable: false, title: "job denied by the safety policy" },
  route_not_found: { status: 404, retryable: false, title: "route not found" },
  job_not_found: { status: 404, retryable: false, title: "job not found" },
  workflow_not_found: { status: 404, retryable: false, title: "workflow not found" },
  run_not_found: { status: 404, retryable: false, title: "run not found" },
  step_not_found: { status: 404, retryable: false, title: "step not found" },
  dead_letter_not_found: { status: 404, retryable: false, title: "dead letter not found" },
  lease_not_found: { status: 404, retryable: false, title: "fail-open lease not found" },
  key_not_found: { status: 404, retryable: false, title: "API key not found" },
  memory_not_found: { status: 404, retryable: false, title: "payload not found" },
  snapshot_not_found: { status: 404, retryable: false, title: "policy not found" },
  trace_not_found: { status: 404, retryable: false, title: "trace not found" },
  remediation_not_found: { status: 404, retryable: false, title: "remediation not found" },
  worker_not_found: { status: 404, retryable: false, title: "worker not found" },
  pool_not_found: { status: 404, retryable: false, title: "worker pool not found" },
  lease_lost: { status: 409, retryable: false, title: "job lease lost" },
  not_waiting: { status: 409, retryable: false, title: "job is not awaiting approval" },
  approval_void: { status: 409, retryable: false, title: "job or policy changed since the approval request" },
  approval_expired: { status: 409, retryable: false, title: "approval request expired" },
  job_ended: { status: 409, retryable: false, title: "job already finished" },
  run_ended: { status: 409, retryable: false, title: "run already finished" },
  run_went_on: { status: 409, retryable: false, title: "run already advanced past this job" },
  run_open: { status: 409, retryable: false, title: "run is not finished" },
  not_bypassed: { status: 409, retryable: false, title: "job did not bypass the safety check" },
  too_many_leases: { status: 409, retryable: false, title: "fail-open lease limit reached" },
  not_denied: { status: 409, retryable: false, title: "job was not denied" },
  input_gone: { status: 409, retryable: false, title: "job input expired" },
  job_gone: { status: 409, retryable: false, title: "job of the dead letter cannot be retried" },
  unreadable: { status: 409, retryable: false, title: "dead letter cannot be decoded" },
  no_earlier_policy: { status: 409, retryable: false, title: "no earlier policy to roll back to" },
  first_key: { status: 409, retryable: false, title: "first API key must be a root key" },
  last_key: { status: 409, retryable: false, title: "last root API key cannot be revoked" },
  too_many_keys: { status: 409, retryable: false, title: "tenant API key limit reached" },
  body_too_large: { status: 413, retryable: false, title: "request body too large" },
  url_too_long: { status: 414, retryable: false, title: "URL too long" },
  unsupported_media_type: { status: 415, retryable: false, title: "unsupported media type" },
  idempotency_conflict: {
    status: 422,
    retryable: false,
    title: "idempotency key or job id already used for a different request",
  },
  too_many_requests: { status: 429, retryable: true, title: "rate limit exceeded" },
  too_many_runs: { status: 429, retryable: true, title: "tenant run limit reached" },
  too_many_waiting: { status: 429, retryable: true, title: "too many open streams and long polls" },
  headers_too_large: { status: 431, retryable: false, title: "request headers too large" },
  internal: { status: 500, retryable: false, title: "internal error" },
  safety_unavailable: { status: 503, retryable: true, title: "safety kernel unavailable" },
  gate_unavailable: { status: 503, retryable: true, title: "admission lock busy" },
  lock_busy: { status: 503, retryable: true, title: "run lock busy" },
  store_unavailable: { status: 503, retryable: true, title: "store unavailable" },
  shutting_down: { status: 503, retryable: true, title: "server is shutting down" },
  not_ready: { status: 503, retryable: true, title: "server is not ready" },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERRORS;
