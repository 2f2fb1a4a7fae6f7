import { formatDuration } from "../retry/duration.ts";
import { type Schedule, startOf } from "./schedule.ts";

/** Why a schedule does not start a run now, or why its last slot was not started. */
export interface ScheduleReason {
  readonly reason: string;
  readonly untilMs: number | null;
  /** A command. */
  readonly unblocks: string | null;
}

export type ScheduleState = "active" | "paused" | "waiting" | "finished";

/** `finished`: the expression matches no later time. */
export function stateOf({ isPaused, wait, queuedMs, nextMs }: Schedule): ScheduleState {
  if (isPaused) return "paused";
  if (wait || queuedMs !== undefined) return "waiting";
  return nextMs === null ? "finished" : "active";
}

export function explainSchedule(schedule: Schedule, nowMs: number): readonly ScheduleReason[] {
  return [...presentReasons(schedule, nowMs), ...backfillReasons(schedule), ...lastReasons(schedule)];
}

function presentReasons(schedule: Schedule, nowMs: number): readonly ScheduleReason[] {
  const { id, isPaused, queuedMs, nextMs, wait, overlap, open, catchUpMs } = schedule;
  if (isPaused) {
    const reason = "paused: no slot starts, and the slots of this time are not started later";
    return [{ reason, untilMs: null, unblocks: `cordum schedule resume ${id}` }];
  }
  const waiting = queuedMs ?? nextMs;
  if (wait && waiting !== null) {
    const lastMs = (queuedMs === undefined ? startOf(schedule, waiting) : wait.sinceMs) + catchUpMs;
    const retry = `tried ${wait.attempts} times, again at ${text(wait.untilMs)}; missed after ${text(lastMs)}`;
    return [
      {
        reason: `slot ${text(waiting)} waits: ${wait.why}; ${retry}`,
        untilMs: wait.untilMs,
        unblocks: "cordum run list --state RUNNING",
      },
    ];
  }
  if (queuedMs !== undefined) {
    const runId = open.at(-1);
    const cancels = overlap === "cancel" ? ", which is being cancelled" : "";
    const reason = `slot ${text(queuedMs)} is queued until run \`${runId}\` ends${cancels}`;
    return [{ reason, untilMs: null, unblocks: `cordum run explain ${runId}` }];
  }
  if (nextMs === null) {
    const reason = "finished: the expression matches no later time";
    return [{ reason, untilMs: null, unblocks: "cordum schedule apply FILE" }];
  }
  const startMs = startOf(schedule, nextMs);
  if (startMs > nowMs) {
    const jitter = startMs === nextMs ? "" : `, with a jitter of ${formatDuration(startMs - nextMs)}`;
    const reason = `the next slot is ${text(nextMs)}${jitter}`;
    return [{ reason, untilMs: startMs, unblocks: `cordum schedule trigger ${id}` }];
  }
  const reason = `slot ${text(nextMs)} is due since ${formatDuration(nowMs - startMs)}; a control process starts it`;
  return [{ reason, untilMs: null, unblocks: "cordum doctor" }];
}

function backfillReasons({ id, backfill, open }: Schedule): readonly ScheduleReason[] {
  if (!backfill) return [];
  const { slots, started, existing, failed, wait, isBlocked, dueMs } = backfill;
  const handled = started + existing + failed;
  const why = wait ? `; waits: ${wait.why}` : isBlocked ? `; waits for the end of run \`${open.at(-1)}\`` : "";
  const reason = `backfill: ${handled} of ${slots} slots handled, ${started} started${why}`;
  return [{ reason, untilMs: dueMs, unblocks: `cordum schedule backfill ${id} --cancel` }];
}

function lastReasons({ leftOut }: Schedule): readonly ScheduleReason[] {
  if (!leftOut) return [];
  const { kind, slotMs, atMs, why } = leftOut;
  const reason = `slot ${text(slotMs)} was not started (${kind} at ${text(atMs)}): ${why}`;
  return [{ reason, untilMs: null, unblocks: null }];
}

const text = (ms: number): string => new Date(ms).toISOString();
