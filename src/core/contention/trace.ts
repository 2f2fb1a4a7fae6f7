import { type Acquisition, CONTENTION_PATHS, type ContentionRecord, isSampled, LEVEL_MAX } from "./acquisition.ts";

/**
 * The recorded acquisitions of all processes, in order of their first attempt, as columns: a day has up to some hundred
 * thousand of them.
 *
 * 1. Within a minute all processes are reduced to the highest level of them, so that a key is there in whole. Each
 *    acquisition counts for `weight` of its level.
 * 2. The holder that blocked the first acquisition of a busy period met no contention itself and is often not recorded. It
 *    is added here (`impliedHolder`).
 */
export interface ContentionTrace {
  readonly size: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** First attempts, relative to `fromMs`. */
  readonly arrivedMs: Float64Array;
  readonly waitMs: Float64Array;
  readonly holdMs: Float64Array;
  readonly attempts: Int32Array;
  /** Index of the lock, from 0. */
  readonly key: Int32Array;
  readonly keys: number;
  /** Index of the process among those of its minute. */
  readonly process: Uint16Array;
  readonly processes: number;
  /** Index in `CONTENTION_PATHS`. */
  readonly path: Uint8Array;
  readonly isRefused: Uint8Array;
  readonly weight: Float64Array;
  readonly uncontended: number;
  readonly dropped: number;
  readonly costs: RecordedCosts;
  /** The settings of the latest record; null without records. */
  readonly inForce: ContentionRecord["inForce"] | null;
}

export interface RecordedCosts {
  /** Round trip of a lock request. */
  readonly lockMs: number;
  /** By how much a retry is later than its delay. */
  readonly returnMs: number;
  readonly nakTimerMs: number;
}

export function traceOf(records: readonly ContentionRecord[], sizeMax = Number.POSITIVE_INFINITY): ContentionTrace {
  const levels = levelsOf(records, sizeMax);
  const slots = slotsOf(records);
  const byKey = new Map<number, Entry[]>();
  for (const record of records) {
    const level = levels.get(minuteOf(record)) ?? record.level;
    const process = slots.get(slotKey(record)) ?? 0;
    for (const acquisition of record.acquisitions) {
      if (!isSampled(acquisition.key, level)) continue;
      const entry = { ...acquisition, process, weight: 2 ** level };
      const entries = byKey.get(acquisition.key);
      if (entries) entries.push(entry);
      else byKey.set(acquisition.key, [entry]);
    }
  }
  const all: (Entry & { index: number })[] = [];
  let index = 0;
  for (const entries of byKey.values()) {
    for (const entry of withHolders(entries)) all.push({ ...entry, index });
    index += 1;
  }
  all.sort((a, b) => a.arrivedMs - b.arrivedMs);
  return columnsOf(
    all,
    byKey.size,
    records,
    [...slots.values()].reduce((most, slot) => Math.max(most, slot + 1), 1),
  );
}

interface Entry extends Acquisition {
  readonly process: number;
  readonly weight: number;
}

/** (2) Per key: a busy period ends when all that arrived so far are done. */
function withHolders(entries: Entry[]): readonly Entry[] {
  // Clocks of processes differ a little: the holder may seem to arrive after the one that it blocked.
  const fromMs = ({ arrivedMs, wasBlocked }: Entry): number => (wasBlocked ? arrivedMs : arrivedMs - CLOCK_MS);
  entries.sort((a, b) => fromMs(a) - fromMs(b));
  const all: Entry[] = [];
  let untilMs = Number.NEGATIVE_INFINITY;
  for (const entry of entries) {
    if (entry.arrivedMs > untilMs && entry.wasBlocked) all.push(impliedHolder(entry, entries));
    all.push(entry);
    untilMs = Math.max(untilMs, entry.arrivedMs + entry.waitMs + entry.holdMs);
  }
  return all;
}

/** A waiter in the queue got the lock when the holder released it. One that retried later does not know when that was. */
function impliedHolder(blocked: Entry, entries: readonly Entry[]): Entry {
  const holdMs = blocked.attempts === 1 ? blocked.waitMs : medianHold(entries);
  return { ...blocked, waitMs: 0, holdMs, attempts: 1, wasBlocked: false, isRefused: false };
}

function medianHold(entries: readonly Entry[]): number {
  const holds = entries.filter(({ isRefused }) => !isRefused).map(({ holdMs }) => holdMs);
  return holds.sort((a, b) => a - b)[Math.floor(holds.length / 2)] ?? 0;
}

/**
 * (1) The level of each minute: the highest of its processes and of the minutes beside it, because a burst can cross the
 * boundary. Raised further until at most `sizeMax` acquisitions are left.
 */
function levelsOf(records: readonly ContentionRecord[], sizeMax: number): ReadonlyMap<number, number> {
  const own = new Map<number, number>();
  for (const record of records) {
    const minute = minuteOf(record);
    own.set(minute, Math.max(own.get(minute) ?? 0, record.level));
  }
  const beside = new Map<number, number>();
  for (const [minute, level] of own) {
    beside.set(minute, Math.max(level, own.get(minute - 1) ?? 0, own.get(minute + 1) ?? 0));
  }
  if (sizeMax === Number.POSITIVE_INFINITY) return beside;
  for (let extra = 0; ; extra++) {
    const levels = new Map([...beside].map(([minute, level]) => [minute, Math.min(level + extra, LEVEL_MAX)]));
    if (extra >= LEVEL_MAX || sizeAt(records, levels) <= sizeMax) return levels;
  }
}

function sizeAt(records: readonly ContentionRecord[], levels: ReadonlyMap<number, number>): number {
  let size = 0;
  for (const record of records) {
    const level = levels.get(minuteOf(record)) ?? 0;
    for (const { key } of record.acquisitions) size += Number(isSampled(key, level));
  }
  return size;
}

/** Processes of a minute are numbered, so that a trace over restarts has as many as run at a time. */
function slotsOf(records: readonly ContentionRecord[]): ReadonlyMap<string, number> {
  const counts = new Map<number, number>();
  const slots = new Map<string, number>();
  for (const record of records) {
    const key = slotKey(record);
    if (slots.has(key)) continue;
    const minute = minuteOf(record);
    const slot = counts.get(minute) ?? 0;
    counts.set(minute, slot + 1);
    slots.set(key, Math.min(slot, PROCESSES_MAX - 1));
  }
  return slots;
}

const minuteOf = ({ toMs }: ContentionRecord): number => Math.floor(toMs / MINUTE_MS);
const slotKey = (record: ContentionRecord): string => `${minuteOf(record)}/${record.process}`;

function columnsOf(
  all: readonly (Entry & { readonly index: number })[],
  keys: number,
  records: readonly ContentionRecord[],
  processes: number,
): ContentionTrace {
  const size = all.length;
  const fromMs = all[0]?.arrivedMs ?? records.reduce((least, record) => Math.min(least, record.fromMs), 0);
  const trace = {
    ...{ size, fromMs, keys, processes },
    toMs: records.reduce((most, { toMs }) => Math.max(most, toMs), fromMs),
    arrivedMs: new Float64Array(size),
    waitMs: new Float64Array(size),
    holdMs: new Float64Array(size),
    attempts: new Int32Array(size),
    key: new Int32Array(size),
    process: new Uint16Array(size),
    path: new Uint8Array(size),
    isRefused: new Uint8Array(size),
    weight: new Float64Array(size),
    uncontended: records.reduce((sum, { uncontended }) => sum + uncontended, 0),
    dropped: records.reduce((sum, { dropped }) => sum + dropped, 0),
    costs: costsOf(records),
    inForce: latest(records)?.inForce ?? null,
  };
  for (let at = 0; at < size; at++) {
    const entry = all[at]!;
    trace.arrivedMs[at] = entry.arrivedMs - fromMs;
    trace.waitMs[at] = entry.waitMs;
    trace.holdMs[at] = entry.holdMs;
    trace.attempts[at] = entry.attempts;
    trace.key[at] = entry.index;
    trace.process[at] = entry.process;
    trace.path[at] = CONTENTION_PATHS.indexOf(entry.path);
    trace.isRefused[at] = Number(entry.isRefused);
    trace.weight[at] = entry.weight;
  }
  return trace;
}

function costsOf(records: readonly ContentionRecord[]): RecordedCosts {
  const mean = (of: (record: ContentionRecord) => number | null): number | null => {
    let [sum, count] = [0, 0];
    for (const record of records) {
      const value = of(record);
      if (value === null) continue;
      sum += value * record.acquisitions.length;
      count += record.acquisitions.length;
    }
    return count === 0 ? null : sum / count;
  };
  const lockMs = mean((record) => record.lockMs) ?? 0;
  const nakTimerMs = latest(records)?.nakTimerMs ?? 0;
  const usualMs = TRIPS_PER_RETURN * lockMs;
  const returnMs = mean((record) => record.returnMs) ?? usualMs;
  // With a shared timer the measured lateness is mostly the timer, which the replay adds itself.
  return { lockMs, returnMs: nakTimerMs > 0 ? Math.min(returnMs, usualMs) : returnMs, nakTimerMs };
}

const latest = (records: readonly ContentionRecord[]): ContentionRecord | undefined =>
  records.reduce<ContentionRecord | undefined>((last, one) => (last && last.toMs >= one.toMs ? last : one), undefined);

const MINUTE_MS = 60_000;
const CLOCK_MS = 5;
/** Loads and commits of a retry, its nak and its delivery, in round trips. */
const TRIPS_PER_RETURN = 5;
const PROCESSES_MAX = 1_000;
