/**
 * What to simulate with, from one small row that was run live.
 *
 * 1. How long a process is busy with a step (a message, an answer, a timer) is measured: what the row kept all processes busy
 *    for, shared among the steps that it has under virtual time.
 * 2. What that does not explain of the time which the row took was spent on the way.
 */
import { rounded } from "./statistics.ts";

export interface CalibrationRow {
  readonly tookMs: number;
  /** The threads of all processes together. */
  readonly busyMs: number;
  /** One way on an idle line. */
  readonly pingedMs: number;
}

export interface SimulatedCosts {
  readonly latencyMs: number;
  readonly stepMs: number;
}

export async function calibrate(
  { tookMs, busyMs, pingedMs }: CalibrationRow,
  simulated: (tried: SimulatedCosts) => Promise<{ readonly tookMs: number; readonly steps: number }>,
): Promise<SimulatedCosts> {
  const { steps } = await simulated({ latencyMs: pingedMs, stepMs: 0 });
  const stepMs = steps === 0 ? 0 : rounded(busyMs / steps);
  const latencyMs = await fitLatency(tookMs, pingedMs, async (triedMs) => {
    return (await simulated({ latencyMs: triedMs, stepMs })).tookMs;
  });
  return { latencyMs: rounded(latencyMs), stepMs };
}

/**
 * The latency with which a small row takes as long under virtual time as it took live.
 *
 * A ping tells how long an idle line takes. Whoever takes his turn at a lock also waits for servers that work and for a
 * machine that wakes others: the simulation knows nothing of that time, so it counts as time on the way.
 */
export async function fitLatency(
  measured: number,
  fromMs: number,
  simulated: (latencyMs: number) => Promise<number>,
): Promise<number> {
  let [low, high] = [fromMs, fromMs];
  // The longer the way, the longer it takes. Never less than the ping.
  while ((await simulated(high)) < measured) {
    if (high >= FACTOR_MAX * fromMs) return high;
    low = high;
    high *= 2;
  }
  while (high - low > PRECISION * low) {
    const middle = (low + high) / 2;
    if ((await simulated(middle)) < measured) low = middle;
    else high = middle;
  }
  return low;
}

/** More is not a line, but something that is broken. */
const FACTOR_MAX = 100;
const PRECISION = 0.02;
