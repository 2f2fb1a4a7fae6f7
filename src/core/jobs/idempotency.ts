import { createHash } from "node:crypto";
import type { Placement, Table } from "../model/table.ts";
import type { Submission } from "./submission.ts";

/** A client's key, bound to the job that it made: written in the commit that makes the job, never before. */
export interface Reservation {
  readonly jobId: string;
  readonly traceId: string;
  readonly fingerprint: string;
  readonly dueMs: number;
}

export const RESERVATIONS: Table<Reservation> = {
  name: "idempotency",
  placement: (reservation): Placement => ({ lists: [], queue: null, counters: [], dueMs: reservation.dueMs }),
};

/** Scoped by org: one tenant can never be handed another's job. */
export const reservationId = (org: string, key: string): string => `${org}/${key}`;

/** What makes two submissions the same; the key, the trace, who sent it, when, and the job's id are not part of it. */
export function fingerprintOf(submission: Submission): string {
  const { idempotencyKey: _k, traceId: _t, traceparent: _p, submittedBy: _s, jobId: _i, ...rest } = submission;
  const { isStamped, ...body } = rest;
  const input = isStamped ? unstamped(body.input) : body.input;
  return createHash("sha256")
    .update(canonical({ ...body, input }))
    .digest("base64url");
}

/** Whether a job's input is the one that the submission brings. */
export function isSameInput(input: unknown, submission: Submission): boolean {
  const same = submission.isStamped ? unstamped : (value: unknown) => value;
  return canonical(same(input)) === canonical(same(submission.input));
}

function unstamped(input: unknown): unknown {
  if (typeof input !== "object" || input === null) return input;
  const { created_at: _, ...rest } = input as Readonly<Record<string, unknown>>;
  return rest;
}

/** JSON with sorted keys, so that the order in which a client writes its fields does not matter. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${fields.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}
