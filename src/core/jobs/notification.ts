import { createHash } from "node:crypto";
import type { Fact } from "../model/audit.ts";
import type { Approval, Job } from "../model/job.ts";
import { clientJobId } from "../model/job-id.ts";
import { redactText } from "../model/redact.ts";
import type { CounterName, Placement, Table } from "../model/table.ts";
import { nextDelay, type Policy, type Random } from "../retry/policies.ts";

/**
 * Notifications about approvals, one record per event and receiver.
 *
 * 1. A record is written in the commit of the job that it is about, and only if a receiver is configured.
 * 2. The id of an event depends on the job record and its version alone: every try has the same id.
 * 3. A record holds what is sent. It contains no input, and neither the address nor the secret of the receiver.
 * 4. The records of a tenant are counted; the commit that would exceed the bound is made without them.
 */
export interface Notification {
  readonly org: string;
  readonly eventId: string;
  readonly type: NotificationType;
  /** The job, by its id within the tenant. */
  readonly jobId: string;
  /** The receiver: a digest of its URL. */
  readonly receiver: string;
  readonly createdMs: number;
  readonly data: Readonly<Record<string, Fact>>;
  /** Tries that were started. */
  readonly tries: number;
  readonly dueMs: number;
}

export type NotificationType = "dev.cordum.approval.requested" | "dev.cordum.approval.decided";

export const NOTIFICATIONS: Table<Notification> = {
  name: "notification",
  placement: ({ org, tries, dueMs }): Placement => {
    const counters = tries > FAILING_AFTER_TRIES ? [pendingOf(org), failingOf(org)] : [pendingOf(org)];
    return { lists: [], queue: null, counters, dueMs };
  },
};

/** Notifications that no receiver has accepted yet, by tenant. */
export const NOTIFICATIONS_GROUP = "notifications";
export const pendingOf = (org: string): CounterName => ({ group: NOTIFICATIONS_GROUP, name: org });
/** Those of them that failed several times, by tenant. */
export const NOTIFICATIONS_FAILING_GROUP = "notifications_failing";
const failingOf = (org: string): CounterName => ({ group: NOTIFICATIONS_FAILING_GROUP, name: org });

export const notificationId = ({ eventId, receiver }: Notification): string => `${eventId}-${receiver}`;

/** The events of a transition of a job. An approval that was replaced by another one is decided and requested. */
export function approvalNotifications(
  before: Job | null,
  after: Job,
  version: number,
  receivers: readonly string[],
  nowMs: number,
): readonly Notification[] {
  const [old, current] = [waitingFor(before), waitingFor(after)];
  if (old === current || (old && current && isSame(old, current))) return [];
  const events: { type: NotificationType; data: Record<string, Fact> }[] = [];
  if (before && old) {
    events.push({ type: "dev.cordum.approval.decided", data: { ...viewOf(before, old), ...decisionOf(after) } });
  }
  if (current) {
    events.push({ type: "dev.cordum.approval.requested", data: viewOf(after, current) });
  }
  return events.flatMap(({ type, data }) => {
    const eventId = eventIdOf(after, type, version, nowMs);
    const base = { org: after.org, eventId, type, jobId: clientJobId(after.org, after.id), createdMs: nowMs, data };
    return receivers.map((receiver) => ({ ...base, receiver, tries: 0, dueMs: nowMs }));
  });
}

/** The body in the structured JSON format of CloudEvents 1.0. */
export function cloudEvent({ org, eventId, type, jobId, createdMs, data }: Notification): string {
  return JSON.stringify({
    specversion: "1.0",
    id: eventId,
    source: `/tenants/${encodeURIComponent(org)}`,
    type,
    subject: jobId,
    time: new Date(createdMs).toISOString(),
    datacontenttype: "application/json",
    data: { ...data, links: linksOf(type, jobId) },
  });
}

/** Paths of the gateway: its address differs by network. */
function linksOf(type: NotificationType, jobId: string): Readonly<Record<string, string>> {
  const id = encodeURIComponent(jobId);
  const job = `/api/v1/jobs/${id}`;
  if (type === "dev.cordum.approval.decided") return { job };
  return { job, approve: `/api/v1/approvals/${id}/approve`, reject: `/api/v1/approvals/${id}/reject` };
}

/** Before the request, so that no other process sends it and a crash leaves it due. */
export function claimNotification(notification: Notification, nowMs: number): Notification {
  return { ...notification, tries: notification.tries + 1, dueMs: nowMs + CLAIM_MS };
}

/** After a failed try; null if the budget is used up. The delay is added to the receiver's `Retry-After`, as its jitter. */
export function retryNotification(
  notification: Notification,
  nowMs: number,
  random: Random,
  retryAfterMs: number,
): Notification | null {
  if (nowMs - notification.createdMs >= NOTIFICATION_BUDGET_MS) return null;
  const floorMs = Math.min(Math.max(retryAfterMs, 0), RETRY_AFTER_MAX_MS);
  return { ...notification, dueMs: nowMs + floorMs + nextDelay(RETRY_POLICY, notification.tries, random) };
}

/** Without a try; null if the budget is used up. The delay grows with the age: a long queue costs few commits. */
export function postponeNotification(notification: Notification, nowMs: number, random: Random): Notification | null {
  const ageMs = nowMs - notification.createdMs;
  if (ageMs >= NOTIFICATION_BUDGET_MS) return null;
  const baseMs = Math.min(Math.max(ageMs, POSTPONED_MIN_MS), DELAY_MAX_MS);
  return { ...notification, dueMs: nowMs + nextDelay({ kind: "bounded", baseMs, pct: 0.5 }, 1, random) };
}

/** Time since the event after which a failed try is the last one. */
export const NOTIFICATION_BUDGET_MS = 24 * 3_600_000;
/** Failed tries after which an operator is told. */
export const FAILING_AFTER_TRIES = 3;
const DELAY_MAX_MS = 15 * 60_000;
const RETRY_POLICY: Policy = { kind: "equal", baseMs: 1_000, maxMs: DELAY_MAX_MS };
/** A receiver cannot postpone a try for longer. */
const RETRY_AFTER_MAX_MS = 3_600_000;
const POSTPONED_MIN_MS = 10_000;
/** Longer than the timeout of a request. */
const CLAIM_MS = 30_000;
const TEXT_LENGTH_MAX = 500;

const waitingFor = (job: Job | null): Approval | undefined =>
  job?.state === "APPROVAL_REQUIRED" ? job.approval : undefined;

const isSame = (a: Approval, b: Approval): boolean =>
  a.requestedMs === b.requestedMs && a.snapshot === b.snapshot && a.jobHash === b.jobHash;

function viewOf(job: Job, approval: Approval): Record<string, Fact> {
  return {
    tenant: job.org,
    job_id: clientJobId(job.org, job.id),
    run_id: job.step?.runId ?? null,
    topic: job.topic,
    rule: approval.ruleId,
    reason: job.safety ? textOf(job.safety.reason) : null,
    requester: job.submittedBy ?? null,
    actor: job.actorId === null ? null : textOf(job.actorId),
    job_hash: approval.jobHash,
    snapshot: approval.snapshot,
    requested_at: new Date(approval.requestedMs).toISOString(),
    expires_at: new Date(approval.expiresMs).toISOString(),
  };
}

function decisionOf(after: Job): Record<string, Fact> {
  const { approval, state, updatedMs } = after;
  const isDecided = state !== "APPROVAL_REQUIRED" && approval?.decidedMs !== undefined;
  const decidedAt = new Date((isDecided && approval.decidedMs) || updatedMs).toISOString();
  return {
    outcome: outcomeOf(after, isDecided),
    decided_by: (isDecided && approval.decidedBy) || null,
    decided_at: decidedAt,
  };
}

function outcomeOf({ state }: Job, isDecided: boolean): string {
  if (isDecided) return state === "DENIED" ? "rejected" : "approved";
  if (state === "CANCELLED") return "cancelled";
  return state === "TIMEOUT" ? "expired" : "void";
}

const textOf = (text: string): string => redactText(text).slice(0, TEXT_LENGTH_MAX);

/** A digest, because job ids are chosen by clients and the id is sent as a header. */
function eventIdOf({ org, id }: Job, type: NotificationType, version: number, nowMs: number): string {
  return `msg_${createHash("sha256")
    .update(JSON.stringify([org, id, type, version, nowMs]))
    .digest("hex")
    .slice(0, 32)}`;
}
