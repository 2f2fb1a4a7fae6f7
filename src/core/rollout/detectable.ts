/**
 * The smallest effect that a rollout detects, for display before it starts. No unit has been measured by then, so the figures
 * rest on assumptions about the control arm, named below; no decision uses them.
 */
import { RATES } from "./e-value.ts";
import { formatGate, type Gate, judgedGates } from "./gate.ts";
import { blockSizeOf, WINDOW_UNITS } from "./judgement.ts";

export interface DetectableRequest {
  readonly gates: readonly Gate[];
  readonly share: number;
  readonly alpha: number;
  /** Measured units of both arms until the end of the rollout. */
  readonly units: number;
}

export interface DetectableEffect {
  readonly gate: string;
  /** Treatment over control; a treatment beyond it is rolled back with a probability of about 95 %. null: no effect is. */
  readonly ratio: number | null;
}

export function detectableEffects(request: DetectableRequest): readonly DetectableEffect[] {
  const difference = detectableDifference(request);
  return request.gates.map((gate) => {
    const ratio = difference === null ? null : ratioOf(gate, difference);
    return { gate: formatGate(gate), ratio: ratio === null ? null : Math.round(100 * ratio) / 100 };
  });
}

/** The smallest mean difference of scores that one gate detects; null: none. */
export function detectableDifference({ gates, share, alpha, units }: DetectableRequest): number | null {
  const size = blockSizeOf(share);
  const blocks = (1 - LOST_BLOCKS) * ((units - WINDOW_UNITS / (1 - share)) / size);
  if (blocks < 1) return null;
  const variance = (SCORE_VARIANCE / (1 - LOST_BLOCKS)) * (1 / (size * share) + 1 / (size * (1 - share)));
  const target = Math.log((judgedGates(gates).length * RATES.length) / alpha);
  // The logarithm of the capital grows by g per block with a variance of about 2g. In 95 % of the cases it exceeds
  // n·g - 1.645·√(2·n·g); the root below is the √(n·g) for which this is the target.
  const root = (Z_95 * Math.SQRT2 + Math.sqrt(2 * Z_95 ** 2 + 4 * target)) / 2;
  const needed = root ** 2 / blocks;
  const growth = (difference: number): number =>
    Math.max(...RATES.map((rate) => rate * difference - (rate ** 2 / 2) * (variance + difference ** 2)));
  if (growth(1) < needed) return null;
  let [low, high] = [0, 1];
  for (let step = 0; step < 30; step += 1) {
    const middle = (low + high) / 2;
    if (growth(middle) < needed) low = middle;
    else high = middle;
  }
  return high;
}

function ratioOf({ metric, ratio }: Gate, difference: number): number | null {
  switch (metric) {
    case "run_lock_wait_p95":
    case "job_result_latency_p95":
    case "admission_wait_p95": {
      const above = TAIL + difference * TAIL_CAP;
      return (ratio * Math.log(TAIL)) / Math.log(above);
    }
    case "lock_busy_retries":
      return ratio * (1 + difference / COUNT_MEAN);
    case "first_retry_success":
      return positive(ratio - difference / SUCCESS_MEAN);
    case "results":
      return positive(ratio - difference / RESULTS_MEAN);
    case "dead_letters":
      // Too rare for a ratio; the safety stop reacts to them.
      return null;
    default:
      return metric satisfies never;
  }
}

const positive = (ratio: number): number | null => (ratio > 0 ? ratio : null);

const Z_95 = 1.645;
/** Of the score of a unit: an event with a probability of 0.2. */
const SCORE_VARIANCE = 0.16;
/** Blocks without both arms. The number of treatment units per block varies by as much, which adds to the variance. */
const LOST_BLOCKS = 0.13;
/** Durations have an exponential tail, and a slow unit has a third of its observations above the p95. */
const TAIL = 0.05;
const TAIL_CAP = 0.33;
/** Mean of the counts over their p95, mean first-retry success, and mean of the results over the usual number. */
const COUNT_MEAN = 0.3;
const SUCCESS_MEAN = 0.5;
const RESULTS_MEAN = 0.7;
