/**
 * All errors that a client can see: code, title, HTTP status, and whether a retry can help. Codes are API. The title is
 * that of the problem document; what is specific to a request goes into `detail`.
 */
export interface ErrorSpec {
  readonly status: number;
  readonly retryable: boolean;
  readonly title: string;
}

export const ERRORS = {
  invalid_request: { status: 400, retryable: false, title: "the request is not understood" },
  invalid_submission: { status: 400, retryable: false, title: "the job is not one that can be taken" },
  invalid_cursor: { status: 400, retryable: false, title: "the cursor is not one that was given out" },
  invalid_workflow: { status: 400, retryable: false, title: "the workflow is not one that can be applied" },
  invalid_run: { status: 400, retryable: false, title: "the run is not one that can be started" },
  invalid_policy: { status: 400, retryable: false, title: "the policy is not one that can be published" },
  key_missing: { status: 401, retryable: false, title: "the request has no API key" },
  key_invalid: { status: 401, retryable: false, title: "the API key is not one of ours" },
  key_expired: { status: 401, retryable: false, title: "the API key has expired" },
  key_revoked: { status: 401, retryable: false, title: "the API key was revoked" },
  forbidden: { status: 403, retryable: false, title: "the API key may not do this" },
  tenant_forbidden: { status: 403, retryable: false, title: "the API key is of another tenant" },
  own_job: { status: 403, retryable: false, title: "who submitted a job may not approve it" },
  denied: { status: 403, retryable: false, title: "the safety policy denies this job" },
  route_not_found: { status: 404, retryable: false, title: "there is nothing at this address" },
  job_not_found: { status: 404, retryable: false, title: "there is no such job" },
  workflow_not_found: { status: 404, retryable: false, title: "there is no such workflow" },
  run_not_found: { status: 404, retryable: false, title: "there is no such run" },
  step_not_found: { status: 404, retryable: false, title: "the run has no such step" },
  dead_letter_not_found: { status: 404, retryable: false, title: "there is no such dead letter" },
  lease_not_found: { status: 404, retryable: false, title: "there is no such fail-open lease" },
  key_not_found: { status: 404, retryable: false, title: "there is no such API key" },
  memory_not_found: { status: 404, retryable: false, title: "there is nothing at this pointer" },
  snapshot_not_found: { status: 404, retryable: false, title: "no such policy was published" },
  trace_not_found: { status: 404, retryable: false, title: "nothing has this trace" },
  remediation_not_found: { status: 404, retryable: false, title: "the denial offers no such remediation" },
  worker_not_found: { status: 404, retryable: false, title: "no such worker was heard of lately" },
  pool_not_found: { status: 404, retryable: false, title: "there is no such pool of workers" },
  lease_lost: { status: 409, retryable: false, title: "the lease of this job is over" },
  not_waiting: { status: 409, retryable: false, title: "nobody is asked to decide about this job" },
  approval_void: { status: 409, retryable: false, title: "what was approved is not what there is now" },
  approval_expired: { status: 409, retryable: false, title: "the time to approve this job is over" },
  job_ended: { status: 409, retryable: false, title: "the job has ended already" },
  run_ended: { status: 409, retryable: false, title: "the run has ended already" },
  run_went_on: { status: 409, retryable: false, title: "the run has gone on without the job" },
  run_open: { status: 409, retryable: false, title: "the run has not ended yet" },
  not_bypassed: { status: 409, retryable: false, title: "the job did not go out without a verdict" },
  too_many_leases: { status: 409, retryable: false, title: "as many fail-open leases are open as there may be" },
  not_denied: { status: 409, retryable: false, title: "the job was not denied" },
  input_gone: { status: 409, retryable: false, title: "the input of the job is not there any more" },
  job_gone: { status: 409, retryable: false, title: "the job of this dead letter is not there any more" },
  unreadable: { status: 409, retryable: false, title: "the message of this dead letter cannot be read" },
  no_earlier_policy: { status: 409, retryable: false, title: "there is no policy to go back to" },
  first_key: { status: 409, retryable: false, title: "the first API key must be one that can make others" },
  last_key: { status: 409, retryable: false, title: "the last API key that can make others stays" },
  too_many_keys: { status: 409, retryable: false, title: "the tenant has as many API keys as it may" },
  body_too_large: { status: 413, retryable: false, title: "the request body is too large" },
  url_too_long: { status: 414, retryable: false, title: "the address is too long" },
  unsupported_media_type: { status: 415, retryable: false, title: "the request body is not JSON" },
  idempotency_conflict: {
    status: 422,
    retryable: false,
    title: "the key or the id was used before, for another request",
  },
  too_many_requests: { status: 429, retryable: true, title: "too many requests of one caller" },
  too_many_runs: { status: 429, retryable: true, title: "as many runs of the tenant are open as there may be" },
  too_many_waiting: { status: 429, retryable: true, title: "too many streams and waiting requests" },
  headers_too_large: { status: 431, retryable: false, title: "the request headers are too large" },
  internal: { status: 500, retryable: false, title: "something failed that should not; the log says what" },
  safety_unavailable: { status: 503, retryable: true, title: "the safety kernel does not answer" },
  gate_unavailable: { status: 503, retryable: true, title: "the gate that runs start through is not free" },
  lock_busy: { status: 503, retryable: true, title: "somebody else is working on the same run" },
  store_unavailable: { status: 503, retryable: true, title: "the store does not answer" },
  shutting_down: { status: 503, retryable: true, title: "this process is shutting down" },
  not_ready: { status: 503, retryable: true, title: "this process makes no progress" },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERRORS;
