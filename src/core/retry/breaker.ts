import type { Placement, Table } from "../model/table.ts";

/**
 * When to stop asking somebody who does not answer, and how to find out that he is back.
 *
 * 1. Closed: everybody asks. So many failures in a row open it; a call that ran out of time is one of them (L27). One
 *    success begins the count anew.
 * 2. Open: nobody asks, until its time is over. That time is spread by a half either way, and doubles with each opening
 *    in a row up to `OPEN_GROWTH_MAX` times the setting.
 * 3. Half open: at most `probes` calls are under way (L28). The first that is answered closes it, the first that fails
 *    opens it again. A probe of which nothing is heard for `probeMs` does not count any more: its process has died.
 * 4. Only a probe decides about a breaker that is not closed: news of calls that began before are old.
 * 5. No clock can hold it open: a time that lies further ahead than any opening lasts counts as over.
 */
export type Breaker =
  | { readonly kind: "closed"; readonly failures: number }
  | { readonly kind: "open"; readonly untilMs: number; readonly openings: number; readonly reason: string }
  | {
      readonly kind: "half_open";
      readonly openings: number;
      readonly probes: readonly Probe[];
      readonly reason: string;
    };

export interface Probe {
  readonly id: string;
  readonly untilMs: number;
}

export type BreakerEvent =
  /** Somebody wants to try whether it is back. */
  | { readonly kind: "claimed"; readonly probe: string }
  /** A call was answered; `probe` null for one that was made while it was closed. */
  | { readonly kind: "succeeded"; readonly probe: string | null }
  | { readonly kind: "failed"; readonly probe: string | null; readonly reason: string }
  /** The call was not made, or says nothing about who was called. */
  | { readonly kind: "released"; readonly probe: string };

export interface BreakerRule {
  readonly failures: number;
  readonly openMs: number;
  readonly probes: number;
  /** How long a probe may be under way. */
  readonly probeMs: number;
}

export interface BreakerContext {
  readonly nowMs: number;
  readonly random: () => number;
  readonly rule: BreakerRule;
}

export const CLOSED: Breaker = Object.freeze({ kind: "closed", failures: 0 });

/**
 * The longest that it stays open, as a multiple of the setting and before the spread. Not more: a kernel that is back
 * waits for the next probe, and so does every job.
 */
export const OPEN_GROWTH_MAX = 2;

/** What somebody who would like to call may do: call, claim a probe first, or let it be. */
export function permission(
  breaker: Breaker,
  { nowMs, rule }: Omit<BreakerContext, "random">,
): "call" | "probe" | "wait" {
  switch (breaker.kind) {
    case "closed":
      return "call";
    case "open":
      return isOver(breaker.untilMs, nowMs, openMsMax(rule)) ? "probe" : "wait";
    case "half_open":
      return underWay(breaker.probes, nowMs, rule).length < rule.probes ? "probe" : "wait";
    default:
      return breaker satisfies never;
  }
}

/** The breaker after the news; the same object when they change nothing. */
export function stepBreaker(breaker: Breaker, event: BreakerEvent, context: BreakerContext): Breaker {
  switch (event.kind) {
    case "claimed":
      return claim(breaker, event.probe, context);
    case "succeeded":
      if (breaker.kind === "closed") return breaker.failures === 0 ? breaker : CLOSED;
      return isProbeOf(breaker, event.probe) ? CLOSED : breaker;
    case "failed":
      return fail(breaker, event.probe, event.reason, context);
    case "released":
      if (breaker.kind !== "half_open" || !isProbeOf(breaker, event.probe)) return breaker;
      return { ...breaker, probes: breaker.probes.filter(({ id }) => id !== event.probe) };
    default:
      return event satisfies never;
  }
}

/** The interval from which the duration of an opening is drawn. */
export function openInterval(rule: BreakerRule, openings: number): { readonly loMs: number; readonly hiMs: number } {
  const growth = Math.min(2 ** Math.min(Math.max(openings, 1) - 1, 30), OPEN_GROWTH_MAX);
  return { loMs: (rule.openMs * growth) / 2, hiMs: (rule.openMs * growth * 3) / 2 };
}

function claim(breaker: Breaker, probe: string, context: BreakerContext): Breaker {
  if (breaker.kind === "closed" || permission(breaker, context) !== "probe") return breaker;
  const before = breaker.kind === "half_open" ? underWay(breaker.probes, context.nowMs, context.rule) : [];
  const { openings, reason } = breaker;
  const own = { id: probe, untilMs: context.nowMs + context.rule.probeMs };
  return { kind: "half_open", openings, reason, probes: [...before, own] };
}

function fail(breaker: Breaker, probe: string | null, reason: string, context: BreakerContext): Breaker {
  if (breaker.kind === "closed") {
    const failures = breaker.failures + 1;
    return failures >= context.rule.failures ? opened(1, reason, context) : { kind: "closed", failures };
  }
  return isProbeOf(breaker, probe) ? opened(breaker.openings + 1, reason, context) : breaker;
}

function opened(openings: number, reason: string, { nowMs, random, rule }: BreakerContext): Breaker {
  const { loMs, hiMs } = openInterval(rule, openings);
  return { kind: "open", untilMs: Math.ceil(nowMs + loMs + random() * (hiMs - loMs)), openings, reason };
}

function isProbeOf(breaker: Breaker, probe: string | null): boolean {
  return breaker.kind === "half_open" && breaker.probes.some(({ id }) => id === probe);
}

function underWay(probes: readonly Probe[], nowMs: number, rule: BreakerRule): readonly Probe[] {
  return probes.filter(({ untilMs }) => !isOver(untilMs, nowMs, rule.probeMs));
}

/** Twice what it can be: clocks differ a little, and settings change. */
function isOver(untilMs: number, nowMs: number, lastsMsMax: number): boolean {
  return nowMs >= untilMs || untilMs - nowMs > 2 * lastsMsMax;
}

const openMsMax = (rule: BreakerRule): number => openInterval(rule, Number.MAX_SAFE_INTEGER).hiMs;

/**
 * The circuit breaker of the safety kernel, shared by all processes. The record is written when the state or the probes
 * change; failures of a closed breaker are counted per process.
 */
export const BREAKERS: Table<Breaker> = {
  name: "breaker",
  placement: (): Placement => ({ lists: [], queue: null, counters: [], dueMs: null }),
};

export const SAFETY_BREAKER = "safety";

/** Values of `cordum_safety_breaker_state`. */
export const BREAKER_LEVEL: Readonly<Record<Breaker["kind"], number>> = { closed: 0, half_open: 1, open: 2 };
