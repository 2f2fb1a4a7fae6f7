/**
 * A sliding window: the times at which one limit was used, ascending.
 *
 * 1. Any span of the limit's duration contains at most `max`: entries, or the sum of their amounts. There are no fixed
 *    windows, so no boundary admits twice the limit.
 * 2. The slots of a rate are entries in the future: each waiting job has its own.
 * 3. A window has at most `ENTRIES_MAX` entries. Beyond that, those of a velocity limit are merged into 512 steps of its
 *    duration, each at the end of its step: the limit then admits less, never more.
 */
import type { Placement, Table } from "../../model/table.ts";

export interface WindowEntry {
  readonly atMs: number;
  readonly amount: number;
}

export interface WindowLimit {
  readonly max: number;
  readonly withinMs: number;
}

/** Twice the highest rate: one duration that has passed, and one of slots. */
export const ENTRIES_MAX = 2_048;

/** The entries that still count. */
export function inWindow(
  entries: readonly WindowEntry[],
  { withinMs }: WindowLimit,
  nowMs: number,
): readonly WindowEntry[] {
  return entries.filter(({ atMs }) => atMs > nowMs - withinMs);
}

/**
 * For windows without slots: an entry beyond the next duration was written by a clock that has been corrected since. It
 * counts as used now, so that it blocks no longer than any other.
 */
export function withoutFuture(
  entries: readonly WindowEntry[],
  { withinMs }: WindowLimit,
  nowMs: number,
): readonly WindowEntry[] {
  if ((entries.at(-1)?.atMs ?? 0) <= nowMs + withinMs) return entries;
  return entries
    .map((entry) => (entry.atMs > nowMs + withinMs ? { ...entry, atMs: nowMs } : entry))
    .sort((a, b) => a.atMs - b.atMs);
}

export function totalOf(entries: readonly WindowEntry[]): number {
  return entries.reduce((sum, { amount }) => sum + amount, 0);
}

/** The earliest time, from now, at which `amount` has room; infinite if it exceeds the limit on its own. */
export function roomAt(
  entries: readonly WindowEntry[],
  { max, withinMs }: WindowLimit,
  amount: number,
  nowMs: number,
): number {
  const room = max * (1 + ROUNDING) - amount;
  if (room < 0) return Number.POSITIVE_INFINITY;
  const sums = runningSums(entries);
  let atMs = nowMs;
  for (;;) {
    const laterMs = nextTry(entries, sums, room, withinMs, atMs);
    if (laterMs === null) return atMs;
    atMs = laterMs;
  }
}

/**
 * Null if there is room at `atMs`. The spans to check begin at `atMs`, and at each entry less than a duration before:
 * every other span that contains `atMs` is part of one of them.
 */
function nextTry(
  entries: readonly WindowEntry[],
  sums: readonly number[],
  room: number,
  withinMs: number,
  atMs: number,
): number | null {
  let end = entries.length;
  for (let first = entries.length - 1; first >= 0; first--) {
    const fromMs = entries[first]?.atMs ?? 0;
    if (fromMs > atMs) continue;
    if (fromMs <= atMs - withinMs) break;
    while (end > 0 && (entries[end - 1]?.atMs ?? 0) >= fromMs + withinMs) end -= 1;
    if ((sums[end] ?? 0) - (sums[first] ?? 0) > room) return fromMs + withinMs;
  }
  const next = entries.findIndex((entry) => entry.atMs > atMs);
  if (next === -1) return null;
  let last = next;
  while (last < entries.length && (entries[last]?.atMs ?? 0) < atMs + withinMs) last += 1;
  return (sums[last] ?? 0) - (sums[next] ?? 0) > room ? (entries[next]?.atMs ?? null) : null;
}

/** The sum of the entries before each index. */
function runningSums(entries: readonly WindowEntry[]): readonly number[] {
  const sums = [0];
  for (const { amount } of entries) sums.push((sums.at(-1) ?? 0) + amount);
  return sums;
}

export function insert(entries: readonly WindowEntry[], entry: WindowEntry): readonly WindowEntry[] {
  const at = entries.findLastIndex(({ atMs }) => atMs <= entry.atMs) + 1;
  return [...entries.slice(0, at), entry, ...entries.slice(at)];
}

/** Merges the entries of each step into one at its end. */
export function merged(entries: readonly WindowEntry[], withinMs: number): readonly WindowEntry[] {
  const stepMs = Math.ceil(withinMs / STEPS);
  const found: { atMs: number; amount: number }[] = [];
  for (const { atMs, amount } of entries) {
    const endMs = Math.ceil(atMs / stepMs) * stepMs;
    const last = found.at(-1);
    if (last !== undefined && last.atMs === endMs) last.amount += amount;
    else found.push({ atMs: endMs, amount });
  }
  return found;
}

const STEPS = 512;
/** Sums of decimal fractions: 0.1 + 0.2 fits into 0.3. */
export const ROUNDING = 1e-9;

/** The stored form: times as differences, amounts only if one of them is not 1. */
export interface StoredWindow {
  readonly org: string;
  readonly ruleId: string;
  /** The last entry stops counting; the record is removed. */
  readonly dueMs: number;
  readonly times: readonly number[];
  readonly amounts?: readonly number[];
}

export function toStored(
  entries: readonly WindowEntry[],
  { org, ruleId, withinMs }: { readonly org: string; readonly ruleId: string; readonly withinMs: number },
): StoredWindow {
  let previous = 0;
  const times = entries.map(({ atMs }) => {
    const difference = atMs - previous;
    previous = atMs;
    return difference;
  });
  const stored = { org, ruleId, dueMs: previous + withinMs, times };
  return entries.every(({ amount }) => amount === 1)
    ? stored
    : { ...stored, amounts: entries.map(({ amount }) => amount) };
}

export function entriesOf({ times, amounts }: StoredWindow): readonly WindowEntry[] {
  let atMs = 0;
  return times.map((difference, at) => {
    atMs += difference;
    return { atMs, amount: amounts?.[at] ?? 1 };
  });
}

/** Windows of a tenant, bounded by `limits.policy_keys_max`. */
export const windowsGroup = (org: string): string => `policy_windows/${org}`;
export const windowsOf = (org: string) => ({ group: windowsGroup(org), name: WINDOWS_COUNTER });
export const WINDOWS_COUNTER = "keys";

export const WINDOWS: Table<StoredWindow> = {
  name: "policy_window",
  placement: ({ org, dueMs }): Placement => ({ lists: [], queue: null, counters: [windowsOf(org)], dueMs }),
};
