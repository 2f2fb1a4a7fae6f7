import type { WireError } from "../retry/intent.ts";
import type { Payload } from "./job.ts";
import type { CounterName, Placement, Table } from "./table.ts";

/**
 * A run of a workflow: the data, the legal moves, and where a run stands.
 *
 * 1. `RUN_MOVES` is the only place where legal moves are written down; an empty list marks a final state.
 * 2. A run that is not final holds a slot of its org, by counting towards `runsOpenOf`; the slot cannot leak, since it
 *    follows from the record.
 * 3. A run that is not final has a time at which somebody looks at it (`dueMs`), so that no state is a dead end.
 * 4. The children of a `for_each` are jobs of their own; the run keeps counts (L45).
 */
export const RUN_MOVES = {
  RUNNING: ["PAUSED", "ENDING", "SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"],
  PAUSED: ["RUNNING", "ENDING", "FAILED", "CANCELLED", "TIMEOUT"],
  /** What it will be is decided (`endsAs`); what is still open is being stopped. */
  ENDING: ["FAILED", "CANCELLED", "TIMEOUT"],
  SUCCEEDED: [],
  FAILED: [],
  CANCELLED: [],
  TIMEOUT: [],
} as const satisfies Record<string, readonly string[]>;

export type RunState = keyof typeof RUN_MOVES;
export const RUN_STATES = Object.keys(RUN_MOVES) as readonly RunState[];
export type RunEnd = "SUCCEEDED" | "FAILED" | "CANCELLED" | "TIMEOUT";
export const isRunFinal = (state: RunState): state is RunEnd => RUN_MOVES[state].length === 0;
/**
 * Ended runs to which a step's dead letter, tried again, gives a second life (L42): the only way out of a final state.
 * It passes the gate like a start.
 */
export const REJOINABLE: readonly RunState[] = ["FAILED", "TIMEOUT"];

export type StepState = "PENDING" | "RUNNING" | "SUCCEEDED" | "FAILED" | "SKIPPED" | "CANCELLED" | "TIMEOUT" | "DENIED";
export const isStepSettled = (state: StepState): boolean => state !== "PENDING" && state !== "RUNNING";
export const isStepFailure = (state: StepState): state is "FAILED" | "TIMEOUT" | "DENIED" =>
  state === "FAILED" || state === "TIMEOUT" || state === "DENIED";

export interface Run {
  readonly id: string;
  readonly org: string;
  readonly workflowId: string;
  readonly version: number;
  readonly state: RunState;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** The end of its own patience. */
  readonly deadlineMs: number;
  readonly dueMs: number;
  readonly traceId: string;
  readonly input: Payload;
  readonly output: Payload | null;
  readonly error: WireError | null;
  /** By the step's id, in the order of the definition. A step that nothing has happened to is absent. */
  readonly steps: Readonly<Record<string, StepRun>>;
  /** The latest lines of the timeline; older ones are in pages of their own (`TIMELINE`). */
  readonly lines: readonly TimelineLine[];
  /** How many lines there have been: the number of the next one. */
  readonly lineCount: number;
  /** What the payloads that stand on the run itself have together; beyond a limit they are kept elsewhere. */
  readonly inlineBytes: number;
  readonly labels: Readonly<Record<string, string>>;
  /** Who held the run's lock when this was written, and how it was got. */
  readonly lock: RunLock | null;

  // What few runs have is absent from the others.
  readonly submittedBy?: string;
  readonly actorId?: string;
  readonly traceparent?: string;
  readonly priority?: "interactive" | "batch" | "critical";
  /** What an ENDING run will be, and why; the timeline's line that says so. */
  readonly endsAs?: { readonly state: RunEnd; readonly error: WireError | null; readonly line?: number };
  /** The step's job of another run that waits for this one. */
  readonly parent?: { readonly runId: string; readonly jobId: string; readonly depth: number };
  /** False until the parent has been told of the end. */
  readonly isParentTold?: boolean;
  /** The record of the client's key that made it: it leaves with the run. */
  readonly reservation?: string;
  readonly rerunOf?: { readonly runId: string; readonly fromStep: string };
}

export interface RunLock {
  readonly holder: string;
  readonly fence: number;
  readonly waitedMs: number;
  readonly attempts: number;
}

export interface StepRun {
  readonly state: StepState;
  readonly startedMs?: number;
  readonly endedMs?: number;
  /** The job that does it, waits for it, or waits for a human; none where the step needs no time. */
  readonly jobId?: string;
  readonly output?: StepOutput;
  readonly error?: WireError;
  /** Why it was skipped or cancelled. */
  readonly why?: string;
  /** Which arm a `condition` or `switch` chose. */
  readonly arm?: string;
  /** Of one that was asked for each item: every arm that an item chose, in the order in which they first did. */
  readonly arms?: readonly string[];
  readonly fan?: Fan;
  /** When a `parallel` step has to be done; absent: in the run's own time. */
  readonly dueMs?: number;
  /** The timeline's line that last told of it. */
  readonly line?: number;
}

/** `children`: one output for each child of a `for_each`, in order, kept on the children's jobs and gathered when used. */
export type StepOutput = Payload | { readonly kind: "children"; readonly count: number };

/** The counts of a `for_each`. */
export interface Fan {
  /** The list as it was when the step began. */
  readonly items: Payload;
  readonly count: number;
  /** Children made so far: those below this index. */
  readonly spawned: number;
  readonly open: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
  /** The children that are open are being stopped; the step ends as this when none is left. */
  readonly endsAs?: "FAILED" | "CANCELLED" | "TIMEOUT";
  /** Of the child that failed first. */
  readonly error?: WireError;
  /** When all of it has to be done; absent: in the run's own time. */
  readonly dueMs?: number;
}

/** One line of a run's timeline: what happened, to what, who did it and why, and which line caused it. */
export interface TimelineLine {
  readonly seq: number;
  readonly atMs: number;
  readonly event: TimelineEvent;
  readonly stepId?: string;
  readonly index?: number;
  readonly jobId?: string;
  readonly who?: string;
  readonly why?: string;
  /** The `seq` of the line that this one follows from. */
  readonly cause?: number;
}

export type TimelineEvent =
  | "run_started"
  | "run_paused"
  | "run_resumed"
  | "run_ending"
  | "run_rejoined"
  | "run_succeeded"
  | "run_failed"
  | "run_cancelled"
  | "run_timed_out"
  | "step_started"
  | "step_succeeded"
  | "step_failed"
  | "step_skipped"
  | "step_cancelled"
  | "step_timed_out"
  | "step_denied"
  | "step_kept"
  | "arm_chosen"
  | "notified"
  | "child_failed";

/** So many lines stand on the run itself; then half of them move to a page. */
export const LINES_MAX = 64;
/** A value up to this size stands on the run itself, and is written with each commit of it; a larger one is written once (L45). */
export const RUN_VALUE_BYTES_MAX = 4 * 1024;

export const RUNS: Table<Run> = {
  name: "run",
  placement(run): Placement {
    const score = run.createdMs;
    return {
      lists: [
        { name: runsOf(run.org), score },
        { name: runsOf(run.org, run.state), score },
        { name: runsOfWorkflow(run.org, run.workflowId), score },
      ],
      queue: null,
      counters: isRunFinal(run.state) ? [] : [runsOpenOf(run.org)],
      dueMs: run.dueMs,
    };
  },
};

export const runsOf = (org: string, state?: RunState): string => (state ? `runs/${org}/${state}` : `runs/${org}`);
export const runsOfWorkflow = (org: string, workflowId: string): string => `runs_of/${org}/${workflowId}`;
/** What `limits.max_concurrent_runs` bounds. */
export const RUNS_GROUP = "runs";
export const runsOpenOf = (org: string): CounterName => ({ group: RUNS_GROUP, name: org });
/** The lists that together show every run that holds a slot: what the slots are recounted from. */
export const openRunLists = (org: string): readonly string[] =>
  (["RUNNING", "PAUSED", "ENDING"] as const).map((state) => runsOf(org, state));

/** Older lines of a run's timeline. */
export interface TimelinePage {
  readonly runId: string;
  readonly lines: readonly TimelineLine[];
}

export const TIMELINE: Table<TimelinePage> = {
  name: "timeline",
  placement: ({ runId, lines }): Placement => ({
    lists: [{ name: timelineOf(runId), score: lines[0]?.seq ?? 0 }],
    queue: null,
    counters: [],
    dueMs: null,
  }),
};

export const timelineOf = (runId: string): string => `timeline/${runId}`;
export const timelineKey = (runId: string, seq: number): string => `${runId}/${seq}`;

/** A client's key, bound to the run that it made: written in the commit that makes the run. */
export interface RunReservation {
  readonly runId: string;
  readonly fingerprint: string;
  readonly dueMs: number;
}

export const RUN_RESERVATIONS: Table<RunReservation> = {
  name: "run_idempotency",
  placement: ({ dueMs }): Placement => ({ lists: [], queue: null, counters: [], dueMs }),
};

/**
 * Where a run keeps what was decided on under its lock: a name of the holder's own. One that has lost the lock in the
 * meantime writes elsewhere than where the record points; what nobody points at ends with its time.
 */
export const fencedKey = ({ lock }: Pick<Run, "lock">, key: string): string =>
  lock === null ? key : `${key}.${lock.fence}`;

export const stepJobId = (runId: string, stepId: string, index: number | null): string =>
  index === null ? `${runId}:${stepId}@1` : `${runId}:${stepId}.${index}@1`;
