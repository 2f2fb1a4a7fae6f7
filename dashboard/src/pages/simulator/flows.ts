/** Messages and lock holds on the axis of the timeline, whose unit is one entry of the history. */
import type { Simulation } from "../../../../src/client/schema.ts";
import { duration } from "../../kit/numbers.ts";
import { type Entry, idsOf, isAbout, type Violation } from "./history.ts";

export type Message = Simulation["messages"][number];
export type Hold = Simulation["holds"][number];

/** A message from its sending to its delivery or loss. */
export interface Arrow {
  readonly message: Message;
  readonly from: number;
  readonly to: number;
}

/** A lock hold. Holds of one row do not overlap. */
export interface Bar {
  readonly hold: Hold;
  readonly from: number;
  readonly to: number;
  readonly row: number;
}

/** The place of a time: 3.5 is half way from the fourth entry to the fifth. */
export function placeOf(trace: readonly Entry[], ms: number): number {
  let [low, high] = [0, trace.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((trace[middle]?.at_ms ?? 0) <= ms) low = middle + 1;
    else high = middle;
  }
  const [before, after] = [trace[low - 1], trace[low]];
  if (before === undefined || after === undefined) return low - 0.5;
  return low - 1 + Math.min(0.9, (ms - before.at_ms) / (after.at_ms - before.at_ms));
}

export function arrowsOf({ trace, messages }: Simulation): readonly Arrow[] {
  return messages.map((message) => {
    const from = placeOf(trace, message.sent_ms);
    if (message.entry !== null) return { message, from: Math.min(from, message.entry), to: message.entry };
    const to = message.ended_ms === null ? trace.length : placeOf(trace, message.ended_ms);
    return { message, from, to: Math.max(to, from + LOST_REACH) };
  });
}

/** A hold begins with the trace entry of its lock. */
export function barsOf({ trace, holds }: Simulation): readonly Bar[] {
  const entries = trace.flatMap(({ action, subject }, at) => (action === "lock" && subject !== "" ? [at] : []));
  /** The end of the last bar of each row, and its lock. */
  const rows: { to: number; key: string }[] = [];
  return holds.map((hold, at) => {
    const from = entries[at] ?? placeOf(trace, hold.from_ms);
    const to = Math.max(from + BAR_MIN, hold.to_ms === null ? trace.length : placeOf(trace, hold.to_ms));
    const isFree = (row: { readonly to: number } | undefined) => row !== undefined && row.to <= from;
    const same = rows.findIndex((row) => isFree(row) && row.key === hold.key);
    const free = same >= 0 ? same : rows.findIndex(isFree);
    const row = free >= 0 ? free : rows.length;
    rows[row] = { to, key: hold.key };
    return { hold, from, to, row };
  });
}

/** At most `max` of those that are partly in the window: the nearest to the cursor, in their order. */
export function nearest<T extends { readonly from: number; readonly to: number }>(
  all: readonly T[],
  { first, columns, at }: Window,
  max: number,
): readonly T[] {
  const shown = all.filter(({ from, to }) => to >= first - 0.5 && from <= first + columns);
  if (shown.length <= max) return shown;
  const distance = ({ from, to }: T) => Math.max(0, from - at, at - to);
  const kept = new Set(shown.toSorted((a, b) => distance(a) - distance(b)).slice(0, max));
  return shown.filter((one) => kept.has(one));
}

/** The entries that the timeline shows, and its cursor. */
export interface Window {
  readonly first: number;
  readonly columns: number;
  readonly at: number;
}

/** What the text of an entry does not contain: the sender of its message, the fence and the duration of its lock. */
export function notesOf(simulation: Simulation): ReadonlyMap<number, string> {
  const notes = new Map<number, string>();
  for (const { entry, from, sent_ms, ended_ms } of simulation.messages) {
    if (entry !== null) notes.set(entry, `from ${from}, after ${duration((ended_ms ?? sent_ms) - sent_ms)}`);
  }
  for (const { hold, from } of barsOf(simulation)) notes.set(from, `fence ${hold.fence}, ${heldText(hold)}`);
  return notes;
}

export function heldText({ from_ms, to_ms, expired }: Hold): string {
  if (to_ms === null) return "held until the end";
  return `${expired ? "expired" : "released"} after ${duration(to_ms - from_ms)}`;
}

/** `job:birch~job-10` of `cordum:scheduler:job:birch~job-10`. */
export const shortLock = (key: string): string => key.replace(/^cordum:(scheduler:|wf:)?/, "");

/** The last messages about the records of a violation that were lost before it. */
export function lostBefore({ trace, messages }: Simulation, violation: Violation): readonly Message[] {
  const ids = idsOf(trace, violation);
  const isLost = ({ lost, id: subject, sent_ms }: Message) =>
    lost !== null && sent_ms <= violation.at_ms && ids.some((id) => isAbout({ subject }, id));
  return messages.filter(isLost).slice(-LOST_MAX);
}

/** The shortest drawn length. */
const LOST_REACH = 1.2;
const BAR_MIN = 0.4;
const LOST_MAX = 5;
