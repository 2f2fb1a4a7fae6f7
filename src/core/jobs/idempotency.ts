import { createHash } from "node:crypto";
import type { Placement, Table } from "../model/table.ts";
import type { Submission } from "./submission.ts";

/** An idempotency key, bound to its job in the commit that creates the job. */
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

/** Scoped by tenant: a key never returns another tenant's job. */
export const reservationId = (org: string, key: string): string => `${org}/${key}`;

/** Identifies equal submissions. The key, trace, sender, timestamp and job id are excluded. */
export function fingerprintOf(submission: Submission): string {
  const { idempotencyKey: _k, traceId: _t, traceparent: _p, submittedBy: _s, jobId: _i, ...rest } = submission;
  const { isStamped, caller: _c, ...body } = rest;
  const input = isStamped ? withoutTimestamp(body.input) : body.input;
  return createHash("sha256")
    .update(canonical({ ...body, input }))
    .digest("base64url");
}

export function isSameInput(input: unknown, submission: Submission): boolean {
  const same = submission.isStamped ? withoutTimestamp : (value: unknown) => value;
  return canonical(same(input)) === canonical(same(submission.input));
}

function withoutTimestamp(input: unknown): unknown {
  if (typeof input !== "object" || input === null) return input;
  const { created_at: _, ...rest } = input as Readonly<Record<string, unknown>>;
  return rest;
}

/** JSON with sorted keys. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${fields.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}
