import type { Quantiles } from "../rollout/rollout.ts";
import type { Replayed, Window } from "./replay-options.ts";
import type { ContentionTrace } from "./trace.ts";

/** Figures of recorded or replayed acquisitions. Sampled keys count with their weight. */
export interface ContentionFigures {
  readonly acquisitions: number;
  /** Failed attempts. */
  readonly busyRetries: number;
  readonly attemptsPerAcquisition: number;
  /** Share of the retried acquisitions that needed one retry; null if none was retried. */
  readonly firstRetrySuccess: number | null;
  readonly waitMs: Quantiles;
  readonly latencyMs: Quantiles;
  /** Duration of busy periods with two or more acquisitions: from the first arrival to the last commit. */
  readonly drainMs: { readonly p50: number; readonly p95: number; readonly max: number };
  /** Dead letters, and requests that were refused after their wait. */
  readonly refused: number;
}

export type Outcomes = Pick<Replayed, "waitMs" | "latencyMs" | "attempts" | "isRefused">;

/** What was recorded, in the form of a replay. */
export function recordedOutcomes({ waitMs, holdMs, attempts, isRefused }: ContentionTrace): Outcomes {
  return { waitMs, latencyMs: waitMs.map((ms, at) => ms + holdMs[at]!), attempts, isRefused };
}

export function figuresOf(trace: ContentionTrace, outcomes: Outcomes): ContentionFigures {
  const { size, weight } = trace;
  const { attempts, isRefused } = outcomes;
  const sums = { acquisitions: 0, attempts: 0, retried: 0, firstRetries: 0, refused: 0 };
  for (let at = 0; at < size; at++) {
    const count = weight[at]!;
    sums.acquisitions += count;
    sums.attempts += count * attempts[at]!;
    sums.refused += count * isRefused[at]!;
    if (attempts[at]! < 2) continue;
    sums.retried += count;
    if (attempts[at] === 2 && isRefused[at] === 0) sums.firstRetries += count;
  }
  const drains = drainsOf(trace, outcomes);
  const quantile = weightedQuantiles(drains.ms, drains.weights);
  return {
    acquisitions: sums.acquisitions,
    busyRetries: sums.attempts - sums.acquisitions,
    attemptsPerAcquisition: sums.acquisitions === 0 ? 0 : sums.attempts / sums.acquisitions,
    firstRetrySuccess: sums.retried === 0 ? null : sums.firstRetries / sums.retried,
    waitMs: quantilesOf(outcomes.waitMs, weight),
    latencyMs: quantilesOf(outcomes.latencyMs, weight),
    drainMs: { p50: quantile(0.5), p95: quantile(0.95), max: quantile(1) },
    refused: sums.refused,
  };
}

function quantilesOf(values: Float64Array, weights: Float64Array): Quantiles {
  const quantile = weightedQuantiles(values, weights);
  return { p50: quantile(0.5), p95: quantile(0.95), p99: quantile(0.99) };
}

/** The least value that at least this share of the weight does not exceed; 0 without values. */
export function weightedQuantiles(values: Float64Array, weights: Float64Array): (share: number) => number {
  const order = Array.from({ length: values.length }, (_, at) => at).sort((a, b) => values[a]! - values[b]!);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return (share) => {
    let sum = 0;
    for (const at of order) {
      sum += weights[at]!;
      if (sum >= share * total - ROUNDING) return values[at]!;
    }
    return values[order.at(-1) ?? -1] ?? 0;
  };
}

/** Busy periods by key. The trace is in order of arrival. */
function drainsOf(
  { size, keys, key, arrivedMs, weight }: ContentionTrace,
  { latencyMs }: Outcomes,
): { readonly ms: Float64Array; readonly weights: Float64Array } {
  const [fromMs, untilMs] = [new Float64Array(keys), new Float64Array(keys).fill(Number.NEGATIVE_INFINITY)];
  const [count, weights] = [new Int32Array(keys), new Float64Array(keys)];
  const [drains, drainWeights]: [number[], number[]] = [[], []];
  const close = (at: number): void => {
    if (count[at]! < 2) return;
    drains.push(untilMs[at]! - fromMs[at]!);
    drainWeights.push(weights[at]!);
  };
  for (let at = 0; at < size; at++) {
    const index = key[at]!;
    const doneMs = arrivedMs[at]! + latencyMs[at]!;
    if (arrivedMs[at]! > untilMs[index]!) {
      close(index);
      fromMs[index] = arrivedMs[at]!;
      count[index] = 0;
      weights[index] = 0;
    }
    count[index]! += 1;
    weights[index] = Math.max(weights[index]!, weight[at]!);
    untilMs[index] = Math.max(untilMs[index]!, doneMs);
  }
  for (let at = 0; at < keys; at++) close(at);
  return { ms: Float64Array.from(drains), weights: Float64Array.from(drainWeights) };
}

/** The window with the most first attempts in its first second, for the chart of arrivals. */
export function busiestWindow({ arrivedMs, size }: ContentionTrace, binMs: number, bins: number): Window {
  let [first, most, fromMs] = [0, 0, 0];
  for (let at = 0; at < size; at++) {
    while (arrivedMs[at]! - arrivedMs[first]! >= BURST_MS) first += 1;
    if (at - first + 1 <= most) continue;
    most = at - first + 1;
    fromMs = arrivedMs[first]!;
  }
  return { fromMs, binMs, bins };
}

const ROUNDING = 1e-9;
const BURST_MS = 1_000;
