import type { WireError } from "../retry/intent.ts";
import { type Arms, type Measures, unitLists } from "./arms.ts";
import type { Caller } from "./caller.ts";
import type { Payload } from "./job.ts";
import { sharedName } from "./lists/shared-name.ts";
import { storedBytesOf } from "./quota.ts";
import type { Compensation, StepCompensation } from "./runs/compensation.ts";
import type { CounterName, Placement, Table, Writable } from "./table.ts";

/**
 * The run record, its legal transitions, and its indexes.
 *
 * 1. `RUN_MOVES` is the only list of legal transitions. An empty list marks a final state.
 * 2. Every open run holds a slot of its tenant by counting towards `runsOpenOf`. The slot follows from the record, so
 *    it cannot leak.
 * 3. Every open run has a `dueMs`, so no state is a dead end.
 * 4. Children of a `for_each` are separate jobs; the run keeps counts only (L45).
 */
export const RUN_MOVES = {
  RUNNING: ["PAUSED", "ENDING", "SUCCEEDED", "FAILED", "CANCELLED", "TIMEOUT"],
  PAUSED: ["RUNNING", "ENDING", "FAILED", "CANCELLED", "TIMEOUT"],
  /** The end state is decided (`endsAs`); open steps are being cancelled, then completed ones are undone (`compensation`). */
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
 * Final states that redriving a step's dead letter can reopen (L42), through admission like a new run. Only that and a
 * redriven compensation leave a final state.
 */
export const REJOINABLE: readonly RunState[] = ["FAILED", "TIMEOUT"];
/** The same for the dead letter of a compensation; the run is ENDING again and keeps its end state. */
export const COMPENSABLE: readonly RunState[] = ["FAILED", "CANCELLED", "TIMEOUT"];

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
  /** The run ends as TIMEOUT at this time. */
  readonly deadlineMs: number;
  readonly dueMs: number;
  readonly traceId: string;
  readonly input: Payload;
  readonly output: Payload | null;
  readonly error: WireError | null;
  /** By step id, in definition order. Untouched steps are absent. */
  readonly steps: Readonly<Record<string, StepRun>>;
  /** The latest timeline lines; older ones are in pages (`TIMELINE`). */
  readonly lines: readonly TimelineLine[];
  /** Lines written so far: the `seq` of the next one. */
  readonly lineCount: number;
  /** Total size of the payloads stored on the run; beyond a limit they go to the blob store. */
  readonly inlineBytes: number;
  readonly labels: Readonly<Record<string, string>>;
  /** The lock under which this version was written. */
  readonly lock: RunLock | null;

  // Rare fields are optional to keep records small.
  readonly submittedBy?: string;
  readonly caller?: Caller;
  /** Counted payload bytes (`quota.ts`). */
  readonly bytes?: number;
  readonly actorId?: string;
  readonly traceparent?: string;
  readonly priority?: "interactive" | "batch" | "critical";
  /** The end state of an ENDING run, with its error and timeline line. */
  readonly endsAs?: { readonly state: RunEnd; readonly error: WireError | null; readonly line?: number };
  /** Set when the first completed step is undone, and kept after the end. */
  readonly compensation?: Compensation;
  /** The `subworkflow` job of another run that waits for this run. */
  readonly parent?: { readonly runId: string; readonly jobId: string; readonly depth: number };
  /** False until the parent has been notified of the end. */
  readonly isParentTold?: boolean;
  /** The id of the idempotency record; removed with the run. */
  readonly reservation?: string;
  readonly rerunOf?: RerunOf;
  /** The schedule that started it. */
  readonly schedule?: RunSchedule;
  /** Arms in the rollouts that were active when the run was created. */
  readonly arms?: Arms;
  readonly measures?: Measures;
  /** Absent if no event was kept and none had an id. */
  readonly events?: RunEvents;
}

/** Events that the run received (see `workflow/run/wait.ts`). */
export interface RunEvents {
  /** Not taken by a step yet, oldest first. */
  readonly kept: readonly KeptEvent[];
  readonly bytes: number;
  /** Hashes of the latest event ids. */
  readonly ids: readonly string[];
}

export interface KeptEvent {
  readonly name: string;
  /** The correlation key. */
  readonly key?: string;
  readonly data: Payload;
  readonly bytes: number;
  readonly by: string;
  /** Its timeline line. */
  readonly line: number;
}

export interface RunSchedule {
  readonly id: string;
  /** Absent for a start by `trigger`. */
  readonly slotMs?: number;
}

export interface RerunOf {
  readonly runId: string;
  readonly fromStep: string;
  /** Steps whose approval is asked for again, although they precede `fromStep`; later steps wait for them (L62). */
  readonly asks?: readonly string[];
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
  /** The job of the step; absent for steps that complete at once. */
  readonly jobId?: string;
  readonly output?: StepOutput;
  readonly error?: WireError;
  /** Why it was skipped or cancelled. */
  readonly why?: string;
  /** The arm that a `condition` or `switch` chose. */
  readonly arm?: string;
  /** With `for_each`: all arms chosen, in order of first use. */
  readonly arms?: readonly string[];
  readonly fan?: Fan;
  /** The event that a `wait` step takes; without a key, any correlation key matches. */
  readonly awaits?: { readonly event: string; readonly key?: string };
  readonly loop?: LoopRun;
  /** Deadline of a step without a job: `parallel`, `wait`, `loop`; absent if only the run's applies. */
  readonly dueMs?: number;
  /** Its latest timeline line. */
  readonly line?: number;
  readonly compensation?: StepCompensation;
}

/** Progress of a `loop`. */
export interface LoopRun {
  /** The current one, from 1. */
  readonly iteration: number;
  readonly iterationsMax: number;
  /** Outcomes of the previous iteration by step id: those that expressions read. */
  readonly previous?: Readonly<Record<string, StepOutcome>>;
}

export type StepOutcome = Pick<StepRun, "state" | "output" | "error">;

/**
 * `children`: the outputs of a `for_each` in order, stored on the children's jobs and collected when read. `iteration`: of the
 * loop that the step is in.
 */
export type StepOutput = Payload | { readonly kind: "children"; readonly count: number; readonly iteration?: number };

/** Progress of a `for_each`. */
export interface Fan {
  /** The list as evaluated when the step started. */
  readonly items: Payload;
  readonly count: number;
  /** Children created so far: those below this index. */
  readonly spawned: number;
  /** The size of their inputs. */
  readonly inputBytes?: number;
  readonly open: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Open children are being cancelled; the step ends in this state when none is left. */
  readonly endsAs?: "FAILED" | "CANCELLED" | "TIMEOUT";
  /** The error of the first failed child. */
  readonly error?: WireError;
  /** Deadline of the whole step; absent if only the run's applies. */
  readonly dueMs?: number;
  /** Of the loop that the step is in. */
  readonly iteration?: number;
}

export interface TimelineLine {
  readonly seq: number;
  readonly atMs: number;
  readonly event: TimelineEvent;
  readonly stepId?: string;
  readonly index?: number;
  readonly jobId?: string;
  readonly who?: string;
  readonly why?: string;
  /** The `seq` of the causing line. */
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
  | "event_received"
  | "iteration_started"
  | "child_failed"
  | "compensation_started"
  | "compensation_succeeded"
  | "compensation_failed"
  | "compensation_stopped"
  | "compensation_redriven";

/** At this number of lines, the older half moves to a page. */
export const LINES_MAX = 64;
/** Larger values go to the blob store: inline values are rewritten with each commit of the run (L45). */
export const RUN_VALUE_BYTES_MAX = 4 * 1024;

export const RUNS: Table<Run> = {
  name: "run",
  placement(run): Placement {
    const score = run.createdMs;
    const lists = [
      { name: runsOf(run.org), score },
      { name: runsOf(run.org, run.state), score },
      { name: runsOfWorkflow(run.org, run.workflowId), score },
    ];
    if (run.arms !== undefined) lists.push(...unitLists(run.arms, score));
    return {
      lists,
      queue: null,
      counters: [
        ...(isRunFinal(run.state) ? [] : [runsOpenOf(run.org)]),
        ...(run.bytes === undefined ? [] : [{ ...storedBytesOf(run.org), by: run.bytes }]),
      ],
      dueMs: run.dueMs,
    };
  },
};

export const runsOf = (org: string, state?: RunState): string => runsName(org, state ?? "");
const runsName = sharedName((org, state) => (state === "" ? `runs/${org}` : `runs/${org}/${state}`));
export const runsOfWorkflow: (org: string, workflowId: string) => string = sharedName(
  (org, workflowId) => `runs_of/${org}/${workflowId}`,
);
/** Bounded by `limits.max_concurrent_runs`. */
export const RUNS_GROUP = "runs";
export const runsOpenOf = (org: string): CounterName => ({ group: RUNS_GROUP, name: org });
/** Lists of all runs that hold a slot; used to recount slots. */
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

/** An idempotency key, bound to its run in the commit that creates the run. */
export interface RunReservation {
  readonly runId: string;
  readonly fingerprint: string;
  readonly dueMs: number;
}

export const RUN_RESERVATIONS: Table<RunReservation> = {
  name: "run_idempotency",
  placement: ({ dueMs }): Placement => ({ lists: [], queue: null, counters: [], dueMs }),
};

/** The job of a step, of one child of a list, or of the compensation of either. `iteration`: of the loop that the step is in. */
export function stepJobId(
  runId: string,
  stepId: string,
  index: number | null,
  { isCompensation = false, iteration = 1 }: { readonly isCompensation?: boolean; readonly iteration?: number } = {},
): string {
  const step = index === null ? `${runId}:${stepId}` : `${runId}:${stepId}.${index}`;
  return `${step}${isCompensation ? ".undo" : ""}@${iteration}`;
}

/** A mutable copy. Fields are assigned one by one, so that all runs share one hidden class (see `moveJob`). */
export function copyRun(run: Run): Writable<Run> {
  const copy: Writable<Run> = {
    id: run.id,
    org: run.org,
    workflowId: run.workflowId,
    version: run.version,
    state: run.state,
    createdMs: run.createdMs,
    updatedMs: run.updatedMs,
    deadlineMs: run.deadlineMs,
    dueMs: run.dueMs,
    traceId: run.traceId,
    input: run.input,
    output: run.output,
    error: run.error,
    steps: run.steps,
    lines: run.lines,
    lineCount: run.lineCount,
    inlineBytes: run.inlineBytes,
    labels: run.labels,
    lock: run.lock,
  };
  if (run.submittedBy !== undefined) copy.submittedBy = run.submittedBy;
  if (run.caller !== undefined) copy.caller = run.caller;
  if (run.actorId !== undefined) copy.actorId = run.actorId;
  if (run.traceparent !== undefined) copy.traceparent = run.traceparent;
  if (run.priority !== undefined) copy.priority = run.priority;
  if (run.endsAs !== undefined) copy.endsAs = run.endsAs;
  if (run.compensation !== undefined) copy.compensation = run.compensation;
  if (run.parent !== undefined) copy.parent = run.parent;
  if (run.isParentTold !== undefined) copy.isParentTold = run.isParentTold;
  if (run.reservation !== undefined) copy.reservation = run.reservation;
  if (run.rerunOf !== undefined) copy.rerunOf = run.rerunOf;
  if (run.schedule !== undefined) copy.schedule = run.schedule;
  if (run.arms !== undefined) copy.arms = run.arms;
  if (run.measures !== undefined) copy.measures = run.measures;
  if (run.events !== undefined) copy.events = run.events;
  if (run.bytes !== undefined) copy.bytes = run.bytes;
  return copy;
}

/** The same for a step. The first branch covers most steps that are copied: those started with a job. */
export function copyStep(step: StepRun): Writable<StepRun> {
  const { state, startedMs, jobId, line } = step;
  if (startedMs === undefined || jobId === undefined || line === undefined) return { ...step };
  const copy: Writable<StepRun> = { state, startedMs, jobId, line };
  if (step.endedMs !== undefined) copy.endedMs = step.endedMs;
  if (step.output !== undefined) copy.output = step.output;
  if (step.error !== undefined) copy.error = step.error;
  if (step.why !== undefined) copy.why = step.why;
  if (step.arm !== undefined) copy.arm = step.arm;
  if (step.arms !== undefined) copy.arms = step.arms;
  if (step.fan !== undefined) copy.fan = step.fan;
  if (step.awaits !== undefined) copy.awaits = step.awaits;
  if (step.loop !== undefined) copy.loop = step.loop;
  if (step.dueMs !== undefined) copy.dueMs = step.dueMs;
  if (step.compensation !== undefined) copy.compensation = step.compensation;
  return copy;
}
