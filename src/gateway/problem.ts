/**
 * Errors as RFC 9457 problem documents, which also carry `error`, `code`, `status` and `retryable`.
 *
 * 1. Every 429 and 503 has a jittered `Retry-After`, so that rejected clients do not retry at the same time.
 * 2. A failing store is a 503; a bug in this code, including an illegal state transition, is a 500.
 * 3. A busy run lock carries the delay chosen by the retry policy; the request changed nothing.
 */
import { ERRORS, type ErrorCode } from "../core/model/errors.ts";
import { IllegalMove } from "../core/model/job.ts";
import { redact } from "../core/model/redact.ts";
import { intentOf } from "../core/retry/intent.ts";
import { ConflictError } from "../engine/commit.ts";
import { BudgetExhausted } from "../engine/limits/index.ts";
import { QuotaExceeded } from "../engine/quotas.ts";
import type { Busy } from "../ports/evaluator.ts";
import { INVALID_CURSOR } from "../ports/store.ts";

export class Problem extends Error {
  override readonly name = "Problem";
  readonly code: ErrorCode;
  /** Additional members of the document. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, detail: string, facts: Readonly<Record<string, unknown>> = {}, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.code = code;
    this.facts = facts;
  }
}

/** An evaluation without an answer: too costly, or too many are waiting. */
export function evaluationProblem(outcome: Busy | { readonly kind: "over"; readonly why: string }): Problem {
  if (outcome.kind === "over") {
    return new Problem("evaluation_limit", `${outcome.why}; send less at once, or simplify the expressions`);
  }
  const { current, limit } = outcome;
  return new Problem("evaluation_busy", "send the request again later", { current, limit });
}

export interface ProblemResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

export const PROBLEM_CONTENT_TYPE = "application/problem+json; charset=utf-8";

export function problemResponse(problem: Problem, random: () => number): ProblemResponse {
  const { status, retryable, title } = ERRORS[problem.code];
  const retryAfterMs = retryable ? jitteredDelay(problem.facts.retry_after_ms, random()) : null;
  return {
    status,
    headers: {
      ...(retryAfterMs === null ? {} : { "retry-after": String(retryAfterSeconds(retryAfterMs, problem, random)) }),
      ...(status === 401 ? { "www-authenticate": 'Bearer realm="cordum"' } : {}),
    },
    // Details quote the request, which may contain a secret.
    body: redact({
      type: `urn:cordum:error:${problem.code}`,
      title,
      status,
      detail: problem.message,
      error: problem.message,
      code: problem.code,
      retryable,
      ...problem.facts,
      ...(retryAfterMs === null ? {} : { retry_after_ms: retryAfterMs }),
    }) as ProblemResponse["body"],
  };
}

export function toProblem(thrown: unknown): Problem {
  if (thrown instanceof Problem) return thrown;
  const { code, statusCode, message } = thrown as { code?: unknown; statusCode?: unknown; message?: unknown };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return new Problem("body_too_large", "send a smaller body, or raise `http.body_bytes_max`", {}, thrown);
  }
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return new Problem("unsupported_media_type", "send JSON with `content-type: application/json`", {}, thrown);
  }
  if (code === "FST_ERR_MAX_PARAM_LENGTH" || statusCode === 414) {
    return new Problem("url_too_long", "ids are limited to 300 characters", {}, thrown);
  }
  if (typeof statusCode === "number" && statusCode >= 400 && statusCode < 500) {
    return new Problem("invalid_request", String(message), {}, thrown);
  }
  if (code === INVALID_CURSOR) return invalidCursorProblem(thrown);
  if (thrown instanceof QuotaExceeded) {
    const { quota, current, limit } = thrown;
    return new Problem("quota_exceeded", thrown.message, { quota, current, limit }, thrown);
  }
  if (thrown instanceof BudgetExhausted) {
    return new Problem("budget_exhausted", thrown.message, { ...thrown.facts }, thrown);
  }
  const intent = intentOf(thrown);
  if (intent.kind === "retry" && intent.retryClass === "lock_busy") {
    const detail = "another request holds the run lock; nothing was changed, send the request again";
    return new Problem("lock_busy", detail, { retry_after_ms: intent.delayMs }, thrown);
  }
  if (intent.kind === "permanent") return new Problem("invalid_submission", String(message), {}, thrown);
  if (isBug(thrown) || code === "STORE_REFUSED") {
    return new Problem("internal", "search the server log for the `x-request-id` of this response", {}, thrown);
  }
  if (thrown instanceof ConflictError) {
    return new Problem("store_unavailable", `${thrown.message}; send the request again`, {}, thrown);
  }
  const detail =
    "the outcome of the request is unknown; send it again, with an `Idempotency-Key` if it creates something";
  return new Problem("store_unavailable", detail, {}, thrown);
}

export function invalidCursorProblem(cause?: unknown): Problem {
  const detail = "send `next_cursor` unchanged and with the same filter, or start again without a cursor";
  return new Problem("invalid_cursor", detail, {}, cause);
}

/** Uniform over the default range, or over `[known, 1.5 × known]` when the delay is known. */
function jitteredDelay(knownMs: unknown, random: number): number {
  const { min, max } = typeof knownMs === "number" ? { min: knownMs, max: knownMs * 1.5 } : RETRY_AFTER_MS;
  return Math.round(min + random * (max - min));
}

const RETRY_AFTER_MS = { min: 500, max: 5_000 } as const;

/** The header has whole seconds. A range narrower than `HEADER_SPREAD_MS` is widened, or all clients get the same value. */
function retryAfterSeconds(retryAfterMs: number, { facts }: Problem, random: () => number): number {
  const knownMs = facts.retry_after_ms;
  const missingMs = typeof knownMs === "number" ? HEADER_SPREAD_MS - knownMs / 2 : 0;
  return Math.max(1, Math.ceil((retryAfterMs + (missingMs > 0 ? missingMs * random() : 0)) / 1_000));
}

const HEADER_SPREAD_MS = 2_000;

/** Errors of the language runtime and illegal transitions are bugs; adapters throw other errors. */
function isBug(thrown: unknown): boolean {
  return [TypeError, RangeError, ReferenceError, SyntaxError, IllegalMove].some((kind) => thrown instanceof kind);
}
