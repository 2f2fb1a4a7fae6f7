/**
 * Applies the limits of a decision to the counts of their windows.
 *
 * 1. The limits are applied in the order of their rules. The first that is exceeded decides; without one, the decision
 *    of the kernel stands.
 * 2. A job counts once for each limit, however often it is checked. A job that is denied does not count.
 * 3. A job beyond a rate gets the next free slot, and waits for it. Limits of later rules are applied when it has come.
 * 4. The result is valid only if the windows are unchanged when it is stored.
 */
import { formatDuration } from "../../retry/duration.ts";
import type { Decision } from "../decision.ts";
import type { Limit } from "./limit.ts";
import { ENTRIES_MAX, insert, inWindow, merged, roomAt, totalOf, type WindowEntry, withoutFuture } from "./window.ts";

/** A limit that a job counts for, on the job. */
export interface Counted {
  readonly id: string;
  /** When the job counts, or its slot. */
  readonly atMs: number;
}

export interface LimitContext {
  readonly nowMs: number;
  /** No slot is given beyond it. */
  readonly deadlineMs: number;
  readonly counted: readonly Counted[];
  /** The windows by id. */
  readonly windows: ReadonlyMap<string, readonly WindowEntry[]>;
  readonly idOf: (limit: Limit) => string;
  readonly random: () => number;
}

export interface Applied {
  /** Without limits. */
  readonly decision: Decision;
  readonly counted: readonly Counted[];
  /** The windows in which the job newly counts. */
  readonly charges: readonly Charge[];
}

export interface Charge {
  readonly limit: Limit;
  readonly id: string;
  readonly entries: readonly WindowEntry[];
}

export function applyLimits(given: Decision, context: LimitContext): Applied {
  const { nowMs, deadlineMs } = context;
  const counted = [...context.counted];
  const charges: Charge[] = [];
  const applied = (decision: Decision): Applied =>
    decision.effect === "deny" ? { decision, counted: context.counted, charges: [] } : { decision, counted, charges };
  for (const limit of given.limits ?? []) {
    const id = context.idOf(limit);
    const entries = countingNow(limit, context.windows.get(id) ?? [], nowMs);
    const own = context.counted.find((entry) => entry.id === id);
    if (own !== undefined) {
      if (own.atMs <= nowMs) continue;
      return applied(waiting(limit, totalOf(entries), own.atMs));
    }
    const atMs = roomAt(entries, limit, limit.amount, nowMs);
    const isSlot = limit.kind === "throttle" && atMs > nowMs && atMs < deadlineMs && entries.length < ENTRIES_MAX;
    if (atMs === nowMs || isSlot) {
      counted.push({ id, atMs });
      charges.push({ limit, id, entries: compacted(insert(entries, { atMs, amount: limit.amount }), limit) });
    }
    if (atMs === nowMs) continue;
    const used = totalOf(entries) + limit.amount;
    const untilMs = isSlot ? atMs : nextTryMs(entries, atMs, context);
    return applied(limit.kind === "throttle" ? waiting(limit, used, untilMs) : beyond(limit, used, atMs));
  }
  return applied(withoutLimits(given));
}

export function withoutLimits(decision: Decision): Decision {
  if (decision.limits === undefined) return decision;
  const { limits: _, ...rest } = decision;
  return rest;
}

/**
 * The decision about a job whose limits were applied before, by the same policy: a limit that decided then still does,
 * whatever its count is now.
 */
export function decisionOnRecord(given: Decision, recorded: Decision | null): Decision {
  const isSame = recorded !== null && recorded.snapshot === given.snapshot;
  const limit = isSame ? given.limits?.find(({ ruleId }) => ruleId === recorded.ruleId) : undefined;
  return limit === undefined ? withoutLimits(given) : limit.exceeded;
}

/** All slots are given: the job tries again after the last, spread over the same time. */
function nextTryMs(entries: readonly WindowEntry[], atMs: number, { nowMs, random }: LimitContext): number {
  const lastMs = Math.max(atMs, entries.at(-1)?.atMs ?? nowMs);
  return Math.ceil(lastMs + random() * (lastMs - nowMs));
}

/** The use of a limit by others, for explanations. */
export function usedOf(limit: Limit, entries: readonly WindowEntry[], nowMs: number): number {
  return totalOf(countingNow(limit, entries, nowMs));
}

function countingNow(limit: Limit, entries: readonly WindowEntry[], nowMs: number): readonly WindowEntry[] {
  const counting = inWindow(entries, limit, nowMs);
  return limit.kind === "throttle" ? counting : withoutFuture(counting, limit, nowMs);
}

function compacted(entries: readonly WindowEntry[], { kind, withinMs }: Limit): readonly WindowEntry[] {
  return kind === "velocity" && entries.length > ENTRIES_MAX ? merged(entries, withinMs) : entries;
}

function waiting({ exceeded, ...limit }: Limit, used: number, untilMs: number): Decision {
  return {
    ...exceeded,
    untilMs,
    reason: `${exceeded.reason} (${useText(limit, used)}, next slot ${timeText(untilMs)})`,
  };
}

function beyond({ exceeded, ...limit }: Limit, used: number, roomMs: number): Decision {
  const room = Number.isFinite(roomMs) ? `room at ${timeText(roomMs)}` : "above the limit on its own";
  return { ...exceeded, reason: `${exceeded.reason} (${useText(limit, used)}, ${room})` };
}

type Measured = Pick<Limit, "max" | "withinMs">;

export function useText({ max, withinMs }: Measured, used: number): string {
  return `${numberText(used)} of ${numberText(max)} in the last ${spanText(withinMs)}`;
}

const numberText = (value: number): string => String(Math.round(value * 1e6) / 1e6);

function spanText(ms: number): string {
  const [, count = "", unit = ""] = /^(\d+)([a-z]+)$/.exec(formatDuration(ms)) ?? [];
  return `${count} ${unit === "m" ? "min" : unit}`;
}

/** UTC. */
const timeText = (ms: number): string => {
  const text = new Date(Math.min(ms, MS_MAX)).toISOString();
  return text.slice(11, 19);
};
const MS_MAX = 8.64e15;
