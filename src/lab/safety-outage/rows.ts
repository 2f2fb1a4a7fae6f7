/** The rows of `cordum lab safety-outage`: what is set differently in each, and what is measured. */
import { settingsFrom } from "../../config/config.ts";
import { interval, parsePolicy } from "../../core/retry/policies.ts";
import type { Settings } from "../../core/settings.ts";
import type { Row } from "../experiment.ts";
import { spreadOf } from "../spread.ts";
import { binned, percentiles } from "../statistics.ts";
import { LEAD_MS } from "./report.ts";
import { type OutageHistory, type OutageOrder, runOutage, WINDOW_MS } from "./world.ts";

export interface RowWish extends Omit<OutageOrder, "settings"> {
  readonly policy: string;
  readonly hasBreaker: boolean;
  readonly binMs: number;
}

export async function outageRow(request: RowWish): Promise<Row> {
  const settings = settingsOf(request);
  const skippedMs = skippedOf(request);
  const leaseAfterMs = request.leaseAfterMs === null ? null : Math.max(0, request.leaseAfterMs - skippedMs);
  const history = await runOutage({ ...request, settings, leaseAfterMs, outageMs: request.outageMs - skippedMs });
  return {
    key: {
      load: request.load.kind,
      mode: request.leaseAfterMs === null ? "closed" : "lease",
      policy: request.policy,
      breaker: request.hasBreaker ? "on" : "off",
    },
    ...measured(history, request, skippedMs),
  };
}

export function settingsOf({ policy, hasBreaker }: Pick<RowWish, "policy" | "hasBreaker">): Settings {
  return settingsFrom({
    ...ROOM,
    "retry.safety_unavailable.policy": policy,
    ...(hasBreaker ? {} : { "safety.breaker.failures": NEVER }),
  });
}

/** What a history says, simulated or live. */
export function measured(
  history: OutageHistory,
  request: Pick<RowWish, "policy" | "binMs">,
  skippedMs: number,
): Omit<Row, "key"> {
  return { figures: figuresOf(history, request), series: seriesOf(history, request, skippedMs) };
}

/** Before a burst comes nobody asks anybody anything: that part of the outage need not be lived through. */
function skippedOf({ load, outageMs }: RowWish): number {
  return load.kind === "steady" ? 0 : Math.max(0, outageMs - load.waitedMs - IDLE_MS);
}

function figuresOf(history: OutageHistory, { policy }: Pick<RowWish, "policy">): Row["figures"] {
  const { kernel, lag, toMs, loadMs, triesAway } = history;
  const drainMs = lag.drainedMs === null ? null : lag.drainedMs - toMs;
  const away = kernel.asksMs.filter((atMs) => atMs < toMs);
  const awayS = (toMs - loadMs) / 1_000;
  const [peakPerS = 0] = binned(away, 1_000, loadMs).toSorted((a, b) => b - a);
  return {
    drain_ms: drainMs,
    left: lag.left,
    submitted: lag.submitted,
    waiting_max: Math.max(...lag.over(history.fromMs, history.endMs, LAG_POINTS)),
    pressure: {
      tries_per_s: triesAway / awayS,
      checks_per_s: away.length / awayS,
      checks_peak_per_s: peakPerS,
      // A try that asked the kernel has either failed or is still under way.
      refused_per_s: Math.max(0, triesAway - away.length) / awayS,
    },
    recovery_ms: kernel.backMs === null ? null : kernel.backMs - toMs,
    arrivals: kernel.backMs === null ? null : spreadOf(kernel.asksMs, kernel.backMs, windowOf(history, policy)),
    late_checks: kernel.late,
    wait_ms: percentiles(lag.waitsMs),
    bypassed: lag.bypassed,
  };
}

/**
 * 15 s, or less if it is all over before: but never less than the policy could have spread them over, or a herd that comes
 * all at once and is gone would look like an even stream of a second.
 */
function windowOf({ kernel, lag, endMs }: OutageHistory, policy: string): number {
  const longestMs = interval(parsePolicy(policy), Number.MAX_SAFE_INTEGER).hiMs;
  const drainedMs = (lag.drainedMs ?? endMs) - (kernel.backMs ?? endMs);
  return Math.min(WINDOW_MS, Math.max(longestMs, drainedMs));
}

function seriesOf(
  history: OutageHistory,
  { binMs }: Pick<RowWish, "binMs">,
  skippedMs: number,
): NonNullable<Row["series"]> {
  const { kernel, lag, fromMs, toMs, endMs } = history;
  const stepMs = (endMs - fromMs) / LAG_POINTS;
  const leadMs = Math.min(LEAD_MS, toMs - fromMs);
  const near = kernel.asksMs.filter((atMs) => atMs < toMs + WAVE_MS);
  return {
    lag: lag.over(fromMs, endMs, LAG_POINTS),
    lag_at_ms: Array.from({ length: LAG_POINTS + 1 }, (_, index) => skippedMs + index * stepMs),
    arrivals: binned(near, binMs, toMs - leadMs),
    waits_ms: thinned(lag.waitsMs),
  };
}

function thinned(values: readonly number[]): readonly number[] {
  const sorted = values.toSorted((a, b) => a - b);
  const every = Math.max(1, Math.ceil(sorted.length / SAMPLES_MAX));
  return sorted.filter((_, index) => index % every === 0);
}

/** Nothing but the kernel is to be waited for: no window, and no attempt that counts as lost. */
const ROOM = { "dispatch.window_max": 100_000, "dispatch.deadline_ms": 24 * 3_600_000 } as const;
const NEVER = 1_000_000_000;
/** The control planes have settled, and a lease that is open has been heard of. */
const IDLE_MS = 10_000;
const LAG_POINTS = 400;
const WAVE_MS = 300_000;
const SAMPLES_MAX = 500;
