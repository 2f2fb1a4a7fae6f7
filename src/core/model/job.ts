import type { JobPriority } from "../../protocol/packet.ts";
import type { ActorType, Decision } from "../policy/decision.ts";
import type { Counted } from "../policy/limits/apply-limits.ts";
import type { RetryState } from "../retry/budget.ts";
import type { WireError } from "../retry/intent.ts";
import type { RetryClass } from "../retry/retry-classes.ts";
import { type Arms, type Measures, unitLists } from "./arms.ts";
import { type BudgetHold, withBudgets } from "./budgets/hold.ts";
import type { Caller } from "./caller.ts";
import type { JobDetails, ProgressDetails, ResultDetails, StepRef } from "./job-details.ts";
import { clientJobId } from "./job-id.ts";
import { filterLists, unfilteredLists } from "./lists/job-lists.ts";
import { withQuotas } from "./quota.ts";
import type { CounterName, Placement, Table, Writable } from "./table.ts";

/**
 * The job record, its legal transitions, and its indexes.
 *
 * 1. `JOB_MOVES` is the only list of legal transitions. An empty list marks a final state.
 * 2. Every open job has a `dueMs`, so no state is a dead end.
 * 3. Counters follow from the state: the backlog of the topic, or its in-flight window.
 */
export const JOB_MOVES = {
  PENDING: ["APPROVAL_REQUIRED", "SCHEDULED", "RUNNING", "SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"],
  APPROVAL_REQUIRED: ["PENDING", "SCHEDULED", "SUCCEEDED", "DENIED", "CANCELLED", "TIMEOUT"],
  SCHEDULED: ["PENDING", "DISPATCHED", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"],
  DISPATCHED: ["RUNNING", "SCHEDULED", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"],
  RUNNING: ["SCHEDULED", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"],
  RETRYING: ["SCHEDULED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"],
  SUCCEEDED: [],
  FAILED: [],
  CANCELLED: [],
  TIMEOUT: [],
  DENIED: [],
} as const satisfies Record<string, readonly string[]>;

export type JobState = keyof typeof JOB_MOVES;
export const JOB_STATES = Object.keys(JOB_MOVES) as readonly JobState[];
export type OpenState = { [S in JobState]: (typeof JOB_MOVES)[S] extends readonly [] ? never : S }[JobState];
/**
 * Final states that an operator can redrive, in the commit that removes the dead letter. No other transition leaves a
 * final state.
 */
export const REDRIVABLE: readonly JobState[] = ["FAILED", "TIMEOUT"];

export interface Job {
  readonly id: string;
  readonly org: string;
  readonly topic: string;
  readonly priority: JobPriority;
  readonly state: JobState;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** The job ends as TIMEOUT at this time. */
  readonly deadlineMs: number;
  /** When the sweeper processes the job next. */
  readonly dueMs: number;
  readonly traceId: string;
  readonly actorId: string | null;
  readonly capability: string | null;
  readonly riskTags: readonly string[];
  readonly requires: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly input: Payload;
  readonly output: Payload | null;
  readonly safety: Decision | null;
  /** Dispatches so far. */
  readonly attempt: number;
  readonly dispatchedMs: number | null;
  readonly workerId: string | null;
  readonly wait: Wait | null;
  readonly patience: RetryState;
  readonly error: WireError | null;
  readonly history: readonly HistoryLine[];

  // Rare fields are optional to keep records small: a record is written several times.
  /** A key id or the id of a bus client. */
  readonly submittedBy?: string;
  readonly caller?: Caller;
  readonly actorType?: ActorType;
  readonly packId?: string;
  /** Of the submission; for workers that repeat no effect. */
  readonly idempotencyKey?: string;
  /** The submitter's W3C trace context. */
  readonly traceparent?: string;
  readonly approval?: Approval;
  readonly bypass?: Bypass;
  /** The lease of an HTTP worker on the current attempt. */
  readonly leaseId?: string;
  readonly progress?: Progress;
  /** The worker to whose own subject the current attempt was sent; only while packet senders are configured. */
  readonly sentTo?: string;
  /** Failed or lost attempts since the last redrive; bounded by a rule's `max_retries`. */
  readonly failures?: number;
  /** The workflow step that this job executes. The commit that ends the job also notifies the run. */
  readonly step?: StepRef;
  /** Optional fields of the request, passed on to the worker. */
  readonly details?: JobDetails;
  /** Optional fields of the last result. */
  readonly resultDetails?: ResultDetails;
  /** Arms in the rollouts that were active when the unit (this job, or its run) was created. */
  readonly arms?: Arms;
  /** Only of a job without a run; the figures of a run's jobs are on the run. */
  readonly measures?: Measures;
  /** Counted payload bytes (`quota.ts`); absent if there are none. */
  readonly bytes?: number;
  /** What the job reserves and has spent of the budgets of its rule. */
  readonly budgets?: readonly BudgetHold[];
  /** The limits of the policy that this job counts for. */
  readonly counted?: readonly Counted[];
  /** The job has the lists of filters. Absent in jobs of earlier versions until their next change. */
  readonly indexed?: 1;
}

/** An approval request, bound to this job and policy snapshot. */
export interface Approval {
  /** Hash over everything the approver decides about: topic, input, labels and so on. */
  readonly jobHash: string;
  readonly snapshot: string;
  readonly ruleId: string | null;
  readonly requestedMs: number;
  readonly expiresMs: number;
  readonly bySubmitter: boolean;
  /** A key id. */
  readonly decidedBy?: string;
  /** The name of the key when it decided; keys can be renamed and deleted. */
  readonly decidedByName?: string;
  readonly decidedMs?: number;
  /** What the approver wrote. */
  readonly note?: string;
}

/** Dispatched without a verdict under a fail-open lease; to be reviewed. */
export interface Bypass {
  readonly leaseId: string;
  readonly reason: string;
  readonly atMs: number;
  readonly reviewedBy?: string;
  readonly reviewedMs?: number;
  /** The policy's decision at the review. */
  readonly verdict?: Pick<Decision, "effect" | "ruleId" | "reason" | "snapshot">;
  readonly note?: string;
}

export interface Progress {
  readonly percent: number | null;
  readonly message: string | null;
  readonly atMs: number;
  readonly details?: ProgressDetails;
}

export type Payload =
  | { readonly kind: "inline"; readonly value: unknown }
  | { readonly kind: "pointer"; readonly ptr: string; readonly bytes: number; readonly sha256?: string };

/** Why the job waits, until when, and by which policy. */
export interface Wait {
  readonly retryClass: RetryClass;
  readonly reason: string;
  readonly untilMs: number;
  /** A policy in config syntax, or `worker`. */
  readonly setBy: string;
  /** A `subworkflow` step that was refused a run slot: it is served before new requests. */
  readonly forSlot?: true;
}

/** One event of a job: what happened, by whom, why, and the retry that follows. */
export interface HistoryLine {
  readonly atMs: number;
  readonly event: JobEvent;
  readonly attempt: number;
  /** A key or a worker; absent for the control plane. */
  readonly who?: string;
  readonly why?: string;
  readonly retry?: Retry;
}

export type JobEvent =
  | "succeeded"
  | "failed"
  /** No result or heartbeat before the attempt's deadline. */
  | "lost"
  | "no_worker"
  /** The kernel or a store did not respond. */
  | "unavailable"
  | "throttled"
  | "approval_required"
  | "approved"
  | "rejected"
  /** The job or the policy changed after the request. */
  | "approval_void"
  | "approval_expired"
  | "bypassed"
  | "denied"
  | "cancelled"
  | "timed_out"
  | "revived";

export interface Retry {
  readonly retryClass: RetryClass;
  readonly delayMs: number;
  /** A policy in config syntax, or `worker`. */
  readonly setBy: string;
}

export const HISTORY_MAX = 20;

export const OPEN_STATES = JOB_STATES.filter((state) => JOB_MOVES[state].length > 0);

export const isFinal = (state: JobState): boolean => JOB_MOVES[state].length === 0;

/** Keeps the first and the latest lines. */
export function appendHistory(job: Job, line: HistoryLine): readonly HistoryLine[] {
  if (job.history.length < HISTORY_MAX) return [...job.history, line];
  return [...job.history.slice(0, 1), ...job.history.slice(2), line];
}

export const JOBS: Table<Job> = {
  name: "job",
  placement(job): Placement {
    const score = job.createdMs;
    const lists = job.indexed === undefined ? unfilteredLists(job) : filterLists(job);
    if (job.bypass)
      lists.push({ name: job.bypass.reviewedMs === undefined ? unreviewedOf(job.org) : bypassedOf(job.org), score });
    const isQueued = job.state === "SCHEDULED";
    if (isQueued) lists.push({ name: waitingOn(job.topic), score });
    const isForSlot = waitsForSlot(job);
    if (isForSlot) lists.push({ name: slotWaitsIn(job.org), score });
    // Jobs without a submitted trace id use their own id, and a run lists the jobs of its steps: neither needs this
    // list.
    if (job.traceId !== job.id && !job.step && job.traceId !== clientJobId(job.org, job.id))
      lists.push({ name: jobsOfTrace(job.org, job.traceId), score });
    if (job.arms !== undefined && !job.step) lists.push(...unitLists(job.arms, score));
    if (job.step?.index !== undefined) lists.push(...childLists(job.step, job.step.index, job.state));
    else if (job.step?.iteration !== undefined)
      lists.push({ name: childrenOf(job.step.runId, job.step.stepId), score: job.step.iteration });
    return {
      lists,
      queue: isQueued
        ? { name: queueOf(job.topic, job.org), score: PRIORITY_RANK[job.priority] * PRIORITY_STEP + score }
        : isForSlot
          ? { name: slotWaitsIn(job.org), score }
          : null,
      counters: withBudgets(
        withQuotas(countersOf(job), job.org, !isFinal(job.state), job.bytes),
        job.org,
        job.budgets,
        job.state === "DISPATCHED" || job.state === "RUNNING",
      ),
      dueMs: job.dueMs,
    };
  },
};

/** Children of a `for_each` by index: all, and those still open. Their compensations have lists of their own. */
function childLists({ runId, stepId, iteration, isCompensation }: StepRef, index: number, state: JobState) {
  const list = isCompensation ? undoListOf(stepId) : stepId;
  const all = { name: childrenOf(runId, list, iteration), score: index };
  return isFinal(state) ? [all] : [all, { name: openChildrenOf(runId, list, iteration), score: index }];
}

function countersOf(job: Job): readonly CounterName[] {
  // Delays and sub-runs occupy no worker.
  if (job.step && job.step.kind !== "worker" && job.state !== "APPROVAL_REQUIRED")
    return waitsForSlot(job) ? [slotWaitsOf(job.org)] : [];
  switch (job.state) {
    case "SCHEDULED":
      return [backlogOf(job.topic), backlogOfOrg(job.topic, job.org)];
    case "DISPATCHED":
    case "RUNNING":
      return [inFlightOf(job.topic), runningOf(job.org), ...(limitOfRule(job) === null ? [] : [underRule(job)])];
    case "APPROVAL_REQUIRED":
      return [{ group: APPROVALS_GROUP, name: job.org }];
    case "PENDING":
    case "RETRYING":
      return job.wait ? [{ group: WAITING_GROUP, name: job.wait.retryClass }] : [];
    default:
      return [];
  }
}

/** A transition clears `wait`, and with it the place in the slot queue. */
const waitsForSlot = ({ wait }: Job): boolean => wait?.forSlot === true;

/** In a loop, each iteration of a `for_each` has its list; without an iteration, the list of the jobs of all iterations. */
export const childrenOf = (runId: string, stepId: string, iteration?: number): string =>
  iteration === undefined ? `children/${runId}/${stepId}` : `children/${runId}/${stepId}@${iteration}`;
export const openChildrenOf = (runId: string, stepId: string, iteration?: number): string =>
  iteration === undefined ? `children_open/${runId}/${stepId}` : `children_open/${runId}/${stepId}@${iteration}`;
/** Takes the place of the step id in the names of the lists of its compensations; no step id contains a `.`. */
export const undoListOf = (stepId: string): string => `${stepId}.undo`;
export const jobsOfTrace = (org: string, traceId: string): string => `trace/${org}/${traceId}`;
export const queueOf = (topic: string, org: string): string => `backlog/${topic}/${org}`;
/** Queued jobs of a topic, across tenants, by age. */
export const waitingOn = (topic: string): string => `waiting/${topic}`;
export const BACKLOG_GROUP = "backlog";
export const backlogOf = (topic: string) => ({ group: BACKLOG_GROUP, name: topic });
export const backlogGroupOf = (topic: string): string => `backlog/${topic}`;
export const backlogOfOrg = (topic: string, org: string) => ({ group: backlogGroupOf(topic), name: org });
export const IN_FLIGHT_GROUP = "inflight";
export const inFlightOf = (topic: string) => ({ group: IN_FLIGHT_GROUP, name: topic });
/** Jobs of a tenant with workers; bounded by `limits.max_concurrent_jobs`. */
export const RUNNING_GROUP = "running";
export const runningOf = (org: string) => ({ group: RUNNING_GROUP, name: org });
/** Jobs awaiting approval, by tenant. */
export const APPROVALS_GROUP = "approvals";
/** Jobs waiting for a retry, by class. */
export const WAITING_GROUP = "waiting";
/** `subworkflow` steps that wait for a slot, by tenant. While there is one, new runs get no slot. */
export const SLOT_WAITS_GROUP = "slot_waits";
export const slotWaitsOf = (org: string): CounterName => ({ group: SLOT_WAITS_GROUP, name: org });
/** The queue of these steps and the list that shows it, oldest first. */
export const slotWaitsIn = (org: string): string => `slot_waits/${org}`;
/** Jobs dispatched under a fail-open lease: not reviewed, and reviewed. */
export const unreviewedOf = (org: string): string => `unreviewed/${org}`;
export const bypassedOf = (org: string): string => `bypassed/${org}`;

/** The rule's concurrency limit per tenant; null if unlimited. */
export const limitOfRule = (job: Job): number | null => job.safety?.constraints?.budgets?.maxConcurrentJobs ?? null;
export const underRule = (job: Job) => ({ group: "rule", name: `${job.org}/${job.safety?.ruleId ?? ""}` });

const PRIORITY_RANK: Readonly<Record<JobPriority, number>> = { critical: 0, interactive: 1, batch: 2 };
/** Exceeds any creation time of this century, so priority precedes age. */
const PRIORITY_STEP = 2 ** 42;

/** The job in its next state: a copy that the caller may complete. */
export function moveJob(job: Job, to: JobState, nowMs: number): Writable<Job> {
  const legal: readonly JobState[] = JOB_MOVES[job.state];
  if (!legal.includes(to)) throw new IllegalMove(`job \`${job.id}\` cannot go from ${job.state} to ${to}`);
  const next = copyOf(job);
  next.wait = null;
  next.state = to;
  next.updatedMs = nowMs;
  return next;
}

export class IllegalMove extends Error {
  override readonly name = "IllegalMove";
}

/**
 * Copies field by field, so that all jobs share one hidden class. Chained spreads give each history its own shape,
 * which makes copying and serializing about ten times slower.
 */
function copyOf(job: Job): Writable<Job> {
  const copy: Writable<Job> = {
    id: job.id,
    org: job.org,
    topic: job.topic,
    priority: job.priority,
    state: job.state,
    createdMs: job.createdMs,
    updatedMs: job.updatedMs,
    deadlineMs: job.deadlineMs,
    dueMs: job.dueMs,
    traceId: job.traceId,
    actorId: job.actorId,
    capability: job.capability,
    riskTags: job.riskTags,
    requires: job.requires,
    labels: job.labels,
    input: job.input,
    output: job.output,
    safety: job.safety,
    attempt: job.attempt,
    dispatchedMs: job.dispatchedMs,
    workerId: job.workerId,
    wait: job.wait,
    patience: job.patience,
    error: job.error,
    history: job.history,
    indexed: 1,
  };
  if (job.submittedBy !== undefined) copy.submittedBy = job.submittedBy;
  if (job.caller !== undefined) copy.caller = job.caller;
  if (job.actorType !== undefined) copy.actorType = job.actorType;
  if (job.packId !== undefined) copy.packId = job.packId;
  if (job.idempotencyKey !== undefined) copy.idempotencyKey = job.idempotencyKey;
  if (job.traceparent !== undefined) copy.traceparent = job.traceparent;
  if (job.approval !== undefined) copy.approval = job.approval;
  if (job.bypass !== undefined) copy.bypass = job.bypass;
  if (job.leaseId !== undefined) copy.leaseId = job.leaseId;
  if (job.progress !== undefined) copy.progress = job.progress;
  if (job.sentTo !== undefined) copy.sentTo = job.sentTo;
  if (job.failures !== undefined) copy.failures = job.failures;
  if (job.step !== undefined) copy.step = job.step;
  if (job.details !== undefined) copy.details = job.details;
  if (job.resultDetails !== undefined) copy.resultDetails = job.resultDetails;
  if (job.arms !== undefined) copy.arms = job.arms;
  if (job.measures !== undefined) copy.measures = job.measures;
  if (job.bytes !== undefined) copy.bytes = job.bytes;
  if (job.counted !== undefined) copy.counted = job.counted;
  if (job.budgets !== undefined) copy.budgets = job.budgets;
  return copy;
}
