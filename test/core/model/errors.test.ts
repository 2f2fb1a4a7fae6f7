import { expect, test } from "vitest";
import { ERRORS } from "../../../src/core/model/errors.ts";

/** Codes and their statuses are API. */
const CODES: Readonly<Record<number, string>> = {
  400: "invalid_request invalid_submission invalid_cursor invalid_workflow invalid_run invalid_schedule invalid_policy invalid_policy_tests",
  401: "key_missing key_invalid key_expired key_revoked session_ended",
  402: "budget_exhausted",
  403: "forbidden tenant_forbidden actor_forbidden own_job person_required cross_origin denied",
  404: "route_not_found job_not_found workflow_not_found run_not_found step_not_found dead_letter_not_found lease_not_found key_not_found memory_not_found snapshot_not_found trace_not_found remediation_not_found worker_not_found pool_not_found rollout_not_found experiment_not_found schedule_not_found",
  408: "request_timeout",
  409: "lease_lost not_waiting approval_void approval_expired job_ended run_ended run_went_on run_open not_bypassed too_many_leases not_denied input_gone job_gone unreadable no_earlier_policy policy_changed first_key last_key audit_broken audit_key_missing too_many_keys rollout_active rollout_state rollout_not_proved rollout_limit schedule_limit schedule_overlap backfill_active",
  413: "body_too_large",
  414: "url_too_long",
  415: "unsupported_media_type",
  422: "idempotency_conflict policy_tests_failed evaluation_limit",
  429: "evaluation_busy too_many_requests too_many_runs event_limit quota_exceeded too_many_waiting",
  431: "headers_too_large",
  500: "internal",
  503: "safety_unavailable gate_unavailable lock_busy store_unavailable index_building too_many_connections shutting_down not_ready",
};

test.each(Object.entries(CODES))("status %s", (status, codes) => {
  const found = Object.entries(ERRORS).filter(([, error]) => error.status === Number(status));
  expect(found.map(([code]) => code).join(" ")).toBe(codes);
});

test("every code has a listed status, and is retryable with 429 and 503 only", () => {
  const listed = Object.values(CODES).flatMap((codes) => codes.split(" "));
  expect(Object.keys(ERRORS)).toEqual(listed);
  for (const { status, retryable, title } of Object.values(ERRORS)) {
    expect(retryable, title).toBe([429, 503].some((one) => one === status));
  }
});
