/**
 * The latency with which a small row takes as long under virtual time as it took live.
 *
 * A ping tells how long an idle line takes. Whoever takes his turn at a lock also waits for servers and processes that
 * work: the simulation knows nothing of that time, so it counts as time on the way.
 */
export async function fittedLatency(
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
