import type { Decision } from "../policy/decision.ts";
import type { Patience } from "../retry/budget.ts";
import type { RetryClass } from "../retry/classes.ts";
import type { WireError } from "../retry/contract.ts";
import type { JobPriority } from "../wire/packet.ts";
import type { Placement, Table } from "./table.ts";

/**
 * A job: the data, the legal moves, and where a job stands.
 *
 * 1. `JOB_MOVES` is the only place where legal moves are written down; an empty list marks a final state.
 * 2. A job that is not final has a time at which somebody looks at it (`dueMs`), so that no state is a dead end.
 * 3. What a job counts towards follows from its state: in the backlog of its topic, or in its topic's window.
 */
export const JOB_MOVES = {
  PENDING: ["SCHEDULED", "DENIED", "TIMEOUT"],
  SCHEDULED: ["DISPATCHED", "SUCCEEDED", "TIMEOUT"],
  DISPATCHED: ["SCHEDULED", "RETRYING", "SUCCEEDED", "FAILED", "TIMEOUT"],
  RETRYING: ["SCHEDULED", "SUCCEEDED", "TIMEOUT"],
  SUCCEEDED: [],
  FAILED: [],
  TIMEOUT: [],
  DENIED: [],
} as const satisfies Record<string, readonly string[]>;

export type JobState = keyof typeof JOB_MOVES;
export const JOB_STATES = Object.keys(JOB_MOVES) as readonly JobState[];

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
  readonly patience: Patience;
  readonly error: WireError | null;
  readonly history: readonly Attempt[];
}

export type Payload =
  | { readonly kind: "inline"; readonly value: unknown }
  | { readonly kind: "pointer"; readonly ptr: string; readonly bytes: number };

/** Why a job is not moving by itself, until when, and which policy said so. */
export interface Wait {
  readonly retryClass: RetryClass;
  readonly reason: string;
  readonly untilMs: number;
  /** Who chose the time: a policy in config syntax, or the worker. */
  readonly setBy: string;
}

/** One line of a job's history: an attempt that ended, and what was decided then. */
export interface Attempt {
  readonly attempt: number;
  readonly atMs: number;
  readonly outcome: "succeeded" | "failed" | "lost" | "no_worker" | "unavailable";
  readonly error: string | null;
  readonly retryClass: RetryClass | null;
  readonly delayMs: number | null;
  readonly setBy: string | null;
}

export const HISTORY_MAX = 20;

export const isFinal = (state: JobState): boolean => JOB_MOVES[state].length === 0;

export function moveJob(job: Job, to: JobState, nowMs: number, facts: Partial<Job> = {}): Job {
  const legal: readonly JobState[] = JOB_MOVES[job.state];
  if (!legal.includes(to)) throw new IllegalMove(`job \`${job.id}\` cannot go from ${job.state} to ${to}`);
  return { ...job, wait: null, ...facts, state: to, updatedMs: nowMs };
}

export class IllegalMove extends Error {
  override readonly name = "IllegalMove";
}

/** Adds a line to the history; the first and the latest lines are kept. */
export function remember(job: Job, line: Attempt): readonly Attempt[] {
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
    if (job.state === "SCHEDULED") {
      return {
        lists,
        queue: { name: queueOf(job.topic, job.org), score: PRIORITY_RANK[job.priority] * PRIORITY_STEP + score },
        counters: [backlogOf(job.topic), backlogOfOrg(job.topic, job.org)],
        dueMs: job.dueMs,
      };
    }
    return {
      lists,
      queue: null,
      counters: job.state === "DISPATCHED" ? [inFlightOf(job.topic)] : [],
      dueMs: job.dueMs,
    };
  },
};

export const jobsOf = (org: string, state?: JobState): string => (state ? `jobs/${org}/${state}` : `jobs/${org}`);
export const queueOf = (topic: string, org: string): string => `backlog/${topic}/${org}`;
export const BACKLOG_GROUP = "backlog";
export const backlogOf = (topic: string) => ({ group: BACKLOG_GROUP, name: topic });
export const backlogGroupOf = (topic: string): string => `backlog/${topic}`;
export const backlogOfOrg = (topic: string, org: string) => ({ group: backlogGroupOf(topic), name: org });
export const IN_FLIGHT_GROUP = "inflight";
export const inFlightOf = (topic: string) => ({ group: IN_FLIGHT_GROUP, name: topic });

const PRIORITY_RANK: Readonly<Record<JobPriority, number>> = { critical: 0, interactive: 1, batch: 2 };
/** Larger than any time of creation in this century, so that rank decides before age. */
const PRIORITY_STEP = 2 ** 42;
