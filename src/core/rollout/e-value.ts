/**
 * Tests by betting (Waudby-Smith and Ramdas, arXiv 2010.09686): for each rate λ, a capital that starts at 1 and is multiplied
 * by 1 + λd for every difference d in [-1, 1]. If the conditional mean of the differences is never positive, the mean of the
 * capitals is a nonnegative supermartingale. By Ville's inequality it ever reaches 1/α with probability α at most.
 */
export const RATES = [0.02, 0.05, 0.1, 0.2, 0.4, 0.8] as const;

/** The logarithm of the capital of each rate. */
export type Capital = readonly number[];

export const NO_BETS: Capital = RATES.map(() => 0);

export function bet(capital: number[], difference: number): void {
  for (const [at, rate] of RATES.entries()) capital[at] = (capital[at] ?? 0) + Math.log1p(rate * difference);
}

/** Capped, so that it stays a JSON number. */
export function eValueOf(capital: Capital): number {
  let sum = 0;
  for (const log of capital) sum += Math.exp(log);
  return Math.min(E_VALUE_MAX, sum / RATES.length);
}

/**
 * How many more bets like the past ones lead to an e-value of `target`; 0 when it is reached, null when the capital does not
 * grow.
 */
export function betsUntil(capital: Capital, bets: number, target: number): number | null {
  if (eValueOf(capital) >= target) return 0;
  if (bets === 0) return null;
  const needed = Math.log(target * RATES.length);
  const waits = capital.filter((log) => log > 0).map((log) => Math.max(1, ((needed - log) * bets) / log));
  return waits.length === 0 ? null : Math.ceil(Math.min(...waits));
}

const E_VALUE_MAX = 1e12;
