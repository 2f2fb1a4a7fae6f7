import { ERRORS } from "../core/model/errors.ts";
import type { Problem } from "../gateway/problem.ts";

/**
 * An error of a test plane. Refused requests carry the code, status and facts of the HTTP problem document; errors of the
 * plane itself (a handler that hangs, a limit) have a code of their own and status 0.
 */
export class PlaneError extends Error {
  override readonly name = "PlaneError";
  /** A code of the HTTP API such as `denied` and `invalid_workflow`, or one of `PlaneErrorCode`. */
  readonly code: string;
  /** The HTTP status; 0 for errors of the plane itself. */
  readonly status: number;
  /** Every problem of an invalid definition, policy, setting or request. */
  readonly problems: readonly string[];
  /** Further members of the problem document, such as `rule_id` and `job_id`. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(code: string, message: string, { status = 0, problems = [], facts = {}, cause }: PlaneErrorOptions = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.status = status;
    this.problems = problems;
    this.facts = facts;
  }
}

export interface PlaneErrorOptions {
  readonly status?: number;
  readonly problems?: readonly string[];
  readonly facts?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** Codes of errors that are no HTTP problem. */
export type PlaneErrorCode =
  | "handler_hung"
  | "blocked"
  | "limit_reached"
  | "plane_closed"
  | "invalid_options"
  | "invalid_config";

/** The message has the title and, one per line, every problem. */
export function requestError(problem: Problem): PlaneError {
  const { status, title } = ERRORS[problem.code];
  const { problems = [], ...facts } = problem.facts as { readonly problems?: readonly string[] };
  const detail = problems.length > 1 ? `\n  ${problems.join("\n  ")}` : ` ${problem.message}`;
  const { cause } = problem;
  return new PlaneError(problem.code, `${title}:${detail}`, { status, problems, facts, cause });
}
