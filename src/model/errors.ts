/**
 * Every error that a client can see, once: its code, its sentence, its HTTP status, and whether trying again can help.
 *
 * A code is API. The sentence is the title of the problem document; what is particular to one request goes into its
 * detail.
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
  denied: { status: 403, retryable: false, title: "the safety policy denies this job" },
  route_not_found: { status: 404, retryable: false, title: "there is nothing at this address" },
  job_not_found: { status: 404, retryable: false, title: "there is no such job" },
  dead_letter_not_found: { status: 404, retryable: false, title: "there is no such dead letter" },
  body_too_large: { status: 413, retryable: false, title: "the request body is too large" },
  unsupported_media_type: { status: 415, retryable: false, title: "the request body is not JSON" },
  idempotency_conflict: {
    status: 422,
    retryable: false,
    title: "the key or the id was used before, for another request",
  },
  internal: { status: 500, retryable: false, title: "something failed that should not; the log says what" },
  store_unavailable: { status: 503, retryable: true, title: "the store does not answer" },
  shutting_down: { status: 503, retryable: true, title: "this process is shutting down" },
  not_ready: { status: 503, retryable: true, title: "this process makes no progress" },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERRORS;
