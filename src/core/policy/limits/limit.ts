/**
 * Limits of rules: `throttle` with a rate, and `velocity`.
 *
 * 1. The kernel does not know the counts. It returns each limit whose rule matches, with its key and the decision beyond
 *    it; the engine applies them in the commit that stores the decision (`apply-limits.ts`).
 * 2. A count belongs to a rule id, a tenant and a key: a published policy continues the counts of rules that it keeps.
 */
import { createHash } from "node:crypto";
import { parseDuration } from "../../retry/duration.ts";
import type { Decision, PolicyRequest } from "../decision.ts";
import { labelOf } from "../request-view.ts";

export type LimitBy = "tenant" | "topic" | "caller" | `label:${string}`;

/** As in the file. */
export interface ThrottleTerms {
  /** For example `10/1m`. */
  readonly rate: string;
  readonly by: LimitBy;
}

/** As in the file. */
export interface VelocityTerms {
  readonly max: number;
  readonly within: string;
  readonly by: LimitBy;
  /** A CEL number; what one request adds. Absent: 1. */
  readonly sum?: string;
}

export type LimitKind = "throttle" | "velocity";

/** A limit and the request's part in it. */
export interface Limit {
  readonly kind: LimitKind;
  readonly ruleId: string;
  readonly by: LimitBy;
  /** The value of `by`; each tenant has its own. */
  readonly key: string;
  readonly max: number;
  readonly withinMs: number;
  /** What the request adds: 1, or its `sum`. */
  readonly amount: number;
  readonly isSum: boolean;
  /** The decision beyond the limit. */
  readonly exceeded: Decision;
}

export const LIMIT_BOUNDS = {
  /** Of a rate, which keeps each of its slots. */
  rateMax: 1_000,
  countMax: 1_000_000,
  sumMax: 1e15,
  rateWithin: { msMin: 1_000, msMax: 24 * 3_600_000 },
  velocityWithin: { msMin: 1_000, msMax: 30 * 24 * 3_600_000 },
} as const;

/** Throws an error with the reason. */
export function parseRate(text: string): { readonly max: number; readonly withinMs: number } {
  const [, count = "", within = ""] = /^(\d{1,7})\/(\S+)$/.exec(text) ?? [];
  const max = Number(count);
  if (count === "")
    throw new Error(`\`${text.slice(0, 60)}\` is not a rate; write a number per duration, as in \`10/1m\``);
  if (max < 1 || max > LIMIT_BOUNDS.rateMax) {
    throw new Error(`a rate has 1 to ${LIMIT_BOUNDS.rateMax} jobs per duration, not ${max}; use another duration`);
  }
  return { max, withinMs: parseDuration(within, LIMIT_BOUNDS.rateWithin) };
}

/** Requests without the label, or without an authenticated caller, share one key: leaving it out evades no limit. */
export function limitKey(by: LimitBy, request: PolicyRequest): string {
  switch (by) {
    case "tenant":
      return "";
    case "topic":
      return request.topic;
    case "caller":
      return request.callerKey ?? "";
    default:
      return labelOf(request.labels, by.slice("label:".length)) ?? "";
  }
}

/** The id of the record that counts. Keys are chosen by clients, so it is a digest of unambiguous text. */
export function windowId(org: string, { ruleId, by, isSum }: Limit, key: string | null): string {
  const text = JSON.stringify([org, ruleId, by, isSum, key]);
  return createHash("sha256").update(text).digest("base64url").slice(0, 32);
}
