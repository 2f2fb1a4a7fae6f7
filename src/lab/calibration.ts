/**
 * Derives the costs of the simulation from one small row that was run live.
 *
 * `stepMs`, the CPU time of one step (a message, a response or a timer), is the busy time of all processes divided by the
 * number of simulated steps. `latencyMs` is the one-way latency with which the simulated row takes as long as the live one.
 */
import { rounded } from "./statistics.ts";

export interface CalibrationRow {
  readonly tookMs: number;
  /** Busy time of the threads of all processes. */
  readonly busyMs: number;
  /** Half of the round trip on an idle connection. */
  readonly pingedMs: number;
}

export interface SimulatedCosts {
  readonly latencyMs: number;
  readonly stepMs: number;
}

export async function calibrate(
  { tookMs, busyMs, pingedMs }: CalibrationRow,
  simulate: (costs: SimulatedCosts) => Promise<{ readonly tookMs: number; readonly steps: number }>,
): Promise<SimulatedCosts> {
  const { steps } = await simulate({ latencyMs: pingedMs, stepMs: 0 });
  const stepMs = steps === 0 ? 0 : rounded(busyMs / steps);
  const latencyMs = await fitLatency(tookMs, pingedMs, async (triedMs) => {
    return (await simulate({ latencyMs: triedMs, stepMs })).tookMs;
  });
  return { latencyMs: rounded(latencyMs), stepMs };
}

/**
 * Finds the latency at which `simulate` returns the measured duration, by bisection. It is at least `fromMs`: a ping
 * excludes the load of the servers and the wake-up time of processes, which count as latency here.
 */
export async function fitLatency(
  measuredMs: number,
  fromMs: number,
  simulate: (latencyMs: number) => Promise<number>,
): Promise<number> {
  let [low, high] = [fromMs, fromMs];
  while ((await simulate(high)) < measuredMs) {
    if (high >= FACTOR_MAX * fromMs) return high;
    low = high;
    high *= 2;
  }
  while (high - low > PRECISION * low) {
    const middle = (low + high) / 2;
    if ((await simulate(middle)) < measuredMs) low = middle;
    else high = middle;
  }
  return low;
}

const FACTOR_MAX = 100;
const PRECISION = 0.02;
