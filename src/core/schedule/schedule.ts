import type { Caller } from "../model/caller.ts";
import type { CounterName, Placement, Table } from "../model/table.ts";
import { uniformOf } from "../rollout/arm.ts";
import { cronTimes } from "./cron.ts";

/**
 * The schedule record.
 *
 * 1. A slot is a time at which a run is to start. `nextMs` is the first slot that is not handled; slots are handled in order, and
 *    the commit that handles one moves `nextMs`.
 * 2. `handledMs` never decreases: neither a clock that steps back nor a changed expression repeats a slot.
 * 3. `dueMs` follows from the other fields (`withDue`).
 */
export interface Schedule {
  readonly id: string;
  readonly org: string;
  /** Distinguishes schedules that had the same id one after another. */
  readonly uid: string;
  readonly workflowId: string;
  readonly timing: Timing;
  readonly input: unknown;
  readonly overlap: Overlap;
  readonly jitterMs: number;
  /** A slot that could not be started for this long is missed. */
  readonly catchUpMs: number;
  readonly isPaused: boolean;
  readonly createdMs: number;
  readonly updatedMs: number;
  /** The key that applied it: the submitter of its runs. */
  readonly submittedBy: string | null;
  readonly caller?: Caller;
  /** Null: the expression matches no later time. */
  readonly nextMs: number | null;
  /** The latest slot that was started, queued or left out. */
  readonly handledMs: number;
  /** The slot that waits for the end of the open run. */
  readonly queuedMs?: number;
  /** When to look again whether the open run of a queued slot has ended. */
  readonly checkMs?: number;
  /** The start of the queued slot, or of the next one, was refused. */
  readonly wait?: StartWait;
  /** Runs that it started and that are not known to have ended; the newest last. */
  readonly open: readonly string[];
  /** The newest first. */
  readonly starts: readonly ScheduledStart[];
  readonly counts: Readonly<Record<LeftOutKind | "started", number>>;
  /** The latest slot that was not started. */
  readonly leftOut?: LeftOut;
  readonly backfill?: Backfill;
  readonly dueMs: number | null;
}

export type Timing =
  | { readonly kind: "cron"; readonly cron: string; readonly timeZone: string }
  /** Slots are the multiples of the interval since 1970-01-01 UTC. */
  | { readonly kind: "every"; readonly everyMs: number };

export const OVERLAPS = ["skip", "queue", "allow", "cancel"] as const;
export type Overlap = (typeof OVERLAPS)[number];

/** `skipped`: a run was open. `missed`: older than the catch-up window. `failed`: the run could not be created. */
export type LeftOutKind = "skipped" | "missed" | "failed";

export interface LeftOut {
  readonly kind: LeftOutKind;
  /** The latest of them. */
  readonly slotMs: number;
  readonly atMs: number;
  readonly why: string;
}

export interface ScheduledStart {
  readonly runId: string;
  /** Null for a start by `trigger`. */
  readonly slotMs: number | null;
  readonly atMs: number;
  readonly cause: StartCause;
}

export type StartCause = "slot" | "backfill" | "trigger";

export interface StartWait {
  readonly why: string;
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly attempts: number;
}

/** Starts the slots of a past range, in order. */
export interface Backfill {
  /** Null: no slot is left. */
  readonly nextMs: number | null;
  readonly untilMs: number;
  readonly paceMs: number;
  readonly by: string;
  readonly slots: number;
  readonly started: number;
  /** Slots that have a run already. */
  readonly existing: number;
  readonly failed: number;
  readonly dueMs: number;
  /** Its next slot waits for the end of the open run. */
  readonly isBlocked?: boolean;
  readonly wait?: StartWait;
}

export const SCHEDULES: Table<Schedule> = {
  name: "schedule",
  placement: ({ org, createdMs, dueMs }): Placement => ({
    lists: [{ name: schedulesOf(org), score: createdMs }],
    queue: null,
    counters: [scheduleCountOf(org)],
    dueMs,
  }),
};

export const schedulesOf = (org: string): string => `schedules/${org}`;
export const scheduleKey = (org: string, id: string): string => `${org}/${id}`;
export const SCHEDULES_GROUP = "schedules";
export const scheduleCountOf = (org: string): CounterName => ({ group: SCHEDULES_GROUP, name: org });

/** Two starts of one slot use the same key, so the second one finds the run of the first. No tenant begins with `@`. */
export const slotReservation = ({ org, id, uid }: Schedule, slotMs: number): string =>
  `@slot/${org}/${id}/${uid}/${slotMs}`;

/** The first slot after `afterMs`; null if there is none. */
export function slotAfter(timing: Timing, afterMs: number): number | null {
  if (timing.kind === "cron") return cronTimes(timing.cron, timing.timeZone).next(afterMs);
  return (Math.floor(afterMs / timing.everyMs) + 1) * timing.everyMs;
}

/** When a slot starts. The jitter depends on the schedule and the slot only, so every process draws the same. */
export function startOf({ uid, jitterMs }: Pick<Schedule, "uid" | "jitterMs">, slotMs: number): number {
  return jitterMs === 0 ? slotMs : slotMs + Math.floor(uniformOf(`${uid}/${slotMs}`) * jitterMs);
}

/** The next slots with their starts, without those that a pause or an open run prevents. */
export function nextSlots(schedule: Schedule, count: number): readonly { slotMs: number; startMs: number }[] {
  const slots: { slotMs: number; startMs: number }[] = [];
  let slotMs = schedule.nextMs;
  while (slotMs !== null && slots.length < count) {
    slots.push({ slotMs, startMs: startOf(schedule, slotMs) });
    slotMs = slotAfter(schedule.timing, slotMs);
  }
  return slots;
}

/** The same schedule with its due time. */
export function withDue(schedule: Omit<Schedule, "dueMs">): Schedule {
  const times: number[] = [];
  const { isPaused, queuedMs, checkMs = 0, wait, nextMs, backfill } = schedule;
  if (!isPaused && queuedMs !== undefined) times.push(Math.max(queuedMs, checkMs, wait?.untilMs ?? 0));
  if (!isPaused && nextMs !== null) {
    const startMs = startOf(schedule, nextMs);
    times.push(queuedMs === undefined && wait ? Math.max(startMs, wait.untilMs) : startMs);
  }
  if (backfill) times.push(backfill.dueMs);
  return { ...schedule, dueMs: times.length === 0 ? null : Math.min(...times) };
}
