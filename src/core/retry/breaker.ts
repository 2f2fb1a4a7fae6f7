/**
 * Circuit breaker.
 *
 * 1. Closed: calls pass. `failures` consecutive failures open it; timeouts count (L27). A success resets the count.
 * 2. Open: calls are blocked for a jittered time (±50 %), which doubles with each consecutive opening up to
 *    `OPEN_GROWTH_MAX`.
 * 3. Half open: at most `probes` calls are in flight (L28). The first success closes it, the first failure opens it
 *    again. A probe without a result after `probeMs` no longer counts: its process has crashed.
 * 4. Only probes change a breaker that is not closed. Results of earlier calls are ignored.
 * 5. Clock jumps cannot keep it open: an end further ahead than any opening lasts counts as passed.
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
  /** A process requests a probe. */
  | { readonly kind: "claimed"; readonly probe: string }
  /** `probe` is null for calls made while closed. */
  | { readonly kind: "succeeded"; readonly probe: string | null }
  | { readonly kind: "failed"; readonly probe: string | null; readonly reason: string }
  /** The probe was not sent, or its result says nothing about the callee. */
  | { readonly kind: "released"; readonly probe: string };

export interface BreakerRule {
  readonly failures: number;
  readonly openMs: number;
  readonly probes: number;
  /** Timeout of a probe. */
  readonly probeMs: number;
}

export interface BreakerContext {
  readonly nowMs: number;
  readonly random: () => number;
  readonly rule: BreakerRule;
}

export const CLOSED: Breaker = Object.freeze({ kind: "closed", failures: 0 });

/**
 * Maximum growth of the open time, before jitter. Kept low because every job waits for the next probe after a recovery.
 */
export const OPEN_GROWTH_MAX = 2;

/** Whether a caller may call, must claim a probe first, or has to wait. */
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
      return inFlight(breaker.probes, nowMs, rule).length < rule.probes ? "probe" : "wait";
    default:
      return breaker satisfies never;
  }
}

/** Returns the same object if the event changes nothing. */
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

/** The interval from which the open time is drawn. */
export function openInterval(rule: BreakerRule, openings: number): { readonly loMs: number; readonly hiMs: number } {
  const growth = Math.min(2 ** Math.min(Math.max(openings, 1) - 1, 30), OPEN_GROWTH_MAX);
  return { loMs: (rule.openMs * growth) / 2, hiMs: (rule.openMs * growth * 3) / 2 };
}

function claim(breaker: Breaker, probe: string, context: BreakerContext): Breaker {
  if (breaker.kind === "closed" || permission(breaker, context) !== "probe") return breaker;
  const before = breaker.kind === "half_open" ? inFlight(breaker.probes, context.nowMs, context.rule) : [];
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

function inFlight(probes: readonly Probe[], nowMs: number, rule: BreakerRule): readonly Probe[] {
  return probes.filter(({ untilMs }) => !isOver(untilMs, nowMs, rule.probeMs));
}

/** Twice the maximum, to allow for clock skew and changed settings. */
function isOver(untilMs: number, nowMs: number, lastsMsMax: number): boolean {
  return nowMs >= untilMs || untilMs - nowMs > 2 * lastsMsMax;
}

const openMsMax = (rule: BreakerRule): number => openInterval(rule, Number.MAX_SAFE_INTEGER).hiMs;
