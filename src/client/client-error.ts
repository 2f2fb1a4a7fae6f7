import type { ErrorCode } from "../core/model/errors.ts";

/** Codes of the gateway; codes of this client; and codes that a newer gateway may have. */
export type ClientErrorCode = ErrorCode | LocalCode | (string & NonNullable<unknown>);

type LocalCode = "unreachable" | "deadline_exceeded" | "invalid_response" | "response_too_large" | "catch_up_limit";

export interface ClientErrorFacts {
  readonly code: ClientErrorCode;
  readonly title: string;
  readonly detail: string;
  readonly status?: number | null;
  readonly retryAfterMs?: number | null;
  readonly requestId?: string | null;
  readonly problem?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** A request that failed. An aborted request rejects with the reason of its signal instead. */
export class CordumError extends Error {
  override readonly name = "CordumError";
  readonly code: ClientErrorCode;
  /** What the code means. */
  readonly title: string;
  /** What was wrong with this request, and what to do next. */
  readonly detail: string;
  /** HTTP status; null without a response. */
  readonly status: number | null;
  /** The larger of `Retry-After` and `retry_after_ms`; null if the response had neither. */
  readonly retryAfterMs: number | null;
  /** `x-request-id`, for the log of the gateway. */
  readonly requestId: string | null;
  /** The whole problem document, with members such as `job_id` or `problems`. */
  readonly problem: Readonly<Record<string, unknown>>;
  /** The key of a submission. Send it again with this key if the outcome is unknown. */
  idempotencyKey: string | null = null;

  constructor(facts: ClientErrorFacts) {
    super(`${facts.title}: ${facts.detail}`, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = facts.code;
    this.title = facts.title;
    this.detail = facts.detail;
    this.status = facts.status ?? null;
    this.retryAfterMs = facts.retryAfterMs ?? null;
    this.requestId = facts.requestId ?? null;
    this.problem = facts.problem ?? {};
  }
}

/** The innermost message: `fetch` hides it behind `fetch failed`. */
export function describeCause(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message || String((cause as { code?: string }).code) : String(cause);
}

export function errorFrom({ status, headers }: Response, document: unknown): CordumError {
  const problem: Readonly<Record<string, unknown>> = typeof document === "object" ? { ...document } : {};
  const text = (name: string, otherwise: string) => (typeof problem[name] === "string" ? problem[name] : otherwise);
  const delays = [
    Number(headers.get("retry-after") ?? Number.NaN) * 1_000,
    Number(problem.retry_after_ms ?? Number.NaN),
  ];
  const known = delays.filter((delayMs) => delayMs >= 0);
  return new CordumError({
    code: text("code", `http_${status}`),
    title: text("title", "request failed"),
    detail: text("detail", `the gateway responded with status ${status}`),
    status,
    retryAfterMs: known.length === 0 ? null : Math.max(...known),
    requestId: headers.get("x-request-id"),
    problem,
  });
}
