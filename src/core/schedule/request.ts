import type { Caller } from "../model/caller.ts";
import { nonFiniteIn } from "../model/canonical.ts";
import { fitsWithin, isTooDeep } from "../model/json.ts";
import { suggestion } from "../model/suggestion.ts";
import { formatDuration, parseDuration, quote } from "../retry/duration.ts";
import { cronTimes } from "./cron.ts";
import { OVERLAPS, type Overlap, type Schedule, slotAfter, type Timing, withDue } from "./schedule.ts";
import { timeZoneProblem } from "./time-zone.ts";

/** What a client sets, with defaults. */
export interface ScheduleSpec {
  readonly id: string;
  readonly workflowId: string;
  readonly timing: Timing;
  readonly input: unknown;
  readonly overlap: Overlap;
  readonly jitterMs: number;
  readonly catchUpMs: number;
  /** Undefined keeps the state of an existing schedule. */
  readonly isPaused: boolean | undefined;
}

export type CheckedSchedule =
  | { readonly kind: "ok"; readonly spec: ScheduleSpec }
  | { readonly kind: "bad"; readonly problems: readonly string[] };

/** Reports all problems at once. */
export function checkSchedule(
  document: unknown,
  { intervalMsMin, nowMs }: { readonly intervalMsMin: number; readonly nowMs: number },
): CheckedSchedule {
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    return { kind: "bad", problems: ["a schedule is a mapping with `id`, `workflow_id`, and `cron` or `every`"] };
  }
  const fields = document as Readonly<Record<string, unknown>>;
  const problems: string[] = [];
  const unknown = Object.keys(fields).filter((name) => !FIELDS.includes(name));
  for (const name of unknown.slice(0, PROBLEMS_MAX)) {
    problems.push(`unknown field ${quote(name)}${suggestion(name, FIELDS)}`);
  }
  const id = idIn(fields, "id", problems);
  const workflowId = idIn(fields, "workflow_id", problems);
  const timing = timingIn(fields, intervalMsMin, nowMs, problems);
  const jitterMs = msIn(fields, "jitter_ms", 0, JITTER_MS_MAX, problems);
  const catchUpMs = msIn(fields, "catch_up_ms", CATCH_UP_MS_DEFAULT, CATCH_UP_MS_MAX, problems);
  const { input = {}, overlap = "skip", paused } = fields;
  if (!OVERLAPS.includes(overlap as Overlap)) {
    problems.push(`\`overlap\` is one of ${OVERLAPS.map((name) => `\`${name}\``).join(", ")}`);
  }
  if (paused !== undefined && typeof paused !== "boolean") problems.push("`paused` is `true` or `false`");
  const badInput = inputProblem(input);
  if (badInput !== null) problems.push(badInput);
  if (timing && problems.length === 0) {
    const gapMs = shortestGap(timing, nowMs);
    if (gapMs < intervalMsMin) problems.push(tooOften(gapMs, intervalMsMin));
    // A slot would start after the next one is due.
    if (jitterMs > gapMs)
      problems.push(`\`jitter_ms\` is ${jitterMs}, but two slots are only ${formatDuration(gapMs)} apart`);
  }
  if (timing === null || problems.length > 0) return { kind: "bad", problems };
  const isPaused = paused as boolean | undefined;
  return {
    kind: "ok",
    spec: { id, workflowId, timing, input, overlap: overlap as Overlap, jitterMs, catchUpMs, isPaused },
  };
}

function idIn(fields: Readonly<Record<string, unknown>>, name: string, problems: string[]): string {
  const value = fields[name];
  if (typeof value === "string" && /^[A-Za-z0-9_.-]{1,64}$/.test(value)) return value;
  problems.push(
    value === undefined ? `\`${name}\` is missing` : `\`${name}\` has 1 to 64 of the characters \`A-Z a-z 0-9 _ . -\``,
  );
  return "";
}

function timingIn(
  { cron, every, time_zone }: Readonly<Record<string, unknown>>,
  intervalMsMin: number,
  nowMs: number,
  problems: string[],
): Timing | null {
  if ((cron === undefined) === (every === undefined)) {
    problems.push("a schedule has either `cron` or `every`");
    return null;
  }
  if (every !== undefined) {
    if (time_zone !== undefined)
      problems.push("`time_zone` applies to `cron` only; slots of `every` have no wall time");
    return everyIn(every, intervalMsMin, problems);
  }
  const timeZone = time_zone ?? "UTC";
  if (typeof cron !== "string") problems.push("`cron` is a text such as `30 2 * * 1-5`");
  const zoneProblem = typeof timeZone === "string" ? timeZoneProblem(timeZone) : "is a text such as `Europe/Berlin`";
  if (zoneProblem !== null) problems.push(`\`time_zone\` ${quote(String(timeZone))} ${zoneProblem}`);
  if (typeof cron !== "string" || typeof timeZone !== "string" || zoneProblem !== null) return null;
  try {
    if (cronTimes(cron, timeZone).next(nowMs) === null) {
      problems.push(`\`cron\` ${quote(cron)} matches no date; check day of month and month`);
      return null;
    }
    return { kind: "cron", cron, timeZone };
  } catch (error) {
    problems.push(`\`cron\` ${quote(cron)}: ${(error as Error).message}`);
    return null;
  }
}

function everyIn(every: unknown, msMin: number, problems: string[]): Timing | null {
  if (typeof every !== "string") {
    problems.push("`every` is a duration such as `15m`");
    return null;
  }
  try {
    return { kind: "every", everyMs: parseDuration(every, { msMin, msMax: EVERY_MS_MAX }) };
  } catch (error) {
    problems.push(`\`every\`: ${(error as Error).message}`);
    return null;
  }
}

function msIn(
  fields: Readonly<Record<string, unknown>>,
  name: string,
  otherwise: number,
  max: number,
  problems: string[],
): number {
  const value = fields[name] ?? otherwise;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= max) return value;
  problems.push(`\`${name}\` is a whole number of milliseconds from 0 to ${max}`);
  return otherwise;
}

function inputProblem(input: unknown): string | null {
  const badNumber = nonFiniteIn(input, "input");
  if (badNumber !== null) return `\`${badNumber}\` is not a number that JSON can hold`;
  if (fitsWithin(input, INPUT_BYTES_MAX)) return null;
  const text = JSON.stringify(input) ?? "null";
  const bytes = new TextEncoder().encode(text).length;
  if (bytes > INPUT_BYTES_MAX) return `\`input\` has ${bytes} bytes; the limit is ${INPUT_BYTES_MAX}`;
  return isTooDeep(text, INPUT_DEPTH_MAX) ? `\`input\` is nested deeper than ${INPUT_DEPTH_MAX} levels` : null;
}

const tooOften = (gapMs: number, minMs: number): string =>
  `two slots are ${formatDuration(gapMs)} apart; \`limits.schedule_interval_min_ms\` is ${minMs}`;

/** Among the next slots. */
function shortestGap(timing: Timing, nowMs: number): number {
  if (timing.kind === "every") return timing.everyMs;
  let shortest = Number.POSITIVE_INFINITY;
  let slotMs = slotAfter(timing, nowMs);
  for (let seen = 0; seen < GAPS_SEEN && slotMs !== null; seen++) {
    const next = slotAfter(timing, slotMs);
    if (next !== null) shortest = Math.min(shortest, next - slotMs);
    slotMs = next;
  }
  return shortest;
}

interface Applying {
  readonly org: string;
  readonly uid: string;
  readonly submittedBy: string | null;
  readonly caller: Caller | undefined;
  readonly nowMs: number;
}

/** The record after an apply; null if nothing changes. A schedule that keeps its timing keeps its slots. */
export function applySpec(before: Schedule | null, spec: ScheduleSpec, applying: Applying): Schedule | null {
  const { org, uid, submittedBy, caller, nowMs } = applying;
  const { timing, isPaused = before?.isPaused ?? false, ...fields } = spec;
  if (before === null) {
    const made = { ...fields, isPaused, org, uid, timing, submittedBy, ...(caller && { caller }), ...EMPTY };
    const nextMs = slotAfter(timing, nowMs);
    return withDue({ ...made, createdMs: nowMs, updatedMs: nowMs, handledMs: 0, nextMs });
  }
  const { caller: _, ...known } = before;
  const after = { ...known, ...fields, timing };
  if (isPaused === before.isPaused && isSame(before, after)) return null;
  const changed = { ...after, submittedBy, ...(caller && { caller }), updatedMs: nowMs };
  const isRetimed = JSON.stringify(timing) !== JSON.stringify(before.timing);
  const nextMs = isRetimed ? slotAfter(timing, Math.max(nowMs, before.handledMs)) : before.nextMs;
  const paused = setPaused({ ...changed, nextMs }, isPaused, nowMs);
  return paused ?? withDue({ ...changed, nextMs });
}

function isSame(before: Schedule, after: Omit<Schedule, "caller">): boolean {
  const text = ({ workflowId, timing, input, overlap, jitterMs, catchUpMs }: Omit<Schedule, "caller">) =>
    JSON.stringify([workflowId, timing, input, overlap, jitterMs, catchUpMs]);
  return text(before) === text(after);
}

/** Null if it is in that state. Slots during a pause are not started later. */
export function setPaused(schedule: Schedule, isPaused: boolean, nowMs: number): Schedule | null {
  if (schedule.isPaused === isPaused) return null;
  const { queuedMs, checkMs: _, wait: __, ...rest } = schedule;
  if (!isPaused) {
    const nextMs = slotAfter(schedule.timing, Math.max(nowMs, schedule.handledMs));
    return withDue({ ...rest, isPaused, nextMs, updatedMs: nowMs });
  }
  if (queuedMs === undefined) return withDue({ ...rest, isPaused, updatedMs: nowMs });
  const { counts } = schedule;
  return withDue({
    ...rest,
    isPaused,
    updatedMs: nowMs,
    counts: { ...counts, skipped: counts.skipped + 1 },
    leftOut: { kind: "skipped", slotMs: queuedMs, atMs: nowMs, why: "paused while it was queued" },
  });
}

export interface BackfillRequest {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly paceMs: number;
  readonly by: string;
}

export type CheckedBackfill =
  | { readonly kind: "ok"; readonly next: Schedule; readonly slots: number }
  | { readonly kind: "bad"; readonly why: string };

/** The range includes both ends. */
export function startBackfill(
  schedule: Schedule,
  { fromMs, untilMs, paceMs, by }: BackfillRequest,
  nowMs: number,
): CheckedBackfill {
  if (!(fromMs <= untilMs)) return { kind: "bad", why: "`from` is after `until`" };
  if (untilMs > nowMs) return { kind: "bad", why: "`until` is in the future; a backfill starts past slots" };
  const first = slotAfter(schedule.timing, fromMs - 1);
  let slots = 0;
  for (let slot = first; slot !== null && slot <= untilMs; slot = slotAfter(schedule.timing, slot)) {
    slots += 1;
    if (slots > BACKFILL_SLOTS_MAX)
      return { kind: "bad", why: `the range has more than ${BACKFILL_SLOTS_MAX} slots; backfill a shorter one` };
  }
  if (slots === 0) return { kind: "bad", why: "no slot of the schedule is in the range" };
  const counts = { slots, started: 0, existing: 0, failed: 0 };
  const backfill = { nextMs: first, untilMs, paceMs, by, ...counts, dueMs: nowMs };
  return { kind: "ok", slots, next: withDue({ ...schedule, backfill }) };
}

const EMPTY = {
  open: [],
  starts: [],
  counts: { started: 0, skipped: 0, missed: 0, failed: 0 },
} as const satisfies Partial<Schedule>;
const FIELDS: readonly string[] = [
  ...["id", "workflow_id", "cron", "every", "time_zone", "input", "overlap"],
  ...["jitter_ms", "catch_up_ms", "paused"],
];
const DAY_MS = 86_400_000;
export const JITTER_MS_MAX = DAY_MS;
export const CATCH_UP_MS_DEFAULT = 3_600_000;
export const CATCH_UP_MS_MAX = 30 * DAY_MS;
const EVERY_MS_MAX = 366 * DAY_MS;
export const INPUT_BYTES_MAX = 32 * 1024;
const INPUT_DEPTH_MAX = 64;
const GAPS_SEEN = 100;
const PROBLEMS_MAX = 10;
export const BACKFILL_SLOTS_MAX = 1_000;
