/** Whether retries arrive in waves: a peak far above that of as many arrivals at random times. */

export type Verdict = "waves" | "spread" | "few";

interface Spread {
  readonly total: number;
  readonly peak: number;
  readonly poisson: { readonly peak: number };
}

export function verdictOf({ total, peak, poisson }: Spread): Verdict {
  if (total < ARRIVALS_MIN) return "few";
  return peak > FACTOR * poisson.peak ? "waves" : "spread";
}

const ARRIVALS_MIN = 20;
/** The peaks of two Poisson streams of the same rate differ by less. */
const FACTOR = 2;
