/**
 * Errors as clients see them: RFC 9457 problem documents that also carry `error`, `code`, `status` and `retryable`.
 *
 * 1. Whether trying again can help is in every document, and a jittered `Retry-After` goes with every 429 and 503: one fixed
 *    number told to a thousand clients would bring them all back at once.
 * 2. A store that fails and a bug in here do not look the same: the first is 503, the second 500. A move that the states of
 *    a job do not allow is a bug.
 * 3. A lock that stayed busy is told as such, with the delay that its policy chose: nothing was changed.
 */

import { ERRORS, type ErrorCode } from "../core/model/errors.ts";
import { IllegalMove } from "../core/model/job.ts";
import { redact } from "../core/model/redact.ts";
import { intentOf } from "../core/retry/intent.ts";
import { ConflictError } from "../engine/commit.ts";

export class Problem extends Error {
  override readonly name = "Problem";
  readonly code: ErrorCode;
  /** Members of the document beside the usual ones. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, detail: string, facts: Readonly<Record<string, unknown>> = {}, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.code = code;
    this.facts = facts;
  }
}

export interface ProblemAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

export const PROBLEM_TYPE = "application/problem+json; charset=utf-8";

export function answerFor(problem: Problem, random: () => number): ProblemAnswer {
  const { status, retryable, title } = ERRORS[problem.code];
  const retryAfterMs = retryable ? retryAfter(problem.facts.retry_after_ms, random()) : null;
  return {
    status,
    headers: {
      ...(retryAfterMs === null ? {} : { "retry-after": String(inSeconds(retryAfterMs, problem, random)) }),
      ...(status === 401 ? { "www-authenticate": 'Bearer realm="cordum"' } : {}),
    },
    // What was wrong is quoted, and a secret may be in it.
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
    }) as ProblemAnswer["body"],
  };
}

/** Whatever was thrown, as a problem. */
export function problemFrom(thrown: unknown): Problem {
  if (thrown instanceof Problem) return thrown;
  const { code, statusCode, message } = thrown as { code?: unknown; statusCode?: unknown; message?: unknown };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return new Problem("body_too_large", "send less, or raise `http.body_bytes_max`", {}, thrown);
  }
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return new Problem("unsupported_media_type", "send JSON with `content-type: application/json`", {}, thrown);
  }
  if (code === "FST_ERR_MAX_PARAM_LENGTH" || statusCode === 414) {
    return new Problem("url_too_long", "ids have at most 300 characters", {}, thrown);
  }
  if (typeof statusCode === "number" && statusCode >= 400 && statusCode < 500) {
    return new Problem("invalid_request", String(message), {}, thrown);
  }
  const intent = intentOf(thrown);
  if (intent.kind === "retry" && intent.retryClass === "lock_busy") {
    const detail = "nothing was changed: somebody else holds the lock of the run; send it again";
    return new Problem("lock_busy", detail, { retry_after_ms: intent.delayMs }, thrown);
  }
  if (intent.kind === "permanent") return new Problem("invalid_submission", String(message), {}, thrown);
  if (isBug(thrown) || code === "STORE_REFUSED")
    return new Problem("internal", "see the log of the control plane", {}, thrown);
  if (thrown instanceof ConflictError)
    return new Problem("store_unavailable", `${thrown.message}; send it again`, {}, thrown);
  const detail =
    "what became of the request is not known; send it again, with an `Idempotency-Key` if it makes something";
  return new Problem("store_unavailable", detail, {}, thrown);
}

/** Spread over the usual range, or from the time on that somebody knows, half as long again. */
function retryAfter(knownMs: unknown, chance: number): number {
  const { min, max } = typeof knownMs === "number" ? { min: knownMs, max: knownMs * 1.5 } : RETRY_AFTER_MS;
  return Math.round(min + chance * (max - min));
}

const RETRY_AFTER_MS = { min: 500, max: 5_000 } as const;

/** The header has whole seconds: a time that is spread by less would be the same one for everybody. */
function inSeconds(retryAfterMs: number, { facts }: Problem, random: () => number): number {
  const knownMs = facts.retry_after_ms;
  const missingMs = typeof knownMs === "number" ? HEADER_SPREAD_MS - knownMs / 2 : 0;
  return Math.max(1, Math.ceil((retryAfterMs + (missingMs > 0 ? missingMs * random() : 0)) / 1_000));
}

const HEADER_SPREAD_MS = 2_000;

/** What the language itself throws is a mistake of ours, and so is an illegal move; adapters throw other errors. */
function isBug(thrown: unknown): boolean {
  return [TypeError, RangeError, ReferenceError, SyntaxError, IllegalMove].some((kind) => thrown instanceof kind);
}
