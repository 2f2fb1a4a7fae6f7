import type { JobPriority } from "../../protocol/packet.ts";
import type { ActorType, Decision } from "../policy/decision.ts";
import type { RetryState } from "../retry/budget.ts";
import type { RetryClass } from "../retry/classes.ts";
import type { WireError } from "../retry/intent.ts";
import type { StepRef } from "./step-ref.ts";
import type { CounterName, Placement, Table } from "./table.ts";

/**
 * A job: the data, the legal moves, and where a job stands.
 *
 * 1. `JOB_MOVES` is the only place where legal moves are written down; an empty list marks a final state.
 * 2. A job that is not final has a time at which somebody looks at it (`dueMs`), so that no state is a dead end.
 * 3. What a job counts towards follows from its state: in the backlog of its topic, or in its topic's window.
 */
export const JOB_MOVES = {
  PENDING: ["APPROVAL_REQUIRED", "SCHEDULED", "RUNNING", "SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"],
  APPROVAL_REQUIRED: ["PENDING", "SCHEDULED", "SUCCEEDED", "DENIED", "CANCELLED", "TIMEOUT"],
  SCHEDULED: ["PENDING", "DISPATCHED", "RETRYING", "SUCCEEDED", "CANCELLED", "TIMEOUT"],
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
/** States that somebody still has to end. */
export type OpenState = { [S in JobState]: (typeof JOB_MOVES)[S] extends readonly [] ? never : S }[JobState];
/**
 * Ended jobs to which an operator may give a second life, in the commit that removes their dead letter: the only way out
 * of a final state.
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
  /** The end of the job's own patience. */
  readonly deadlineMs: number;
  /** When the sweeper must look at it. */
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

  // What few jobs have is absent from the others: a record is written several times in a job's life.
  /** Who submitted it: the id of a key, or of a client of the bus. */
  readonly submittedBy?: string;
  readonly actorType?: ActorType;
  readonly packId?: string;
  /** The W3C trace context that the submitter sent. */
  readonly traceparent?: string;
  readonly approval?: Approval;
  readonly bypass?: Bypass;
  /** The lease under which a worker over HTTP has the present attempt. */
  readonly leaseId?: string;
  readonly progress?: Progress;
  /** Attempts of this life that failed or were lost, which is what a rule's `max_retries` bounds. */
  readonly failures?: number;
  /** The step of a run that this job is for: its end moves the run on, in the same commit. */
  readonly step?: StepRef;
}

/** What a human has to decide: bound to this very job and policy, good once, until it expires. */
export interface Approval {
  /** Of everything the approver decides about: topic, input, labels and so on. */
  readonly jobHash: string;
  readonly snapshot: string;
  readonly ruleId: string | null;
  readonly requestedMs: number;
  readonly expiresMs: number;
  readonly bySubmitter: boolean;
  readonly decidedBy?: string;
  readonly decidedMs?: number;
}

/** Sent out without a verdict, under a fail-open lease: to be looked at again. */
export interface Bypass {
  readonly leaseId: string;
  readonly reason: string;
  readonly atMs: number;
  readonly reviewedBy?: string;
  readonly reviewedMs?: number;
  /** What the policy said to it when it was reviewed. */
  readonly verdict?: Pick<Decision, "effect" | "ruleId" | "reason" | "snapshot">;
  readonly note?: string;
}

export interface Progress {
  readonly percent: number | null;
  readonly message: string | null;
  readonly atMs: number;
}

export type Payload =
  | { readonly kind: "inline"; readonly value: unknown }
  | { readonly kind: "pointer"; readonly ptr: string; readonly bytes: number; readonly sha256?: string };

/** Why a job is not moving by itself, until when, and which policy said so. */
export interface Wait {
  readonly retryClass: RetryClass;
  readonly reason: string;
  readonly untilMs: number;
  /** Who chose the time: a policy in config syntax, or the worker. */
  readonly setBy: string;
  /** A step that is a run, and was refused for want of a slot: it comes before whoever asks for one anew. */
  readonly forSlot?: true;
}

/** One line of a job's history: what happened, who did it and why, and when it is tried again. */
export interface HistoryLine {
  readonly atMs: number;
  readonly event: JobEvent;
  readonly attempt: number;
  /** A key, a worker; absent where it was the control plane itself. */
  readonly who?: string;
  readonly why?: string;
  readonly retry?: Retry;
}

export type JobEvent =
  | "succeeded"
  | "failed"
  /** Nothing was heard of an attempt until its deadline. */
  | "lost"
  | "no_worker"
  /** The kernel or a store did not answer. */
  | "unavailable"
  | "throttled"
  | "approval_required"
  | "approved"
  | "rejected"
  /** The job or the policy had changed: a new decision is needed. */
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
  /** Who chose the delay: a policy in config syntax, or the worker. */
  readonly setBy: string;
}

export const HISTORY_MAX = 20;

export const isFinal = (state: JobState): boolean => JOB_MOVES[state].length === 0;

/** Adds a line to the history; the first and the latest lines are kept. */
export function appendHistory(job: Job, line: HistoryLine): readonly HistoryLine[] {
  if (job.history.length < HISTORY_MAX) return [...job.history, line];
  return [...job.history.slice(0, 1), ...job.history.slice(2), line];
}

export const JOBS: Table<Job> = {
  name: "job",
  placement(job): Placement {
    const score = job.createdMs;
    const lists = [
      { name: jobsOf(job.org), score },
      { name: jobsOf(job.org, job.state), score },
    ];
    if (job.bypass)
      lists.push({ name: job.bypass.reviewedMs === undefined ? unreviewedOf(job.org) : bypassedOf(job.org), score });
    const isQueued = job.state === "SCHEDULED";
    if (isQueued) lists.push({ name: waitingOn(job.topic), score });
    const isForSlot = waitsForSlot(job);
    if (isForSlot) lists.push({ name: slotWaitsIn(job.org), score });
    // A job that nobody gave a trace has its own id for one, and a run names the jobs of its steps: neither needs a list.
    if (job.traceId !== job.id && !job.step) lists.push({ name: jobsOfTrace(job.org, job.traceId), score });
    if (job.step?.index !== undefined) lists.push(...childLists(job.step, job.step.index, job.state));
    return {
      lists,
      queue: isQueued
        ? { name: queueOf(job.topic, job.org), score: PRIORITY_RANK[job.priority] * PRIORITY_STEP + score }
        : isForSlot
          ? { name: slotWaitsIn(job.org), score }
          : null,
      counters: countersOf(job),
      dueMs: job.dueMs,
    };
  },
};

/** The children of a `for_each`, all of them and those that have not ended, in their order. */
function childLists({ runId, stepId }: StepRef, index: number, state: JobState) {
  const all = { name: childrenOf(runId, stepId), score: index };
  return isFinal(state) ? [all] : [all, { name: openChildrenOf(runId, stepId), score: index }];
}

function countersOf(job: Job): readonly CounterName[] {
  // Who waits for the clock or another run is with no worker.
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

/** Whether it stands in the line for a slot: a wait ends with every move, and so does the place in the line. */
const waitsForSlot = ({ wait }: Job): boolean => wait?.forSlot === true;

export const childrenOf = (runId: string, stepId: string): string => `children/${runId}/${stepId}`;
export const openChildrenOf = (runId: string, stepId: string): string => `children_open/${runId}/${stepId}`;
export const jobsOf = (org: string, state?: JobState): string => (state ? `jobs/${org}/${state}` : `jobs/${org}`);
export const jobsOfTrace = (org: string, traceId: string): string => `trace/${org}/${traceId}`;
export const queueOf = (topic: string, org: string): string => `backlog/${topic}/${org}`;
/** The jobs that wait for a topic, of all orgs, by age. */
export const waitingOn = (topic: string): string => `waiting/${topic}`;
export const BACKLOG_GROUP = "backlog";
export const backlogOf = (topic: string) => ({ group: BACKLOG_GROUP, name: topic });
export const backlogGroupOf = (topic: string): string => `backlog/${topic}`;
export const backlogOfOrg = (topic: string, org: string) => ({ group: backlogGroupOf(topic), name: org });
export const IN_FLIGHT_GROUP = "inflight";
export const inFlightOf = (topic: string) => ({ group: IN_FLIGHT_GROUP, name: topic });
/** Jobs of an org that are with workers: what `limits.max_concurrent_jobs` bounds. */
export const RUNNING_GROUP = "running";
export const runningOf = (org: string) => ({ group: RUNNING_GROUP, name: org });
/** Jobs that wait for a human, by org. */
export const APPROVALS_GROUP = "approvals";
/** Jobs that wait for their next try, by the class of what they wait for. */
export const WAITING_GROUP = "waiting";
/** Steps that are runs and wait for a slot, by org: while there is one, nobody else is given a slot. */
export const SLOT_WAITS_GROUP = "slot_waits";
export const slotWaitsOf = (org: string): CounterName => ({ group: SLOT_WAITS_GROUP, name: org });
/** The line they stand in, and the list that shows it: the oldest first. */
export const slotWaitsIn = (org: string): string => `slot_waits/${org}`;
/** Jobs sent out under a fail-open lease: those that nobody has looked at since, and the others. */
export const unreviewedOf = (org: string): string => `unreviewed/${org}`;
export const bypassedOf = (org: string): string => `bypassed/${org}`;

/** How many jobs of an org the rule that allowed this one lets run at once; null for any number. */
export const limitOfRule = (job: Job): number | null => job.safety?.constraints?.budgets?.maxConcurrentJobs ?? null;
export const underRule = (job: Job) => ({ group: "rule", name: `${job.org}/${job.safety?.ruleId ?? ""}` });

const PRIORITY_RANK: Readonly<Record<JobPriority, number>> = { critical: 0, interactive: 1, batch: 2 };
/** Larger than any time of creation in this century, so that rank decides before age. */
const PRIORITY_STEP = 2 ** 42;
